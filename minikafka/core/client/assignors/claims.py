"""The previous owners of partitions, computed from the ownership that members report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from minikafka.core.client.assignors.model import (
    PartitionCounts,
    Subscriptions,
)
from minikafka.core.client.offsets import NO_GENERATION
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.consumer_protocol import ConsumerTopicPartitions
from minikafka.protocol.messages.sticky_user_data import CooperativeStickyUserData, StickyUserData


@dataclass(frozen=True, slots=True)
class Memory:
    """The partitions that one member reports as its own, and the generation of that assignment."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


@dataclass(slots=True)
class Claims:
    """The owners of partitions before this rebalance.

    ``owner`` maps a partition to the member whose claim is valid. ``disputed`` are the partitions
    that two members claim in the same, highest generation. ``previous`` maps a partition to the
    member with the second highest claim.
    """

    owner: dict[TopicPartition, str] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    previous: dict[TopicPartition, str] = field(default_factory=dict)

    def owned_by(self) -> dict[str, list[TopicPartition]]:
        return grouped((member, tp) for tp, member in sorted(self.owner.items()))


def settle_claims(memories: Mapping[str, Memory], counts: PartitionCounts) -> Claims:
    """Decide who owned each partition that still exists.

    Of several claims the one with the highest generation is valid. If two members claim a partition
    in the same highest generation, neither owns it (KAFKA-12984).
    """
    claimed = grouped(
        (tp, (memory.generation, member))
        for member, memory in sorted(memories.items())
        for tp in memory.partitions
        if tp.partition < counts.get(tp.topic, 0)
    )
    claims = Claims()
    for tp, found in claimed.items():
        found.sort(key=lambda claim: -claim[0])
        if len(found) > 1 and found[0][0] == found[1][0]:
            claims.disputed.add(tp)
            continue
        claims.owner[tp] = found[0][1]
        if len(found) > 1:
            claims.previous[tp] = found[1][1]
    return claims


# ------------------------------------------------------------------------- what members remember


def sticky_user_data(assigned: Iterable[TopicPartition] | None, generation: int) -> bytes | None:
    """Encode the user data of Kafka's ``StickyAssignor``: the assignment and its generation.

    None if the member has had no assignment yet.
    """
    if assigned is None:
        return None
    rows = [ConsumerTopicPartitions(*of_topic) for of_topic in grouped(sorted(assigned)).items()]
    return encode(StickyUserData(rows, generation), 1)


def cooperative_user_data(assigned: Iterable[TopicPartition] | None, generation: int) -> bytes:
    """Encode the user data of Kafka's ``CooperativeStickyAssignor``: the generation only.

    Unlike ``sticky_user_data`` it is sent with the first JoinGroup too.
    """
    return encode(CooperativeStickyUserData(generation), 0)


def remembered_by_user_data(subscriptions: Subscriptions) -> dict[str, Memory]:
    """Return the previous assignment of each eager member, from the user data of its subscription.

    User data that are missing or cannot be decoded count as no previous assignment.
    """
    return {
        member: Memory() if not wanted.user_data else _read(wanted.user_data)
        for member, wanted in subscriptions.items()
    }


def _read(user_data: bytes) -> Memory:
    for version in (1, 0):
        try:
            found = decode(StickyUserData, version, user_data)
        except DecodeError:
            continue
        partitions = tuple(
            TopicPartition(row.topic, number)
            for row in found.previous_assignment
            for number in row.partitions
        )
        return Memory(partitions, found.generation)
    return Memory()


def remembered_by_ownership(subscriptions: Subscriptions) -> dict[str, Memory]:
    """Return the owned partitions of each cooperative member, from its subscription.

    The generation is that of the subscription (version 2 and later), otherwise that of the user
    data.
    """
    memories: dict[str, Memory] = {}
    for member, wanted in subscriptions.items():
        generation = wanted.generation
        if generation == NO_GENERATION and wanted.user_data:
            try:
                generation = decode(CooperativeStickyUserData, 0, wanted.user_data).generation
            except DecodeError:
                generation = NO_GENERATION
        memories[member] = Memory(wanted.owned, generation)
    return memories
