"""Samples of the brokers' processes during a soak: memory, CPU, descriptors, tasks."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil

STALLED: Final = re.compile(r"loop_stalled .*stalled_ms=(\d+)")
LIMIT_S: Final = 10


class Sample(NamedTuple):
    """One broker at one time. ``cpu_s`` is all CPU time since the process began."""

    at: float
    broker: int
    rss_mb: float
    cpu_s: float
    descriptors: int
    threads: int
    tasks: int


class Processes:
    """The brokers' processes, in the order of their ids."""

    def __init__(self, pids: Sequence[int], debug_ports: Sequence[int]) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._debug_ports = debug_ports

    def look(self) -> list[Sample]:
        return [
            self._look_at(broker, process, port)
            for broker, (process, port) in enumerate(
                zip(self._processes, self._debug_ports, strict=True), start=1
            )
        ]

    @staticmethod
    def _look_at(broker: int, process: psutil.Process, port: int) -> Sample:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/tasks.json", timeout=LIMIT_S) as body:
            tasks = json.load(body)["num_tasks"]
        with process.oneshot():
            times = process.cpu_times()
            return Sample(
                time.monotonic(),
                broker,
                process.memory_info().rss / 1e6,
                times.user + times.system,
                process.num_fds(),
                process.num_threads(),
                tasks,
            )


def longest_stall_ms(logs: Sequence[Path]) -> int:
    """Return how long an event loop stood still at most, as the brokers themselves logged it."""
    found = (STALLED.findall(log.read_text(errors="replace")) for log in logs)
    return max((int(ms) for each in found for ms in each), default=0)
