"""The simulated disk without simulated time, for tests of logs on asyncio's own loop or on none.

``world.sim.files`` flushes in simulated time, reads a part of the bytes from a cold disk and throws
dice for what a power loss leaves. Here a flush ends at once, all bytes are in the page cache, and a
power loss takes everything that was not flushed, unless a test gives other dice.
"""

from __future__ import annotations

from minikafka.world.sim.clock import EPOCH_MS
from minikafka.world.sim.disk import Disk, SimFiles
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.loop import START_US, SimLoop
from minikafka.world.sim.process import Process
from minikafka.world.sim.trace import Trace


class LowestDice(SimEntropy):
    """Every throw is the lowest number; nothing that has a probability below 1 happens."""

    def between(self, low: int, high: int) -> int:
        return low

    def random(self) -> float:
        return 1.0


class InstantFiles(SimFiles):
    """The files of one process, which restarts at once after a power loss."""

    def __init__(self) -> None:
        self._loop = SimLoop()
        self._loop.close()  # it runs nothing: the ports read its time
        self.set_wall_ms(0)
        disk = Disk(LowestDice("instant"), Trace(self._loop))
        super().__init__(Process(self._loop, "test"), disk)

    async def pause(self, bounds_us: tuple[int, int]) -> None:
        self.process.check()

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the Unix time of the next modifications."""
        self._loop.now_us = START_US + (wall_ms - EPOCH_MS) * 1000

    def leave_room(self, room_bytes: int) -> None:
        """Let the files grow by ``room_bytes`` before the disk is full."""
        self.disk.capacity_bytes = self.disk.used_bytes + room_bytes

    def break_below(self, path: str = "/") -> None:
        """Fail every use of a path below ``path`` until ``repair``."""
        self.disk.broken.append(path)

    def repair(self) -> None:
        self.disk.broken.clear()

    def crash(self) -> None:
        """Lose power: open files and locks are gone, and what the dice take."""
        self.close_all()
        self.disk.crash()
