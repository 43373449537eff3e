"""The simulated disk: what a killed process, a power loss and a full disk leave behind."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.world.sim.disk import WRITE_BACK_BYTES, FileTruncation, FileWrite, SimInode
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.process import HostDown
from minikafka.world.sim.world import SimHost, SimWorld

SEEDS = range(30)


def simulate(seed: int, main: Callable[[SimHost], Coroutine[Any, Any, Any]]) -> Any:
    world = SimWorld(seed)
    host = world.host("broker")

    async def start() -> Any:
        host.world.files.make_directories("/data")
        await host.world.files.flush_directory("/")
        return await main(host)

    return world.run(start())


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_a_killed_process_loses_nothing_it_wrote(seed: int) -> None:
    async def main(host: SimHost) -> None:
        file = host.world.files.open("/data/log", create=True)
        file.write(b"never flushed", 0)
        host.world.files.rename("/data/log", "/data/renamed")
        await host.kill()
        files = host.restart().files
        assert files.read_all("/data/renamed") == b"never flushed"
        assert files.list("/data") == ["renamed"]

    simulate(seed, main)


def test_a_dead_process_reaches_its_files_no_more() -> None:
    async def main(host: SimHost) -> None:
        files = host.world.files
        file = files.open("/data/log", create=True)
        await host.kill()
        host.restart()
        for use in (
            lambda: file.write(b"x", 0),
            lambda: files.open("/data/log"),
            lambda: files.replace_unsynced("/data/log", b"x"),
            lambda: files.remove("/data/log"),
        ):
            with pytest.raises(HostDown):
                use()
        file.close()
        assert host.world.files.read_all("/data/log") == b""

    simulate(1, main)


def test_locks_go_with_their_process() -> None:
    async def main(host: SimHost) -> None:
        host.world.files.lock("/data/.lock")
        await host.kill()
        again = host.restart().files
        again.lock("/data/.lock")
        with pytest.raises(BlockingIOError):
            again.lock("/data/.lock")

    simulate(1, main)


def test_power_loss_keeps_flushed_bytes_and_some_of_the_rest() -> None:
    left: set[int] = set()

    async def main(host: SimHost) -> None:
        file = host.world.files.open("/data/log", create=True)
        await host.world.files.flush_directory("/data")
        file.write(b"A" * 100, 0)
        await file.flush()
        file.write(b"B" * 100, 100)
        file.write(b"C" * 100, 200)
        await host.crash()
        data = host.restart().files.read_all("/data/log")
        left.add(len(data))
        whole = b"A" * 100 + b"B" * 100 + b"C" * 100
        assert len(data) >= 100
        assert data.rstrip(b"\0") == whole[: len(data.rstrip(b"\0"))]

    for seed in SEEDS:
        simulate(seed, main)
    assert {100, 300} <= left
    assert left - {100, 200, 300}, "nothing was ever torn"


def test_an_unflushed_name_may_be_lost_and_a_flushed_one_not() -> None:
    found: set[tuple[str, ...]] = set()

    async def main(host: SimHost) -> None:
        files = host.world.files
        await files.open("/data/a", create=True).flush()
        await files.flush_directory("/data")
        await files.open("/data/b", create=True).flush()
        files.rename("/data/b", "/data/c")
        files.remove("/data/a")
        await host.crash()
        found.add(tuple(host.restart().files.list("/data")))

    for seed in SEEDS:
        simulate(seed, main)
    assert found == {("a",), ("a", "b"), ("a", "c"), ("c",)}


def test_replace_leaves_the_old_or_the_new_and_after_its_return_the_new() -> None:
    found: set[bytes] = set()

    async def main(host: SimHost, wait_us: int | None) -> None:
        await host.world.files.replace("/data/checkpoint", b"old")
        replacing = host.spawn(host.world.files.replace("/data/checkpoint", b"new"))
        if wait_us is None:
            await replacing
        else:
            await host.world.clock.sleep(0)
            await sleep_us(host, wait_us)
        await host.crash()
        found.add(host.restart().files.read_all("/data/checkpoint"))

    async def sleep_us(host: SimHost, delay_us: int) -> None:
        await host.world.clock.sleep(delay_us // 1000)

    for seed in SEEDS:
        simulate(seed, partial(lambda host, seed: main(host, seed * 200), seed=seed))
    assert found == {b"old", b"new"}
    found.clear()
    for seed in SEEDS:
        simulate(seed, lambda host: main(host, None))
    assert found == {b"new"}


def test_a_flush_covers_earlier_writes() -> None:
    async def main(host: SimHost) -> None:
        files = host.world.files
        file = files.open("/data/log", create=True)
        await files.flush_directory("/data")
        file.write(b"before", 0)
        flushing = host.spawn(file.flush())
        await host.world.clock.sleep(0)
        file.truncate(0)
        await flushing
        await host.crash()
        assert host.restart().files.read_all("/data/log") in (b"before", b"")

    for seed in SEEDS:
        simulate(seed, main)


def test_a_full_disk_takes_as_many_bytes_as_fit() -> None:
    async def main(host: SimHost) -> None:
        host.disk.capacity_bytes = 10
        files = host.world.files
        file = files.open("/data/log", create=True)
        file.write(b"1234567", 0)
        with pytest.raises(OSError) as caught:
            file.write(b"abcdef", 7)
        assert caught.value.errno == errno.ENOSPC
        assert file.read(100, 0) == b"1234567abc"
        file.write(b"XYZ", 0)  # no growth
        with pytest.raises(OSError):
            files.replace_unsynced("/data/other", b"x")
        with pytest.raises(OSError):
            file.truncate(11)
        file.truncate(4)
        files.open("/data/more", create=True).write(b"123456", 0)
        files.remove("/data/log")
        with pytest.raises(OSError):
            files.open("/data/more").write(b"7", 6)
        file.close()  # now its bytes are free
        files.open("/data/more").write(b"7890", 6)

    simulate(1, main)


def test_room_is_free_again_after_a_death() -> None:
    async def main(host: SimHost) -> None:
        host.disk.capacity_bytes = 10
        host.world.files.open("/data/gone", create=True).write(b"0123456789", 0)
        host.world.files.remove("/data/gone")
        await host.kill()
        host.restart().files.open("/data/new", create=True).write(b"0123456789", 0)
        assert host.disk.used_bytes == 10
        host.world.files.remove_tree("/data")
        await host.crash()
        files = host.restart().files
        names = files.list("/data") if files.exists("/data") else []
        assert host.disk.used_bytes == sum(files.size(f"/data/{name}") for name in names)

    for seed in SEEDS:
        simulate(seed, main)


def test_a_broken_disk_fails_below_its_path() -> None:
    async def main(host: SimHost) -> None:
        files = host.world.files
        files.make_directories("/data/one")
        files.make_directories("/data/two")
        file = files.open("/data/one/log", create=True)
        host.disk.broken.append("/data/one")
        with pytest.raises(OSError) as caught:
            file.write(b"x", 0)
        assert caught.value.errno == errno.EIO
        with pytest.raises(OSError):
            await file.flush()
        files.open("/data/two/log", create=True).write(b"x", 0)

    simulate(1, main)


change = st.one_of(
    st.builds(FileWrite, st.integers(0, 20), st.binary(max_size=6)),
    st.builds(FileTruncation, st.integers(0, 20)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(change, max_size=12), st.integers(0, 12), st.integers(0, 1000))
def test_a_power_loss_leaves_a_state_between_flush_and_crash(
    changes: list[FileWrite | FileTruncation], flushed: int, seed: int
) -> None:
    """Up to one torn change, the file is as it was at some moment after the last flush."""
    inode, states = SimInode(), [b""]
    for made in changes:
        inode.change(made)
        states.append(bytes(inode.data))
    flushed = min(flushed, len(changes))
    inode.flush(flushed)
    assert bytes(inode.durable) == states[flushed]
    inode.lose_power(SimEntropy(seed))
    left = bytes(inode.data)
    assert bytes(inode.durable) == left
    assert any(torn_from(left, before, after) for before, after in steps(states[flushed:]))


def steps(states: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(states, [*states[1:], states[-1]], strict=True))


def torn_from(left: bytes, before: bytes, after: bytes) -> bool:
    """Every byte is the old or the new one, or a zero of a file grown before it was filled."""
    padded = before.ljust(len(left), b"\0"), after.ljust(len(left), b"\0")
    return len(before) <= len(left) <= max(len(before), len(after)) and all(
        found in (old, new, 0) for found, old, new in zip(left, *padded, strict=False)
    )


def test_old_changes_are_written_back() -> None:
    inode = SimInode()
    piece = bytes(1 << 20)
    for number in range(8):
        inode.change(FileWrite(number << 20, piece))
    assert inode.dirty_bytes <= WRITE_BACK_BYTES
    assert len(inode.durable) >= (8 << 20) - WRITE_BACK_BYTES
