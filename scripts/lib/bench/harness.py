"""What benchmarks share: waiting, rounds in turns, processes and their CPU time, percentiles."""

from __future__ import annotations

import compileall
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

import psutil

T = TypeVar("T")
Figures = dict[str, float]

REPOSITORY = Path(__file__).parents[3]
FRESH_MEMORY_BYTES = 2 << 30
PATIENCE_S = 60
JOB_LIMIT_S = 300
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest rank of a sorted sequence; 0 of an empty one."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def in_turns(measures: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Take rounds of all sides in turns: a disturbance of the machine affects every side."""
    found: dict[str, list[T]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return found


def medians(rounds: Sequence[Figures]) -> Figures:
    return {key: median(each[key] for each in rounds) for key in rounds[0]}


def wait_until(
    look: Callable[[], T], what: str, patience_s: float = PATIENCE_S, every_s: float = 0.05
) -> T:
    """Return what ``look`` returns as soon as it is true. Looks less often the longer it takes.

    Raises RuntimeError, which names ``what``, after ``patience_s``."""
    started = time.monotonic()
    while not (found := look()):
        waited = time.monotonic() - started
        if waited > patience_s:
            raise RuntimeError(f"not within {patience_s} s: {what}")
        time.sleep(max(every_s, waited / 50))
    return found


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Return the CPU time of the processes so far; of one that has ended it is 0."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:2])
    return total


def cpu_at_rest(processes: Sequence[psutil.Process], seconds: float) -> float:
    """Return the CPU time in milliseconds that a process takes in a second, the average of all."""
    before, started = cpu_seconds(processes), time.perf_counter()
    time.sleep(seconds)
    used = cpu_seconds(processes) - before
    return used / (time.perf_counter() - started) / len(processes) * 1000


def resident_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 1e6)


def take_memory(directory: Path) -> None:
    """Fill and drop as much page cache as a measurement needs.

    A virtual machine gets memory from its host at the first touch, which makes the first write to a
    page cost ten times the next one: the first side of a comparison would pay for both.
    """
    path, lump = directory / "memory", bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(FRESH_MEMORY_BYTES // len(lump)):
            file.write(lump)
    os.unlink(path)


@contextlib.contextmanager
def byte_code() -> Iterator[None]:
    """Write the byte code of the package, as pip does at an installation, and let child processes
    write theirs, even if the environment forbids it."""
    before = os.environ.pop(NO_BYTE_CODE, None)
    try:
        compileall.compile_dir(str(REPOSITORY / "minikafka"), quiet=1)
        yield
    finally:
        if before is not None:
            os.environ[NO_BYTE_CODE] = before


def figures_of(*command: object) -> Figures:
    """Run a command to its end. Return the figures in the last line of its output, a JSON object.

    Raises RuntimeError if the command fails."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=JOB_LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr[-3000:]}")
    figures: Figures = json.loads(done.stdout.rstrip().splitlines()[-1])
    return figures


@contextlib.contextmanager
def child(module: str, *arguments: object) -> Iterator[tuple[str, psutil.Process]]:
    """Run a module that prints one line when it is ready; the value is the line and the process."""
    command = [sys.executable, "-m", f"scripts.lib.bench.{module}", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{module} has ended before it was ready")
            yield line.strip(), psutil.Process(process.pid)
        finally:
            process.terminate()
