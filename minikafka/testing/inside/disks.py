"""The faults of disks: full, broken and slow, by the file tree of a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from minikafka.world.memory.file_tree import DiskTrouble, FileTree


@dataclass(eq=False)
class DiskFault:
    """One fault. ``struck`` is called when an operation fails or was slowed by it."""

    capacity_bytes: int | None = None
    broken: str | None = None
    latency_s: float = 0.0
    struck: Callable[[], object] = field(default=lambda: None)

    @property
    def trouble(self) -> DiskTrouble:
        if self.capacity_bytes is not None:
            return DiskTrouble.FULL
        return DiskTrouble.SLOW if self.broken is None else DiskTrouble.BROKEN


class DiskFaults:
    """The faults of all disks. Several faults of one disk add up: the least capacity, all broken
    paths, the longest latency."""

    def __init__(self) -> None:
        self._faults: dict[FileTree, list[DiskFault]] = {}

    def add(self, tree: FileTree, fault: DiskFault) -> None:
        self._faults.setdefault(tree, []).append(fault)
        self._apply(tree)

    def remove(self, tree: FileTree, fault: DiskFault) -> None:
        self._faults[tree].remove(fault)
        self._apply(tree)
        if not self._faults[tree]:
            del self._faults[tree]

    def _apply(self, tree: FileTree) -> None:
        faults = self._faults[tree]

        def troubled(trouble: DiskTrouble) -> None:
            for fault in faults:
                if fault.trouble is trouble:
                    fault.struck()

        capacities = [f.capacity_bytes for f in faults if f.capacity_bytes is not None]
        tree.capacity_bytes = min(capacities, default=None)
        tree.broken = [fault.broken for fault in faults if fault.broken is not None]
        tree.latency_s = max((fault.latency_s for fault in faults), default=0.0)
        tree.troubled = troubled
