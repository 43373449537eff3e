"""What handling a request comes to: records, answers, timers, and lines for the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minikafka.core.group.group import Group
from minikafka.core.group.member import Ticket
from minikafka.core.group.records import GroupRecord
from minikafka.core.log.verification import NOT_REQUIRED, Verification


@dataclass(frozen=True, slots=True)
class HeartbeatTimer:
    """Ends the heartbeat timer of the member, if any, and starts the next. ``pending``: the member
    has an id and is to join with it."""

    group: Group
    member_id: str
    beat: int
    delay_ms: int
    pending: bool = False


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """Starts the joining phase. ``remaining_ms`` is there for the initial one, which goes on for so
    long after ``delay_ms`` while members keep coming."""

    group: Group
    delay_ms: int
    remaining_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """Starts the wait for the SyncGroup requests of a generation."""

    group: Group
    generation_id: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class CheckHeartbeat:
    """The member may be gone: is its timer over?"""

    group: Group
    member_id: str


@dataclass(frozen=True, slots=True)
class CheckJoin:
    """Somebody joined or left: is the joining phase over?"""

    group: Group


@dataclass(frozen=True, slots=True)
class CheckSync:
    """Somebody synced, or nobody has to any more."""

    group: Group


Timer: TypeAlias = HeartbeatTimer | JoinTimer | SyncTimer | CheckHeartbeat | CheckJoin | CheckSync


@dataclass(frozen=True, slots=True)
class Note:
    """A line for the event log."""

    level: str
    event: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Offsets are committed in a transaction of this producer; ``guard`` is by what that was
    verified, if it had to be (KIP-890)."""

    producer_id: int
    producer_epoch: int
    guard: Verification | None = NOT_REQUIRED


@dataclass(frozen=True, slots=True)
class Write:
    """Records to be appended, in one batch. ``then`` says what they are for, and comes back to
    ``GroupShard.settle`` with how it went. ``replicated``: to wait for the in-sync replicas.
    ``transaction``: that they belong to, if any."""

    group: Group
    records: tuple[GroupRecord, ...]
    then: Any
    replicated: bool = True
    transaction: InTransaction | None = None


@dataclass(slots=True)
class CoordinatorResult:
    """To be carried out in this order: notes, replies, timers, writes.

    ``replies``: a ticket and its answer: a response message, or error codes by partition.
    """

    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def reply(self, ticket: Ticket, answer: Any) -> None:
        self.replies.append((ticket, answer))

    def note(self, event: str, group: Group, level: str = "info", **facts: Any) -> None:
        self.notes.append(Note(level, event, {"group": group.group_id, **facts}))
