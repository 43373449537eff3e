"""File locks of a pipeline: one run at a time, and one replay for each sink id at a time.

Two runs at once would mix what they write. The operating system releases a lock when its process
ends, in whatever way that happens."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from minikafka.spark.pipeline.failures import PipelineError

_RUN_LOCK: Final = "run.lock"


@contextmanager
def only_run(state_dir: Path) -> Iterator[None]:
    """Hold the lock of the pipeline's runs within the block.

    Raises PipelineError if another process holds it, OSError if the lock file cannot be opened."""
    with _locked(state_dir / _RUN_LOCK, "run of this pipeline"):
        yield


@contextmanager
def only_replay(folder: Path, sink_id: str) -> Iterator[None]:
    """Hold the lock of the replays with this sink id within the block.

    Raises PipelineError if another process holds it, OSError if the lock file cannot be opened."""
    with _locked(folder / f"{sink_id}.lock", f"replay of {sink_id}"):
        yield


def is_running(state_dir: Path) -> bool:
    """Return whether some process holds the lock of the pipeline's runs."""
    try:
        descriptor = os.open(state_dir / _RUN_LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path, holder: str) -> Iterator[None]:
    """Hold the lock of the file within the block. ``holder`` names its holders in the error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _try_lock(descriptor):
            raise PipelineError(f"another {holder} is under way ({path})")
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock the file and return True, or return False if another descriptor has it locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
