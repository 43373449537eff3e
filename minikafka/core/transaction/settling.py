"""What a write was for: whom to answer, and how it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from minikafka.core.transaction.result import Initialized, Ticket
from minikafka.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Begun:
    """A producer has its id and epoch."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """The transaction may write to more partitions."""

    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction is decided: the markers go out. ``ticket`` None: its time was over.
    ``answer`` is there for a producer that has to wait for the end of one that it did not begin."""

    ticket: Ticket | None
    answer: Initialized | None = None

    @property
    def done(self) -> Any:
        return self.answer or ErrorCode.NONE

    def failed(self, error: ErrorCode) -> Any:
        return error if self.answer is None else Initialized(error)


@dataclass(frozen=True, slots=True)
class Completed:
    """All markers are written, and that is known."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Transactional ids are deleted."""


Then: TypeAlias = Begun | PartitionsAdded | Ended | Completed | Expired
