"""What the benchmarks measure: probes and clusters, as child processes on fresh directories."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def probe(directory: Path, answer_bytes: int, fetch_bytes: int = 0) -> Iterator[int]:
    """A running probe's port."""
    command = [sys.executable, "-m", "scripts.lib.bench.probe", str(directory)]
    process = subprocess.Popen(
        [*command, str(answer_bytes), str(fetch_bytes)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
