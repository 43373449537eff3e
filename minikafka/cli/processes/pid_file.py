"""The pid file of a broker process: locked by that process as long as it lives."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

NAME = "minikafka.pid"  # in the first log directory
TRIES = 100  # somebody who only looks holds the lock for some microseconds


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Within the block the pid file in ``directory`` is this process's; the lock stays until the
    process has gone. Where another process has it, or nothing can be written, there is none: the
    broker will say so itself."""
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
    """The directory, and that it is there after a power loss."""
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
    """Not so if its last owner has removed it meanwhile."""
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


class Holder:
    """Who holds the pid file in a directory, if anybody does. Close it."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError: FileNotFoundError where no broker has ever been."""
        self._descriptor = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)

    def pid(self) -> int | None:
        """None when the process has ended, in whatever way: a pid may be used again, a lock not."""
        if _try_lock(self._descriptor, fcntl.LOCK_SH):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            return None
        text = os.pread(self._descriptor, 32, 0).strip()
        return int(text) if text.isdigit() else None

    def close(self) -> None:
        os.close(self._descriptor)
