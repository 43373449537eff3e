"""Spark's noise: in a log file, while the user sees progress and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STDERR: Final = 2


def fresh_log(path: Path) -> Path:
    """A log file for this run; that of the last run is kept beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_name(f"{path.name}.1"))
    path.touch()
    return path


@contextmanager
def stderr_in(log: Path) -> Iterator[None]:
    """Within the block standard error of this process and of those that it starts is ``log``:
    a JVM and its workers write there whatever logger is set up."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)
        os.close(kept)
