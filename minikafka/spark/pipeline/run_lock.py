"""One run of a pipeline at a time, and one replay of a name: two would mix what they write."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minikafka.spark.pipeline.failures import PipelineError

NAME = "run.lock"


@contextmanager
def only_run(
    state_dir: Path, name: str = NAME, what: str = "run of this pipeline"
) -> Iterator[None]:
    """Raises PipelineError while another process is within such a block, which ``what`` names;
    OSError. The lock goes with its process, in whatever way that ends."""
    state_dir.mkdir(parents=True, exist_ok=True)
    path = state_dir / name
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _lock(descriptor):
            raise PipelineError(f"another {what} is under way ({path})")
        yield
    finally:
        os.close(descriptor)


def is_running(state_dir: Path) -> bool:
    """Some process is within such a block."""
    try:
        descriptor = os.open(state_dir / NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
