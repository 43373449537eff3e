"""Log directories are loaded side by side: a slow or broken disk holds up no other."""

from __future__ import annotations

import asyncio
import errno
from uuid import UUID

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager, LogManagerConfig
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import batch
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
MARKER = ".kafka_cleanshutdown"


class SlowFiles(InstantFiles):
    """A flush of ``slow`` itself lasts until ``over``, and then fails if there is an ``error``."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = ""
        self.over = asyncio.Event()
        self.error: OSError | None = None

    async def flush_directory(self, path: str) -> None:
        if path == self.slow:
            await self.over.wait()
            if self.error is not None:
                raise self.error
        await super().flush_directory(path)


async def left_behind() -> SlowFiles:
    """By a broker with a log in each of two directories, which shut down in order."""
    files = SlowFiles()
    logs = manager(files)
    await logs.start()
    for partition in (A, B):
        log = logs.get_or_create(partition, UUID(int=5), LogConfig())
        log.append_as_leader(batch(b"x"), 0, 0)
    assert [list(d.logs) for d in logs.directories.live] == [[A], [B]]
    await logs.shutdown()
    return files


def manager(files: InstantFiles) -> LogManager:
    return LogManager(
        files, VirtualClock(), ManualWorkers(), LogManagerConfig(log_dirs=("/d", "/e"))
    )


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "broken")])
async def test_one_does_not_wait_for_another(error: OSError | None) -> None:
    files = await left_behind()
    files.slow, files.error = "/d", error
    logs = manager(files)
    start = asyncio.ensure_future(logs.start())
    for _ in range(20):
        await asyncio.sleep(0)
    assert list(logs.logs()) == [B]
    assert not start.done()
    files.over.set()
    await start
    assert set(logs.logs()) == ({A, B} if error is None else {B})
    assert list(logs.directories.offline) == ([] if error is None else ["/d"])
    assert logs.logs()[B].log_end_offset == 1
    await logs.shutdown()
    assert files.exists(f"/e/{MARKER}")


async def test_two_logs_of_a_partition_are_noticed_before_anything_is_touched() -> None:
    """The next start need not recover what was shut down in order."""
    files = await left_behind()
    files.make_directories("/e/a-0")
    logs = manager(files)
    with pytest.raises(ConfigError, match="two log directories hold a log of a-0"):
        await logs.start()
    logs.close()
    assert files.exists(f"/d/{MARKER}")
    assert files.exists(f"/e/{MARKER}")
    files.remove_tree("/e/a-0")
    again = manager(files)
    await again.start()
    assert [directory.clean for directory in again.directories.live] == [True, True]
    await again.shutdown()
