"""What the coordinator needs of the rest of its broker."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

from minikafka.core.log.verification import NOT_REQUIRED, Verification
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Buffer

# How an append went, and the offset of its first record.
Appended: TypeAlias = Callable[[ErrorCode, int], None]


class Purgatory(Protocol):
    """A purgatory with its reaper."""

    def try_complete_else_watch(self, operation: Any, keys: Sequence[Hashable]) -> bool: ...

    def check_and_complete(self, key: Hashable) -> int: ...


class InternalLog(Protocol):
    """The partitions of one internal topic that this broker leads."""

    def append(
        self,
        partition: int,
        batch: bytes,
        replicated: bool,
        done: Appended,
        guard: Verification | None = NOT_REQUIRED,
    ) -> None:
        """``done`` is called exactly once: with ``replicated``, when the in-sync replicas have it
        or the time for that is over; else in the same breath, as a rule. ``guard``: by which a
        batch of a transaction was verified, if it had to be."""
        ...

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """Where its log starts and ends. None: it is not led here."""
        ...

    async def replicated(self, partition: int) -> bool:
        """Wait until the in-sync replicas have all that its log holds now. False: it is not led
        here any more."""
        ...

    async def read(self, partition: int, offset: int, max_bytes: int) -> Buffer:
        """Whole batches from ``offset`` on, at least one if there is one. Raises KafkaError,
        OSError."""
        ...
