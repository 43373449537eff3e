"""File locks of pipelines: one run at a time writes a folder of state or checkpoints, and one
replay with a sink id.

Two runs at once would mix what they write. The operating system releases a lock when its process
ends, in whatever way that happens."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Literal

from minikafka.spark.pipeline.failures import PipelineError

_RUN_LOCK: Final = "run.lock"
_MOST_BYTES: Final = 4096  # of the line in a lock file


@contextmanager
def only_run(
    spec: Path, folders: Iterable[Path], work: Literal["run", "check"] = "run"
) -> Iterator[None]:
    """Hold the locks of the folders that a run of the pipeline uses within the block.

    Raises PipelineError if another process holds one: for this pipeline, or for one that has been
    given the same folder. Raises OSError if a lock file cannot be opened."""
    with ExitStack() as stack:
        for folder in sorted({each.resolve() for each in folders}):
            try:
                stack.enter_context(_locked(folder / _RUN_LOCK, f"{work} of {spec}"))
            except _HeldError as held:
                other_work, _, other = held.holder.partition(" of ")
                if other in ("", str(spec)):
                    other_work = other_work or "run"
                    raise PipelineError(
                        f"another {other_work} of this pipeline is under way ({held.path})"
                    ) from None
                raise PipelineError(
                    f"a {other_work} of the pipeline {other} is under way in the same folder "
                    f"{folder}: give each pipeline its own storage and state.dir"
                ) from None
        yield


@contextmanager
def only_replay(folder: Path, sink_id: str) -> Iterator[None]:
    """Hold the lock of the replays with this sink id within the block.

    Raises PipelineError if another process holds it, OSError if the lock file cannot be opened."""
    try:
        with _locked(folder / f"{sink_id}.lock", sink_id):
            yield
    except _HeldError as held:
        raise PipelineError(f"another replay of {sink_id} is under way ({held.path})") from None


class _HeldError(Exception):
    """Another process holds the lock. ``holder`` is the line that it has written."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(str(path))
        self.path = path
        self.holder = holder


@contextmanager
def _locked(path: Path, holder: str) -> Iterator[None]:
    """Hold the lock of the file within the block, and say in it who does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            written = os.pread(descriptor, _MOST_BYTES, 0).decode(errors="replace")
            raise _HeldError(path, written.strip()) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder}\n".encode()[:_MOST_BYTES], 0)
        yield
    finally:
        os.close(descriptor)
