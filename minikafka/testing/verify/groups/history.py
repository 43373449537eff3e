"""The history of a consumer group: what its members were assigned, received and committed."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.event_table import EventTable


class GroupStep(IntEnum):
    """The kinds of events."""

    ASSIGNED = 0  # the member owns the partition, in this epoch; repeated after each rebalance
    REVOKED = 1
    LOST = 2  # the member has learnt that it was removed from the group
    POLLED = 3  # it received the records from ``first`` to ``last``, which are consecutive
    SENT = 4  # it begins to commit the offset ``first``
    COMMITTED = 5  # its commit of ``first`` is acknowledged
    REFUSED = 6  # its commit of ``first`` has failed, and may be stored all the same
    ENDED = 7  # it has left or died
    SETTLED = 8  # the load has ended; from now on the members leave


class GroupEvent(NamedTuple):
    """An event of a member and a partition, ``at_ms`` into the run.

    ``epoch`` is the generation or the member epoch. ENDED and SETTLED have no partition.
    """

    row: int
    step: GroupStep
    at_ms: int
    member: int
    epoch: int
    partition: int
    first: int
    last: int


def new_events() -> EventTable[GroupEvent]:
    return EventTable(
        "bqiiiqq", lambda row, values: GroupEvent(row, GroupStep(values[0]), *values[1:])
    )


class MemberLife(NamedTuple):
    """One life of a member. ``identity`` is the group instance id of a static member, which lives
    several times, or else the name."""

    name: str
    identity: str


class LoggedOffsets:
    """The offsets of the records of a partition in the final reading, in increasing order."""

    def __init__(self) -> None:
        self._offsets = array("q")

    def append(self, offset: int) -> None:
        self._offsets.append(offset)

    @property
    def start(self) -> int:
        return self._offsets[0] if self._offsets else 0

    def between(self, first: int, last: int) -> array[int]:
        """Return the offsets from ``first`` to below ``last``."""
        return self._offsets[bisect_left(self._offsets, first) : bisect_left(self._offsets, last)]

    def count(self, first: int, last: int) -> int:
        """Return how many offsets there are from ``first`` to below ``last``."""
        return max(0, bisect_left(self._offsets, last) - bisect_left(self._offsets, first))


@dataclass(slots=True)
class GroupHistory:
    """The history of one group, whose ``protocol`` is "classic" or "consumer" (KIP-848).

    ``received`` are the offsets after all that any member has received, by partition, ``written``
    those after the last acknowledged record. ``log`` is read at the end, and ``committed``, which
    lacks partitions without a committed offset.
    """

    group: str
    protocol: str = "classic"
    members: list[MemberLife] = field(default_factory=list)
    events: EventTable[GroupEvent] = field(default_factory=new_events)
    log: dict[int, LoggedOffsets] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)

    def add_member(self, name: str, instance: str | None = None) -> int:
        """Add a life of a member; return its number in the events."""
        self.members.append(MemberLife(name, instance or name))
        return len(self.members) - 1
