"""Throttles of reassignments: which replicas and brokers they concern; set, and cleared again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.cli.reassignment_text import numbers
from minikafka.client.admin import Admin
from minikafka.client.config_admin import AlterOperation, ConfigAlteration, ResourceType
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from minikafka.kernel.errors import ErrorCode, KafkaError

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
REMINDER: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)


class Move(NamedTuple):
    """From which brokers a partition is copied, and to which."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    under_way: Mapping[TopicPartition, ReplicaAssignment],
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """All that will be on the move once ``targets`` are: a throttle is one for all of them.
    ``current``: the replicas of those that are to be moved."""
    found = {
        tp: Move(frozenset(plan.replicas) - frozenset(plan.adding), frozenset(plan.adding))
        for tp, plan in under_way.items()
    }
    for tp, replicas in targets.items():
        sources = found[tp].sources if tp in found else frozenset(current[tp])
        found[tp] = Move(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(found: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """By topic, as it is to be configured: the replicas throttled as leaders (any source may come
    to lead), and as followers."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for (topic, partition), move in sorted(found.items()):
        for lists, brokers in ((leaders, move.sources), (followers, move.destinations)):
            listed = lists.setdefault(topic, [])
            listed += [f"{partition}:{broker}" for broker in sorted(brokers)]
    return {topic: (",".join(leaders[topic]), ",".join(followers[topic])) for topic in leaders}


async def throttle_moves(
    admin: Admin, found: Mapping[TopicPartition, Move], bytes_per_second: int
) -> None:
    """Before they begin. Raises KafkaError."""
    for topic, (leaders, followers) in throttled_replicas(found).items():
        await _set(
            admin,
            ResourceType.TOPIC,
            topic,
            {LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers},
        )
    rate = str(bytes_per_second)
    for broker in sorted(frozenset().union(*(m.sources | m.destinations for m in found.values()))):
        rates = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
        await _set(admin, ResourceType.BROKER, str(broker), rates)
    print(f"The inter-broker throttle limit was set to {bytes_per_second} B/s")


async def throttle_log_dirs(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """What these brokers move between their log directories. Raises KafkaError."""
    for broker in sorted(brokers):
        rate = {LOG_DIRS_RATE: str(bytes_per_second)}
        await _set(admin, ResourceType.BROKER, str(broker), rate)
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s")


async def clear_throttles(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """On all brokers, as it is not known any more which were concerned, and on these topics.
    Raises KafkaError."""
    live = {node.id for node in (await admin.describe_cluster()).nodes}
    away = {broker for replicas in targets.values() for broker in replicas} - live
    print(f"Clearing broker-level throttles on broker{_s(live)} {numbers(sorted(live))}")
    for broker in sorted(live):
        try:
            names = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
            await _delete(admin, ResourceType.BROKER, str(broker), names)
        except KafkaError as error:
            if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            away.add(broker)
    topics = sorted({tp.topic for tp in targets})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    for topic in topics:
        await _delete(admin, ResourceType.TOPIC, topic, (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    if away:
        print(
            f"Throttles stay on broker{_s(away)} {numbers(sorted(away))}, which cannot be asked now"
        )


async def _set(admin: Admin, kind: ResourceType, name: str, values: Mapping[str, str]) -> None:
    changes = [ConfigAlteration(key, value) for key, value in values.items()]
    await admin.incremental_alter_configs(kind, name, changes)


async def _delete(admin: Admin, kind: ResourceType, name: str, keys: Iterable[str]) -> None:
    changes = [ConfigAlteration(key, None, AlterOperation.DELETE) for key in keys]
    await admin.incremental_alter_configs(kind, name, changes)


def _s(several: Sequence[object] | set[int]) -> str:
    return "" if len(several) == 1 else "s"
