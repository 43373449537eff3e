"""Internal topics that were created when too few brokers lived: where their other replicas go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import TopicPartition


def missing_replicas(
    context: ControllerContext, factors: Mapping[str, int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas, preferred leader first, of partitions that have fewer than ``factors`` says of
    their topic and could have more on the brokers that live. Who has a replica keeps it; new ones
    and preferred leaders are spread evenly. What is being reassigned or deleted is left alone."""
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
