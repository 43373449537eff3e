"""The simulated Files: one process's view of its host's disk."""

from __future__ import annotations

import asyncio

from minikafka.kernel.ports import Buffer
from minikafka.world.memory.file_tree import Inode
from minikafka.world.memory.files import MemoryFile, MemoryFiles
from minikafka.world.sim.clock import universal_ms
from minikafka.world.sim.disk import Disk
from minikafka.world.sim.process import Process

FLUSH_US = (100, 3000)
COLD_READ_US = (50, 500)
COLD_PROBABILITY = 0.25


class SimFile(MemoryFile):
    """A part of its bytes, at random, is not in the page cache."""

    files: SimFiles

    async def read_cold(self, length: int, offset: int) -> bytes:
        self.checked()
        if self.files.disk.entropy.random() < COLD_PROBABILITY:
            await self.files.pause(COLD_READ_US)
        # No check: a real thread reads its open descriptor, even if the file was closed meanwhile.
        return bytes(self.inode.data[offset : offset + length])

    def view_cached(self, length: int, offset: int) -> Buffer | None:
        self.checked()
        if self.files.disk.entropy.random() < COLD_PROBABILITY:
            return None
        return self.read(length, offset)


class SimFiles(MemoryFiles):
    """See ``kernel.ports.Files``. Only flushes and cold reads take simulated time."""

    def __init__(self, process: Process, disk: Disk) -> None:
        super().__init__(disk)
        self.process = process
        self.disk = disk
        process.at_death(self.close_all)

    def wall_ms(self) -> int:
        return universal_ms(self.process.loop.now_us)

    def check_alive(self) -> None:
        self.process.check()

    async def flushing(self) -> None:
        await self.pause(FLUSH_US)

    async def pause(self, bounds_us: tuple[int, int]) -> None:
        pause_us = self.disk.entropy.between(*bounds_us) + self.disk.slow_us
        await asyncio.sleep(pause_us / 1_000_000)
        self.process.check()

    def open_inode(self, path: str, inode: Inode) -> SimFile:
        return SimFile(self, path, inode)
