"""Replication throttles of reassignments: which replicas they cover, set and cleared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.cli.cluster.reassignment_text import numbers
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.config_resources import AlterOperation, ResourceType
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
    """The brokers from which a partition is copied, and those to which it is copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    under_way: Mapping[TopicPartition, ReplicaAssignment],
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Return the moves under way once the reassignment to ``targets`` has started.

    The reassignments under way are included, since one throttle limits all moves of a broker.
    ``current``: the present replicas of the partitions in ``targets``.
    """
    found = {
        tp: Move(frozenset(plan.replicas) - frozenset(plan.adding), frozenset(plan.adding))
        for tp, plan in under_way.items()
    }
    for tp, replicas in targets.items():
        sources = found[tp].sources if tp in found else frozenset(current[tp])
        found[tp] = Move(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(found: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Return the throttled leader and follower replicas of each topic, as its settings list them.

    All sources are listed as leaders, since any of them may become the leader.
    """
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
    """Throttle moves that have not started, on their topics and brokers. Raises KafkaError."""
    for topic, (leaders, followers) in throttled_replicas(found).items():
        listed = _to_set({LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers})
        await admin.incremental_alter_configs(ResourceType.TOPIC, topic, listed)
    brokers = {broker for move in found.values() for broker in move.sources | move.destinations}
    rate = str(bytes_per_second)
    away = await _alter_brokers(admin, brokers, _to_set({LEADER_RATE: rate, FOLLOWER_RATE: rate}))
    print(f"The inter-broker throttle limit was set to {bytes_per_second} B/s")
    _tell_of(away, "No limit could be set on")


async def throttle_log_dirs(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Throttle moves between log directories on these brokers. Raises KafkaError."""
    limit = _to_set({LOG_DIRS_RATE: str(bytes_per_second)})
    away = await _alter_brokers(admin, brokers, limit)
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s")
    _tell_of(away, "No limit could be set on")


async def clear_throttles(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Remove the throttles from the topics of ``targets`` and from all brokers.

    A completed reassignment no longer shows which brokers were sources. Raises KafkaError.
    """
    brokers = {broker for replicas in targets.values() for broker in replicas}
    brokers |= {node.id for node in (await admin.describe_cluster()).nodes}
    print(f"Clearing broker-level throttles on {_brokers(brokers)}")
    limits = _to_delete(LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
    away = await _alter_brokers(admin, brokers, limits)
    topics = sorted({tp.topic for tp in targets})
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}")
    lists = _to_delete(LEADER_REPLICAS, FOLLOWER_REPLICAS)
    for topic in topics:
        await admin.incremental_alter_configs(ResourceType.TOPIC, topic, lists)
    _tell_of(away, "Limits stay on")


async def _alter_brokers(
    admin: Admin, brokers: Iterable[int], changes: Sequence[ConfigAlteration]
) -> set[int]:
    """Alter the settings of each broker; return the brokers that are not available.

    Only a broker itself can alter its settings. Kafka's tool fails if one is unavailable; here the
    others are still altered, since no replica is copied from or to such a broker.
    """
    away: set[int] = set()
    for broker in sorted(brokers):
        try:
            await admin.incremental_alter_configs(ResourceType.BROKER, str(broker), changes)
        except KafkaError as error:
            if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            away.add(broker)
    return away


def _to_set(values: Mapping[str, str]) -> list[ConfigAlteration]:
    return [ConfigAlteration(name, value) for name, value in values.items()]


def _to_delete(*names: str) -> list[ConfigAlteration]:
    return [ConfigAlteration(name, None, AlterOperation.DELETE) for name in names]


def _tell_of(away: set[int], what: str) -> None:
    if away:
        print(f"{what} {_brokers(away)}, not available now")


def _brokers(ids: set[int]) -> str:
    return f"broker{_s(ids)} {numbers(sorted(ids))}"


def _s(several: Collection[object]) -> str:
    return "" if len(several) == 1 else "s"
