"""Jobs in forked children: each with its own memory, bounded in time, ended with all it started."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

SURVIVED, KILLED, SKIPPED, FAULT = 0, 1, 2, 3  # exit codes of a child
MEMORY_BYTES = 1 << 30  # what a child may take on top of what it is born with
POLL_SECONDS = 0.004
EXITED_OR_NOT = os.WEXITED | os.WNOHANG | os.WNOWAIT


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a child ended: ``status`` is its exit code, or minus the signal that ended it."""

    job: T
    status: int
    note: str
    seconds: float

    @property
    def timed_out(self) -> bool:
        return self.status in (-signal.SIGPROF, -signal.SIGALRM, -signal.SIGKILL)


def allow(cpu_seconds: float, wall_seconds: float) -> None:
    """In a child: end it when it has used this much from now on."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, wall_seconds)


def each(
    jobs: Iterable[T], child: Callable[[T, Callable[[str], None]], int], workers: int
) -> Iterator[Ended[T]]:
    """Run ``child(job, note)`` for each job, ``workers`` at a time, and yield as they end."""
    waiting = iter(jobs)
    running: dict[int, tuple[T, int, float]] = {}
    exhausted = False
    try:
        while running or not exhausted:
            while len(running) < workers and not exhausted:
                job = next(waiting, None)
                if job is None:
                    exhausted = True
                else:
                    pid, notes = start(job, child)
                    running[pid] = (job, notes, time.monotonic())
            ended = [pid for pid in running if os.waitid(os.P_PID, pid, EXITED_OR_NOT) is not None]
            for pid in ended:
                kill_group(pid)
                _, status = os.waitpid(pid, 0)
                job, notes, started = running.pop(pid)
                note = read_all(notes)
                code = os.waitstatus_to_exitcode(status)
                yield Ended(job, code, note, time.monotonic() - started)
            if not ended:
                time.sleep(POLL_SECONDS)
    finally:
        for pid, (_, notes, _) in running.items():
            kill_group(pid)
            os.waitpid(pid, 0)
            os.close(notes)


def start(job: T, child: Callable[[T, Callable[[str], None]], int]) -> tuple[int, int]:
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = FAULT
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        bound_memory()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        status = child(job, lambda text: write(writing, text))
    except BaseException as error:
        write(writing, f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def bound_memory() -> None:
    """An endless loop that fills a list shall fail, and not take the machine with it."""
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        used = int(sizes.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))


def write(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode()[:4000])


def read_all(descriptor: int) -> str:
    """What was written; a grandchild may hold the other end open, and is not waited for."""
    os.set_blocking(descriptor, False)
    found = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(descriptor, 65536):
            found += chunk
    os.close(descriptor)
    return found.decode(errors="replace")


def kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
