"""A simulated disk: the page cache, and the part of it that would survive a power loss.

``SimFiles`` is one process's view of its host's disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import field
from typing import TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Buffer
from minikafka.world.memory.file_tree import (
    Directory,
    FileTree,
    Inode,
    Node,
    enter,
    truncate_to,
    write_into,
)
from minikafka.world.memory.files import MemoryFile, MemoryFiles
from minikafka.world.sim.clock import universal_ms
from minikafka.world.sim.entropy import SimEntropy
from minikafka.world.sim.process import Process
from minikafka.world.sim.trace import Trace

TEAR_PROBABILITY = 0.5
ZERO_FILL_PROBABILITY = 0.25
WRITE_BACK_BYTES = 4 << 20  # of changes to one file; the kernel writes older ones to the disk


@dataclass(frozen=True, slots=True)
class FileWrite:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FileTruncation:
    length: int


Change: TypeAlias = FileWrite | FileTruncation


def apply(image: bytearray, change: Change) -> None:
    if isinstance(change, FileTruncation):
        truncate_to(image, change.length)
    else:
        write_into(image, change.data, change.offset)


def _weight(change: Change) -> int:
    return len(change.data) if isinstance(change, FileWrite) else 0


@dataclass(eq=False, slots=True)
class SimInode(Inode):
    """A file. ``data`` is its content in the page cache, ``durable`` the content on the disk.
    ``changes`` applied to ``durable`` give ``data``."""

    durable: bytearray = field(default_factory=bytearray)
    changes: deque[Change] = field(default_factory=deque)
    flushed: int = 0  # number of changes made durable so far
    dirty_bytes: int = 0

    def write(self, data: Buffer, offset: int) -> None:
        self.change(FileWrite(offset, bytes(data)))

    def truncate(self, length: int) -> None:
        self.change(FileTruncation(length))

    def change(self, change: Change) -> None:
        apply(self.data, change)
        self.changes.append(change)
        self.dirty_bytes += _weight(change)
        while self.dirty_bytes > WRITE_BACK_BYTES:
            self.flush(self.flushed + 1)

    def mark(self) -> int:
        return self.flushed + len(self.changes)

    def flush(self, mark: int) -> None:
        while self.flushed < mark:
            change = self.changes.popleft()
            self.dirty_bytes -= _weight(change)
            apply(self.durable, change)
            self.flushed += 1

    def lose_power(self, entropy: SimEntropy) -> None:
        """Lose a random number of the last changes. The first lost write may be torn: its first
        bytes survive, or only the file's length, with zeros."""
        self.flush(self.flushed + entropy.between(0, len(self.changes)))
        if self.changes and isinstance(torn := self.changes[0], FileWrite):
            if entropy.random() < TEAR_PROBABILITY:
                kept = entropy.between(0, len(torn.data))
                apply(self.durable, FileWrite(torn.offset, torn.data[:kept]))
            if entropy.random() < ZERO_FILL_PROBABILITY:
                missing = torn.offset + len(torn.data) - len(self.durable)
                self.durable.extend(bytes(max(0, missing)))
        self.flushed += len(self.changes)
        self.changes.clear()
        self.dirty_bytes = 0
        self.data = bytearray(self.durable)
        self.lock_owner = None


@dataclass(eq=False, slots=True)
class SimDirectory(Directory):
    """Each element of ``changes`` is atomic; it maps names to their new nodes (None: removed). As
    in POSIX, flushing a file does not make its name durable."""

    durable: dict[str, Node] = field(default_factory=dict)
    changes: list[dict[str, Node | None]] = field(default_factory=list)

    def change(self, change: dict[str, Node | None]) -> None:
        enter(self.entries, change)
        self.changes.append(change)

    def flush(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def lose_power(self, entropy: SimEntropy) -> None:
        """Lose a random number of the last changes, here and in the nodes below."""
        for change in self.changes[: entropy.between(0, len(self.changes))]:
            enter(self.durable, change)
        self.entries = dict(self.durable)
        self.changes.clear()
        for name in sorted(self.entries):
            node = self.entries[name]
            assert isinstance(node, SimInode | SimDirectory)
            node.lose_power(entropy)


class Disk(FileTree):
    """The file system of one host. It outlives the host's processes."""

    def __init__(self, entropy: SimEntropy, trace: Trace) -> None:
        super().__init__()
        self.entropy = entropy
        self.slow_us = 0  # what each flush and each read from the disk takes longer
        self._trace = trace

    def new_file(self) -> SimInode:
        return SimInode()

    def new_directory(self) -> SimDirectory:
        return SimDirectory()

    # -------------------------------------------------------------------------------- power loss

    def crash(self) -> None:
        """Lose power: changes that were not flushed survive, are torn or are lost, at random. No
        process may have files open."""
        assert isinstance(self.root, SimDirectory)
        self.root.lose_power(self.entropy)
        self.used_bytes = 0
        self._count(self.root, "")

    def _count(self, directory: Directory, path: str) -> None:
        for name, node in sorted(directory.entries.items()):
            if isinstance(node, Directory):
                self._count(node, f"{path}/{name}")
            else:
                node.holders = 1
                self.used_bytes += len(node.data)
                self._trace.add("left", path=f"{path}/{name}", bytes=len(node.data))


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
