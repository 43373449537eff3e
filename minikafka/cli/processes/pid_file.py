"""The pid file of a broker process: locked by that process as long as it lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

NAME = "minikafka.pid"  # in the first log directory
TRIES = 100  # ``Holder.pid`` holds the lock for some microseconds


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Write and lock this process's pid file in ``directory``; remove it after the block.

    The lock stays until the process ends. If another process holds the file, or it cannot be
    written, the block runs without one: the broker then fails with the reason.
    """
    path = directory / NAME
    mine = False
    with contextlib.suppress(OSError):
        _make(directory)
        mine = _claim(path)
    try:
        yield
    finally:
        if mine:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _make(directory: Path) -> None:
    """Create the directory and its missing parents, and flush them to disk."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _claim(path: Path) -> bool:
    for _ in range(TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if _try_lock(descriptor, fcntl.LOCK_EX) and _is_at(descriptor, path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return True
        os.close(descriptor)
    return False


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether the open file is still at ``path``: its last owner may have removed it."""
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


class Holder:
    """The pid file in a directory, to find the process that holds it. Close it after use."""

    def __init__(self, directory: Path) -> None:
        """Open the pid file. Raises OSError: FileNotFoundError if there is none."""
        self._descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)

    def pid(self) -> int | None:
        """Return the pid of the holder; None if the process has ended.

        The lock shows that: a pid may belong to another process by now.
        """
        if _try_lock(self._descriptor, fcntl.LOCK_SH):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            return None
        text = os.pread(self._descriptor, 32, 0).strip()
        return int(text) if text.isdigit() else None

    def close(self) -> None:
        os.close(self._descriptor)
