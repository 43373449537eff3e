"""The handle of a fault that a test has added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

WAIT_S = 10.0  # for a fault to strike


class FaultInTest(ABC):
    """A fault that a test has added. As a context it is removed at the end of the block.

    Methods may be called from any thread but that of the cluster's event loop."""

    @property
    @abstractmethod
    def hits(self) -> int:
        """How many requests, or operations on a disk or link, have been struck."""

    @abstractmethod
    def wait(self, n: int = 1, timeout: float = WAIT_S) -> None:
        """Wait until ``n`` have been struck. Raises AssertionError with their number when they
        have not been within ``timeout`` seconds."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the fault; what it keeps goes on. A second call does nothing."""

    @abstractmethod
    def describe(self) -> str:
        """Return the fault in words."""

    def release(self) -> None:
        """Let the requests go on that the fault keeps, and keep no more. Raises TypeError for a
        fault that keeps none: only ``hold`` does."""
        raise TypeError(f"only a hold can be released, not: {self.describe()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
