"""A process that appends to a log until it is killed, and prints its progress to standard error.

usage: python -m tests.support.storage.appending_process DIRECTORY
"""

from __future__ import annotations

import asyncio
import os
import sys

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager, LogManagerConfig
from minikafka.world.real.files import RealFiles
from minikafka.world.real.world import RealClock, RealWorkers

TP = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=200)


def new_manager(directory: str) -> LogManager:
    settings = LogManagerConfig((directory,), producer_id_expiration_ms=2**62, log=CONFIG)
    return LogManager(RealFiles(), RealClock(), RealWorkers(), settings)


async def append_for_ever(directory: str) -> None:
    """Append until killed. Each printed line is an acknowledged offset, or ``cut`` and the offset
    of a truncation."""
    manager = new_manager(directory)
    await manager.start()
    log = manager.get_or_create(TP, None, CONFIG)
    epoch = (log.latest_epoch or 0) + 1
    for count in range(10**9):
        if count % 97 == 96:
            offset = max(log.log_end_offset - 20, log.log_start_offset)
            tell(f"cut {offset}")
            log.truncate_to(offset)
            await log.flush()
            epoch += 1
        if count % 150 == 149:
            await manager.checkpoint()
        offset = log.log_end_offset
        value = b"%d " % offset + bytes(offset % 150)
        batch = build_batch(
            [(offset, None, value, [])], producer_id=7, producer_epoch=0, base_sequence=offset
        )
        log.append_as_leader(batch, epoch, 0)
        tell(str(offset))


def tell(line: str) -> None:
    os.write(sys.stderr.fileno(), f"{line}\n".encode())


if __name__ == "__main__":
    asyncio.run(append_for_ever(sys.argv[1]))
