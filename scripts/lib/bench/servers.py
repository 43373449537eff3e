"""What the benchmarks measure: probes and clusters, as child processes on fresh directories."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

FRESH_MEMORY_BYTES = 2 << 30


class Servers(Protocol):
    """A cluster as a context: minikafka's or Kafka's."""

    bootstrap: str

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def broker_pid(self, broker_id: int) -> int: ...


def take_memory(directory: Path) -> None:
    """Fill and drop as much page cache as a measurement needs.

    A virtual machine gets memory from its host at the first touch, which makes the first write to a
    page cost ten times the next one: whoever is measured first would pay for both.
    """
    path, lump = directory / "memory", bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(FRESH_MEMORY_BYTES // len(lump)):
            file.write(lump)
    os.unlink(path)


@contextmanager
def probe(directory: Path, answer_bytes: int) -> Iterator[int]:
    """A running probe's port."""
    with _serving("scripts.lib.bench.probe", directory, answer_bytes) as (port, _):
        yield port


@contextmanager
def file_probe(path: Path, overhead: int) -> Iterator[tuple[int, int]]:
    """The port and the process of a bare server of a file."""
    with _serving("scripts.lib.bench.file_probe", path, overhead) as served:
        yield served


@contextmanager
def _serving(module: str, *arguments: object) -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.wait()
