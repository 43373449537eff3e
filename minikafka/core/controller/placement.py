"""Replica placement: the brokers of new replicas (Kafka's AdminUtils), and of missing ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import Broker, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BrokerRack:
    """The facts of a broker that placement uses."""

    id: int
    rack: str | None = None


def broker_racks(brokers: Iterable[Broker]) -> list[BrokerRack]:
    """Return ids and racks for ``assign_replicas``, sorted by id.

    Racks are used only if every broker has one: Kafka's ``RackAwareMode.Safe``, which topic
    creation uses.
    """
    by_id = sorted(brokers, key=lambda broker: broker.id)
    racked = all(broker.rack is not None for broker in by_id)
    return [BrokerRack(broker.id, broker.rack if racked else None) for broker in by_id]


def require_partition_count(count: int, limit: int) -> None:
    """Check the number of partitions of a topic, before any computation for each of them. Raises
    KafkaError(INVALID_PARTITIONS)."""
    if count > limit:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic may have at most {limit} partitions (max.partitions.per.topic), but {count} "
            "were requested.",
        )


def assign_replicas(
    brokers: Iterable[BrokerRack],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    replica_shift: int,
    start_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Assign replicas to ``partitions`` partitions from ``start_partition`` on, preferred leader
    first.

    ``start_index`` (the position of the first leader) and ``replica_shift`` (the distance to the
    second replica) are random numbers, ``0 <= n < len(brokers)``, that the caller draws. For
    partitions that are added to a topic, both are the position of partition 0's first replica, as
    in Kafka.

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
    """Order broker ids so that neighbours are in different racks where possible: take the lowest
    remaining id of each rack in turn, racks sorted by name."""
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
    """Pick replicas so that no rack gets a second replica before every rack has one; likewise for
    brokers."""
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


def missing_replicas(
    context: ControllerContext, factors: Mapping[str, int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return targets (preferred leader first) for partitions that have fewer replicas than their
    topic's entry in ``factors``, and could have more on the live brokers.

    Existing replicas stay; new replicas and preferred leaders are spread evenly. Partitions that
    are being reassigned and topics that are being deleted are left out.
    """
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, factor in sorted(factors.items()):
        if not context.is_queued_for_deletion(topic):
            found |= _missing(context, topic, factor)
    return found


def _missing(
    context: ControllerContext, topic: str, factor: int
) -> dict[TopicPartition, tuple[int, ...]]:
    live = context.live_broker_ids()
    lacking: dict[TopicPartition, tuple[int, ...]] = {}
    held: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    for partition in sorted(context.partitions_for_topic(topic)):
        replicas = context.assignment(partition).replicas
        held.update(replicas)
        moving = partition in context.partitions_being_reassigned
        if moving or len(replicas) >= factor or set(live).issubset(replicas):
            preferred.update(replicas[:1])
        else:
            lacking[partition] = replicas
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for partition, replicas in lacking.items():
        free = sorted((b for b in live if b not in replicas), key=lambda b: (held[b], b))
        added = free[: factor - len(replicas)]
        held.update(added)
        wider = (*replicas, *added)
        first = min((b for b in wider if b in live), key=lambda b: (preferred[b], wider.index(b)))
        preferred[first] += 1
        found[partition] = (first, *(b for b in wider if b != first))
    return found
