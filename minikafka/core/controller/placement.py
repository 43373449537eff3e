"""Replica placement: which brokers a new partition's replicas live on (Kafka's AdminUtils)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minikafka.kernel.cluster import Broker
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped


@dataclass(frozen=True, slots=True)
class BrokerRack:
    """What placement knows of a broker."""

    id: int
    rack: str | None = None


def broker_racks(brokers: Iterable[Broker]) -> list[BrokerRack]:
    """Brokers as placement wants them, by id.

    Racks count only when every broker has one: Kafka's ``RackAwareMode.Safe``, which is what
    topic creation uses.
    """
    by_id = sorted(brokers, key=lambda broker: broker.id)
    racked = all(broker.rack is not None for broker in by_id)
    return [BrokerRack(broker.id, broker.rack if racked else None) for broker in by_id]


def assign_replicas(
    brokers: Iterable[BrokerRack],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    replica_shift: int,
    start_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Replicas of ``partitions`` partitions from ``start_partition`` on, preferred leader first.

    ``start_index`` (place of the first leader) and ``replica_shift`` (distance to the second
    replica) are dice: ``0 <= n < len(brokers)``, drawn by the caller. Partitions that are added to
    a topic take partition 0's first replica's place for both, as Kafka does.

    Raises ``KafkaError``: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or INVALID_REQUEST when
    only some brokers have a rack.
    """
    known = sorted(brokers, key=lambda broker: broker.id)
    if partitions <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        )
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(known):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(known)}.",
        )
    racks = {broker.id: broker.rack for broker in known if broker.rack is not None}
    if racks and len(racks) < len(known):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    ring = rack_alternated(racks) if racks else [broker.id for broker in known]
    assignment: dict[int, tuple[int, ...]] = {}
    shift = replica_shift
    for partition in range(start_partition, start_partition + partitions):
        if partition > 0 and partition % len(ring) == 0:
            shift += 1
        first = (partition + start_index) % len(ring)
        assignment[partition] = (
            _spread_over_racks(ring, racks, first, shift, replication_factor)
            if racks
            else _spread(ring, first, shift, replication_factor)
        )
    return assignment


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """Broker ids such that neighbours sit in different racks where possible: racks by name, in
    turn, each giving its lowest id left."""
    waiting = grouped((racks[broker], broker) for broker in sorted(racks, reverse=True))
    names = sorted(waiting)
    ring: list[int] = []
    while len(ring) < len(racks):
        ring.extend(waiting[name].pop() for name in names if waiting[name])
    return ring


def _replica_index(first: int, shift: int, replica: int, brokers: int) -> int:
    return (first + 1 + (shift + replica) % (brokers - 1)) % brokers


def _spread(ring: list[int], first: int, shift: int, replication_factor: int) -> tuple[int, ...]:
    followers = (
        ring[_replica_index(first, shift, replica, len(ring))]
        for replica in range(replication_factor - 1)
    )
    return (ring[first], *followers)


def _spread_over_racks(
    ring: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    """Every rack gets a replica before any gets its second, every broker likewise."""
    rack_count = len(set(racks.values()))
    replicas = [ring[first]]
    used_racks = {racks[ring[first]]}
    step = 0
    while len(replicas) < replication_factor:
        broker = ring[_replica_index(first, shift * rack_count, step, len(ring))]
        step += 1
        rack_is_free = racks[broker] not in used_racks or len(used_racks) == rack_count
        if rack_is_free and broker not in replicas:
            replicas.append(broker)
            used_racks.add(racks[broker])
    return tuple(replicas)
