"""Log managers on files in memory."""

from __future__ import annotations

from typing import Any

from minikafka.server.storage.directories.log_manager import LogManager, LogManagerConfig
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW, batch
from tests.support.world.manual_workers import ManualWorkers
from tests.support.world.virtual_clock import VirtualClock


def manager(files: InstantFiles, *dirs: str, clock: Any = None, **config: Any) -> LogManager:
    settings = LogManagerConfig(log_dirs=dirs or ("/d",), **config)
    return LogManager(files, clock or VirtualClock(), ManualWorkers(), settings)


async def started(files: InstantFiles, *dirs: str, **config: Any) -> LogManager:
    made = manager(files, *dirs, **config)
    await made.start()
    return made


def fill(log: UnifiedLog, count: int, size: int = 100) -> None:
    for _ in range(count):
        log.append_as_leader(batch(bytes(size)), 0, NOW)
