"""What this process takes of its machine: CPU, memory, descriptors, bytes from and to disks."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

IO: Final = Path("/proc/self/io")
PROCESS: Final = Path("/proc/self")
SYSTEM: Final = Path("/proc/stat")


def disk_bytes(name: str) -> Callable[[], int] | None:
    """Return what reads a count of Linux, ``read_bytes`` or ``write_bytes``; None on a system that
    has none, or does not show it to this process."""

    def read() -> int:
        lines = (line.partition(": ") for line in IO.read_text("ascii").splitlines())
        return int(next(value for key, _, value in lines if key == name))

    try:
        read()
    except (OSError, StopIteration):
        return None
    return read


def cpu_seconds() -> float:
    """Return the CPU time of this process since its start."""
    times = os.times()
    return times.user + times.system


def process_gauges() -> Iterator[tuple[str, float]]:
    """Yield what Prometheus' clients show of every process, by name. Linux only: elsewhere nothing
    is yielded."""
    try:
        stat = (PROCESS / "stat").read_text("ascii").rpartition(")")[2].split()
        resident_pages = int((PROCESS / "statm").read_text("ascii").split()[1])
        open_files = len(os.listdir(PROCESS / "fd"))
        boot = next(row for row in SYSTEM.read_text("ascii").splitlines() if row[:6] == "btime ")
    except (OSError, StopIteration):
        return
    started_s = int(stat[19]) / os.sysconf("SC_CLK_TCK")  # since the boot
    yield "start_time_seconds", int(boot.split()[1]) + started_s
    yield "resident_memory_bytes", resident_pages * os.sysconf("SC_PAGE_SIZE")
    yield "virtual_memory_bytes", int(stat[20])
    yield "open_fds", open_files
    yield "max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0]
