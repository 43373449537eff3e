"""Several logs move to another directory at a time, and one of them never twice at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.storage.directories import moves as log_moves
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager, LogManagerConfig
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW, batch, values_of
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
COUNT = 30


class HeldFiles(InstantFiles):
    """Flushes of the directory ``held`` wait until ``go``."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ""
        self.go = asyncio.Event()

    async def flush_directory(self, path: str) -> None:
        if path == self.held:
            await self.go.wait()
        await super().flush_directory(path)


@contextlib.asynccontextmanager
async def moving(threads: int | None, files: InstantFiles) -> AsyncIterator[LogManager]:
    """Two logs in ``/d``, from which slices of a batch are moved."""
    config = LogManagerConfig(("/d", "/e"), num_replica_alter_log_dirs_threads=threads)
    logs = LogManager(files, VirtualClock(), ManualWorkers(), config)
    async with asyncio.TaskGroup() as tasks:
        await logs.start(tasks)
        for partition in (A, B):
            logs.moves.preferred[partition] = "/d"
            log = logs.get_or_create(partition, UUID(int=5), LogConfig())
            for number in range(COUNT):
                log.append_as_leader(bytearray(batch(b"%d" % number)), 0, NOW)
        yield logs
        await logs.shutdown()


async def turns(reached: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if reached():
            return
        await asyncio.sleep(0)
    raise AssertionError("not reached")


async def until_moved(logs: LogManager, partition: TopicPartition, path: str) -> None:
    await turns(lambda: logs.logs()[partition].directory == f"{path}/{partition}")


@pytest.mark.parametrize("threads", [1, 2, None])
async def test_as_many_as_there_are_threads(
    threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_moves, "_SLICE_BYTES", 1)
    async with moving(threads, InstantFiles()) as logs:
        for partition in (A, B):
            logs.moves.begin(partition, "/e", logs.get(partition))
        futures = logs.directories.live[1].futures
        await turns(lambda: futures[A].log_end_offset > COUNT // 2)
        assert (futures[B].log_end_offset > 0) == (threads != 1)
        await until_moved(logs, A, "/e")
        await until_moved(logs, B, "/e")
        assert [len(values_of(logs.logs()[p])) for p in (A, B)] == [COUNT] * 2


async def test_a_log_that_moves_back_waits_for_the_end_of_its_move() -> None:
    """Else the end of the first would put aside what the second has just put in place."""
    files = HeldFiles()
    async with moving(2, files) as logs:
        logs.moves.begin(A, "/e", logs.get(A))
        await turns(lambda: logs.directories.live[1].futures[A].log_end_offset > 0)
        files.held = "/d"  # where the old directory gets another name
        await until_moved(logs, A, "/e")
        logs.moves.begin(A, "/d", logs.get(A))
        logs.moves.begin(B, "/e", logs.get(B))
        for _ in range(200):
            await asyncio.sleep(0)
        assert logs.logs()[A].directory == "/e/a-0"
        files.go.set()
        await until_moved(logs, A, "/d")
        await until_moved(logs, B, "/e")
        for _ in range(50):
            await asyncio.sleep(0)
        assert files.exists("/d/a-0")
        assert [len(values_of(logs.logs()[p])) for p in (A, B)] == [COUNT] * 2
