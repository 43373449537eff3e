"""How logs end: deletion, flushes that fail, shutdowns on a broken disk."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager
from minikafka.server.storage.log.sparse_index import SparseIndex
from minikafka.world.sim.disk import SimFile
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.log_managers import fill, manager, started
from tests.support.world.virtual_clock import VirtualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
ID = UUID("12345678-1234-5678-1234-567812345678")
SMALL = LogConfig(segment_bytes=200)


# ---------------------------------------------------------------------------------------- deletion


@contextlib.asynccontextmanager
async def removing(logs: LogManager) -> AsyncIterator[None]:
    task = asyncio.create_task(logs.removal.run())
    yield
    task.cancel()
    await asyncio.wait([task])


async def test_a_deleted_log_is_put_aside_and_removed_later() -> None:
    files, clock = InstantFiles(), VirtualClock()
    logs = await started(files, clock=clock, file_delete_delay_ms=1000)
    fill(logs.get_or_create(A, ID, LogConfig()), 1)
    await logs.delete(A)
    await logs.delete(A)
    assert logs.get(A) is None
    (aside,) = [name for name in files.list("/d") if name.startswith("a-")]
    stem, _, rest = aside.partition(".")
    assert (stem, len(rest), rest[32:]) == ("a-0", 39, "-delete")
    assert logs.get_or_create(A, UUID(int=9), LogConfig()).log_end_offset == 0
    async with removing(logs):
        await clock.advance(999)
        assert files.is_directory(f"/d/{aside}")
        await clock.advance(1)
        assert not files.is_directory(f"/d/{aside}")
    assert files.is_directory("/d/a-0")


async def test_deleted_logs_are_removed_after_a_restart_too() -> None:
    files, clock = InstantFiles(), VirtualClock()
    logs = await started(files)
    logs.get_or_create(A, ID, LogConfig())
    await logs.delete(A)
    await logs.shutdown()
    again = await started(files, clock=clock)
    assert again.logs() == {}
    assert len([n for n in files.list("/d") if n.endswith("-delete")]) == 1
    async with removing(again):
        await clock.advance(60_000)
    assert not [n for n in files.list("/d") if n.endswith("-delete")]


async def test_a_removal_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files, clock = InstantFiles(), VirtualClock()
    logs = await started(files, clock=clock, file_delete_delay_ms=1000)
    logs.get_or_create(A, ID, LogConfig())
    await logs.delete(A)
    with monkeypatch.context() as patch:

        async def refuse(path: str) -> None:
            raise OSError("busy")

        patch.setattr(files, "discard", refuse)
        async with removing(logs):
            await clock.advance(1000)
    assert [n for n in files.list("/d") if n.endswith("-delete")]
    async with removing(logs):
        await clock.advance(1000)
    assert not [n for n in files.list("/d") if n.endswith("-delete")]


async def test_a_recreated_log_inherits_nothing_from_the_checkpoints() -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, SMALL)
    fill(log, 9)
    log.increment_log_start_offset(8)
    log.truncate_fully_and_start_at(8)
    await log.flush()
    fill(log, 3)
    log.increment_log_start_offset(9)
    await log.flush()
    await logs.checkpoint()
    assert files.read_all("/d/log-start-offset-checkpoint") == b"0\n1\na 0 9\n"
    await logs.delete(A)
    fill(logs.get_or_create(A, UUID(int=9), SMALL), 5)
    logs.close()
    again = (await started(files)).get(A)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 5, 0)


async def test_a_flush_under_way_does_not_write_into_the_next_log_of_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    logs = await started(files)
    log = logs.get_or_create(A, ID, SMALL)
    fill(log, 2)  # one each to two segments
    on_disk = asyncio.Event()

    async def slow(file: SimFile) -> None:
        await on_disk.wait()  # closing the file during a flush is no error, as on a real disk

    monkeypatch.setattr(SimFile, "flush", slow)
    flushing = asyncio.create_task(log.flush())
    await asyncio.sleep(0)
    await logs.delete(A)
    fill(logs.get_or_create(A, UUID(int=9), SMALL), 1)
    before = files.list("/d/a-0")
    on_disk.set()
    await asyncio.gather(flushing, return_exceptions=True)
    assert files.list("/d/a-0") == before


# --------------------------------------------------------------------------------------- failures


async def test_a_log_whose_flush_failed_is_recovered_by_the_next_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    logs = await started(files, "/d", "/e")
    for topic_partition in (A, B):
        fill(logs.get_or_create(topic_partition, ID, SMALL), 3)
    with monkeypatch.context() as patch:
        real = SimFile.flush

        async def failing(self: SimFile) -> None:
            if "/d/a-0" in self._path:
                raise OSError("bad sector")
            await real(self)

        patch.setattr(SimFile, "flush", failing)
        await logs.checkpoint()
    await logs.shutdown()  # would succeed now, and prove nothing
    assert not files.exists("/d/.kafka_cleanshutdown")
    assert files.exists("/e/.kafka_cleanshutdown")
    again = await started(files, "/d", "/e")
    assert again.logs()[A].recovery_point == 0
    assert again.logs()[B].recovery_point == 3


async def test_a_shutdown_on_a_broken_disk_lets_go_of_the_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    logs = await started(files)
    fill(logs.get_or_create(A, ID, SMALL), 3)
    files.break_below()
    await logs.shutdown()
    files.repair()
    again = await started(files)
    assert again.logs()[A].log_end_offset == 3

    def full(_: SparseIndex) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        fill(again.logs()[A], 1)
        patch.setattr(SparseIndex, "persist", full)
        await again.shutdown()
    assert not files.exists("/d/.kafka_cleanshutdown")


async def test_a_broker_that_never_loaded_leaves_no_marker() -> None:
    files = InstantFiles()
    logs = manager(files)
    await logs.broker_id()
    await logs.shutdown()
    assert not files.exists("/d/.kafka_cleanshutdown")
    (await started(files)).close()
