"""The two outputs of a run: a log file for Spark's own text, and single lines for the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

ShowLine: TypeAlias = Callable[[str], object]  # prints one line for the user

_STDERR: Final = 2


def fresh_log(path: Path) -> Path:
    """Create an empty log file at ``path`` and return it. The previous log is kept as ``.1``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.replace(path.with_name(f"{path.name}.1"))
    path.touch()
    return path


@contextmanager
def stderr_in(log: Path) -> Iterator[None]:
    """Append standard error to ``log`` within the block.

    This redirects the file descriptor, so it holds for this process and for those that it starts:
    a JVM and its Python workers write to standard error whatever logger is configured."""
    sys.stderr.flush()
    saved = os.dup(_STDERR)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), _STDERR)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, _STDERR)
        os.close(saved)
