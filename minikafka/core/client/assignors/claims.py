"""The previous owners of partitions, from what members claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from minikafka.core.client.assignors.model import (
    PartitionCounts,
    Subscriptions,
)
from minikafka.core.client.offsets import NO_GENERATION
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.grouping import grouped
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.consumer_protocol import ConsumerTopicPartitions
from minikafka.protocol.messages.sticky_user_data import CooperativeStickyUserData, StickyUserData


@dataclass(frozen=True, slots=True)
class Memory:
    """What one member claims to have owned, and in which generation."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION


@dataclass(slots=True)
class Claims:
    """``owner``: the member whose claim is valid. ``disputed``: partitions that several members
    claim in the same generation. ``previous``: the owner in the generation before."""

    owner: dict[TopicPartition, str] = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    previous: dict[TopicPartition, str] = field(default_factory=dict)

    def owned_by(self) -> dict[str, list[TopicPartition]]:
        return grouped((member, tp) for tp, member in sorted(self.owner.items()))


def settle_claims(memories: Mapping[str, Memory], counts: PartitionCounts) -> Claims:
    """Find the owner of each partition that still exists: the claim of the highest generation is
    valid. Of two claims in one generation neither is (KAFKA-12984)."""
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
    """As Kafka's ``StickyAssignor`` writes it; nothing before the first assignment."""
    if assigned is None:
        return None
    rows = [ConsumerTopicPartitions(*of_topic) for of_topic in grouped(sorted(assigned)).items()]
    return encode(StickyUserData(rows, generation), 1)


def cooperative_user_data(assigned: Iterable[TopicPartition] | None, generation: int) -> bytes:
    """As Kafka's ``CooperativeStickyAssignor`` writes it, from the first join on."""
    return encode(CooperativeStickyUserData(generation), 0)


def remembered_by_user_data(subscriptions: Subscriptions) -> dict[str, Memory]:
    """Of eager members. What cannot be read is as if it had not been said."""
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
    """Of cooperative members: what they own. The generation is the subscription's (version 2 and
    later), else that of the user data."""
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
