"""What every file system keeps to."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from minikafka.kernel.ports import World

if TYPE_CHECKING:
    from tests.contract.conftest import Play


@pytest.mark.mission("IN-4")
def test_bytes_are_read_where_they_were_written(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        assert file.size() == 0
        file.write(b"hello world", 0)
        file.write(memoryview(bytearray(b"W")), 6)
        assert file.read(5, 6) == b"World"
        assert file.size() == 11
        assert world.files.size(f"{directory}/f") == 11
        assert world.files.read_all(f"{directory}/f") == b"hello World"

    play(body)


def test_parts_are_written_one_behind_the_other(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"0123456789", 0)
        file.write_parts([b"a", memoryview(bytearray(b"bc")), b"", b"d"], 2)
        assert world.files.read_all(f"{directory}/f") == b"01abcd6789"

    play(body)


def test_a_read_is_short_only_at_the_end(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"abc", 0)
        assert file.read(10, 1) == b"bc"
        assert file.read(10, 3) == b""
        assert file.read(10, 100) == b""
        assert file.read(0, 0) == b""

    play(body)


def test_a_gap_reads_as_zeros(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"x", 4)
        assert file.read(5, 0) == b"\0\0\0\0x"

    play(body)


def test_truncate_cuts_and_extends(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"abcdef", 0)
        file.truncate(2)
        assert (file.size(), file.read(10, 0)) == (2, b"ab")
        file.truncate(4)
        assert file.read(10, 0) == b"ab\0\0"

    play(body)


@pytest.mark.parametrize("length", [0, 1, 70_000, 3_000_000])
def test_cold_reads_agree_with_warm_ones(play: Play, length: int) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        data = bytes(i * 7 % 251 for i in range(1000)) * (length // 1000 + 1)
        file.write(data[:length], 0)
        assert await file.read_cold(length, 0) == data[:length]
        assert await file.read_cold(length + 10, 0) == data[:length]
        assert await file.read_cold(100, length // 2) == file.read(100, length // 2)
        assert file.view(length, 0) == data[:length]
        assert file.view_cached(length, 0) in (None, data[:length])

    play(body)


def test_two_handles_of_a_file_see_the_same_bytes(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        writer = world.files.open(f"{directory}/f", create=True)
        reader = world.files.open(f"{directory}/f")
        writer.write(b"news", 0)
        assert reader.read(10, 0) == b"news"

    play(body)


def test_opening_a_missing_file_fails_unless_create_is_set(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        with pytest.raises(FileNotFoundError):
            world.files.open(f"{directory}/f")
        with pytest.raises(FileNotFoundError):
            world.files.open(f"{directory}/nowhere/f", create=True)
        with pytest.raises(IsADirectoryError):
            world.files.open(directory)
        for call in (world.files.size, world.files.read_all, world.files.list):
            with pytest.raises(FileNotFoundError):
                call(f"{directory}/f")

    play(body)


def test_a_closed_file_is_a_bad_descriptor(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.close()
        file.close()
        with pytest.raises(OSError) as caught:
            file.write(b"x", 0)
        assert caught.value.errno == errno.EBADF
        with pytest.raises(OSError):
            await file.flush()

    play(body)


def test_an_open_file_outlives_its_name(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"still here", 0)
        world.files.remove(f"{directory}/f")
        assert not world.files.exists(f"{directory}/f")
        assert file.read(100, 0) == b"still here"
        await file.flush()

    play(body)


def test_directories_list_names_in_order(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        world.files.make_directories(f"{directory}/logs/b/deep")
        world.files.make_directories(f"{directory}/logs/b")
        for name in ("c", "a"):
            world.files.open(f"{directory}/logs/{name}", create=True).close()
        assert world.files.list(f"{directory}/logs") == ["a", "b", "c"]
        assert world.files.is_directory(f"{directory}/logs/b")
        assert not world.files.is_directory(f"{directory}/logs/a")
        assert not world.files.is_directory(f"{directory}/logs/none")
        assert world.files.exists(f"{directory}/logs/b/deep")
        with pytest.raises(NotADirectoryError):
            world.files.list(f"{directory}/logs/a")
        with pytest.raises(FileExistsError):
            world.files.make_directories(f"{directory}/logs/a")

    play(body)


def test_rename_replaces_a_file_and_moves_a_directory(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        files = world.files
        files.replace_unsynced(f"{directory}/new", b"new")
        files.replace_unsynced(f"{directory}/old", b"old")
        files.rename(f"{directory}/new", f"{directory}/old")
        assert files.read_all(f"{directory}/old") == b"new"
        files.make_directories(f"{directory}/topic-0")
        files.rename(f"{directory}/old", f"{directory}/topic-0/f")
        files.rename(f"{directory}/topic-0", f"{directory}/topic-0.gone-delete")
        assert files.list(directory) == ["topic-0.gone-delete"]
        assert files.read_all(f"{directory}/topic-0.gone-delete/f") == b"new"
        with pytest.raises(FileNotFoundError):
            files.rename(f"{directory}/topic-0", f"{directory}/x")

    play(body)


def test_removing_a_missing_file_is_no_error(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        files = world.files
        files.make_directories(f"{directory}/d/e")
        files.replace_unsynced(f"{directory}/d/e/f", b"x")
        files.remove(f"{directory}/d/e/f")
        files.remove(f"{directory}/d/e/f")
        with pytest.raises(IsADirectoryError):
            files.remove(f"{directory}/d")
        files.replace_unsynced(f"{directory}/d/e/f", b"x")
        files.remove_tree(f"{directory}/d")
        files.remove_tree(f"{directory}/d")
        assert files.list(directory) == []

    play(body)


def test_replace_leaves_one_whole_file(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        path = f"{directory}/recovery-point-offset-checkpoint"
        await world.files.replace(path, b"0\n" * 1000)
        await world.files.replace(path, b"1\n")
        world.files.replace_unsynced(f"{directory}/meta", b"")
        assert world.files.read_all(path) == b"1\n"
        assert world.files.list(directory) == ["meta", "recovery-point-offset-checkpoint"]

    play(body)


def test_flushes_return(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"x" * 5000, 0)
        await file.flush()
        await world.files.flush_directory(directory)
        with pytest.raises(FileNotFoundError):
            await world.files.flush_directory(f"{directory}/nowhere")

    play(body)


def test_a_file_may_be_closed_while_it_is_flushed(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"x" * 5000, 0)
        flush = file.flush()
        flush.send(None)  # under way
        file.close()
        world.files.open(f"{directory}/g", create=True)  # takes the number, were it free
        flush.close()

    play(body)


def test_a_file_may_be_closed_while_it_is_read_from_disk(play: Play) -> None:
    """The bound on open segments closes files without a look at the threads that read them."""

    async def body(world: World, directory: str) -> None:
        path = f"{directory}/f"
        file = world.files.open(path, create=True)
        data = bytes(range(256)) * 256
        file.write(data, 0)
        file.close()
        for length in range(1, 20):
            file = world.files.open(path)
            read = asyncio.ensure_future(file.read_cold(length * 1000, 1))
            await asyncio.sleep(0)
            file.close()
            other = world.files.open(f"{directory}/g", create=True)  # takes the number
            assert await read == data[1 : 1 + length * 1000]
            other.close()

    play(body)


def test_a_lock_has_one_owner(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        lock = world.files.lock(f"{directory}/.lock")
        with pytest.raises(BlockingIOError):
            world.files.lock(f"{directory}/.lock")
        lock.release()
        lock.release()
        world.files.lock(f"{directory}/.lock").release()
        assert world.files.exists(f"{directory}/.lock")

    play(body)


def test_discarding_takes_files_and_trees(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        files = world.files
        files.make_directories(f"{directory}/tree/below")
        for path in (f"{directory}/f", f"{directory}/tree/below/g"):
            files.open(path, create=True).close()
        await files.discard(f"{directory}/f")
        assert files.list(directory) == ["tree"]
        await files.discard(f"{directory}/tree")
        await files.discard(f"{directory}/tree")
        assert files.list(directory) == []

    play(body)


def test_modification_time_and_volume_of_a_file(play: Play) -> None:
    async def body(world: World, directory: str) -> None:
        file = world.files.open(f"{directory}/f", create=True)
        file.write(b"x", 0)
        age_ms = world.clock.wall_ms() - world.files.modified_ms(f"{directory}/f")
        assert abs(age_ms) < 60_000
        with pytest.raises(FileNotFoundError):
            world.files.modified_ms(f"{directory}/g")
        volume = world.files.volume(directory)
        assert 0 <= volume.usable_bytes < volume.total_bytes

    play(body)
