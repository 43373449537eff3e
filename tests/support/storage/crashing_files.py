"""Files that raise before one chosen operation: a crash between any two operations.

The simulated disk loses power at random places; here a test tries every single place.
"""

from __future__ import annotations

from typing import Any

from minikafka.kernel.ports import File, Files

STEPS = {"remove", "rename", "replace_unsynced", "replace", "flush_directory"}
FILE_STEPS = {"write", "truncate", "flush"}


class Crashed(BaseException):
    """Raised in place of a crash of the process."""


class CrashPoint:
    """Counts operations that change a disk; raises at the ``at``-th one and at all later ones."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.count = 0

    def step(self) -> None:
        if self.count == self.at:
            raise Crashed
        self.count += 1


class _Proxy:
    def __init__(self, target: Any, point: CrashPoint, steps: set[str]) -> None:
        self._target, self._point, self._steps = target, point, steps

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if name not in self._steps:
            return member

        def step(*args: Any) -> Any:
            self._point.step()
            return member(*args)

        return step


class CrashingFiles(_Proxy):
    def __init__(self, files: Files, point: CrashPoint) -> None:
        super().__init__(files, point, STEPS)

    def open(self, path: str, create: bool = False) -> File:
        if create and not self._target.exists(path):
            self._point.step()
        file: Any = _Proxy(self._target.open(path, create), self._point, FILE_STEPS)
        return file  # type: ignore[no-any-return]
