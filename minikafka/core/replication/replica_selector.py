"""The choice of the replica that a consumer should fetch from, by its rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias


class ReplicaView(NamedTuple):
    """A replica that could serve the fetch: in sync, with the fetch offset in its log (Kafka's
    ``ReplicaView``)."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    behind_ms: int  # since it was last caught up; 0 of the leader


# (rack of the consumer, leader, the others that could serve) -> who should.
ReplicaSelector: TypeAlias = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]


def rack_aware(rack: str, leader: ReplicaView, others: Sequence[ReplicaView]) -> ReplicaView:
    """The leader if it is in the consumer's rack or no replica is, else the replica in that rack
    with the largest log end offset (Kafka's RackAwareReplicaSelector)."""
    near = [replica for replica in others if replica.rack == rack]
    if not rack or leader.rack == rack or not near:
        return leader
    return max(near, key=lambda r: (r.log_end_offset, -r.behind_ms, r.broker_id))


def leader_only(rack: str, leader: ReplicaView, others: Sequence[ReplicaView]) -> ReplicaView:
    """Kafka's LeaderSelector."""
    return leader


# By the names that ``replica.selector.class`` may have.
SELECTORS: Final[Mapping[str, ReplicaSelector]] = MappingProxyType(
    {
        "org.apache.kafka.common.replica.RackAwareReplicaSelector": rack_aware,
        "org.apache.kafka.common.replica.LeaderSelector": leader_only,
    }
)
