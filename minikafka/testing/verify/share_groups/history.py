"""The history of a share group: the deliveries to its members, and their acknowledgements."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.event_table import EventTable


class ShareStep(IntEnum):
    """The kinds of events."""

    DELIVERED = 0  # ``value`` is the delivery count, ``since`` the row when the fetch was sent
    SENT = 1  # acknowledgements are sent; ``value`` is the AcknowledgeType
    CONFIRMED = 2  # those that the member sent for the partition have succeeded
    REFUSED = 3  # they were refused as a whole: INVALID_RECORD_STATE
    DOUBTFUL = 4  # their outcome is unknown
    BLIND = 5  # a fetch has ended without a response, and may have acquired records


class ShareEvent(NamedTuple):
    """An event of a member, and mostly of a partition and its offsets from ``first`` to ``last``.

    ``term`` is the leader epoch that the member knew, of a delivery when its fetch was sent, and
    ``node`` the broker. CONFIRMED, REFUSED and DOUBTFUL have no offsets.
    """

    row: int
    step: ShareStep
    at_ms: int
    member: int
    partition: int
    first: int
    last: int
    value: int
    node: int
    term: int
    since: int


def new_share_events() -> EventTable[ShareEvent]:
    return EventTable(
        "bqiiqqiiiq", lambda row, values: ShareEvent(row, ShareStep(values[0]), *values[1:])
    )


@dataclass(slots=True)
class ShareHistory:
    """The history of one share group. ``delivery_limit`` is how often it delivers a record at most,
    and ``lock_ms`` how long a member has it.

    ``written`` has acknowledged records by partition and offset, with the time in ms when each was
    sent. ``done`` are the offsets that may be accepted or rejected, or were delivered as often as
    the limit allows, by partition.
    """

    group: str
    delivery_limit: int
    lock_ms: int
    members: list[str] = field(default_factory=list)
    events: EventTable[ShareEvent] = field(default_factory=new_share_events)
    done: dict[int, set[int]] = field(default_factory=dict)
    written: dict[int, dict[int, int]] = field(default_factory=dict)

    def add_member(self, name: str) -> int:
        """Add a life of a member; return its number in the events."""
        self.members.append(name)
        return len(self.members) - 1
