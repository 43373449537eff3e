"""Topics as text: Kafka's describe shape, and the replica assignments that users write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from minikafka.cli.usage import WrongUsage
from minikafka.core.client.cluster_view import PartitionView, TopicView
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition, topic_id_text

# Partitions that are being reassigned.
Moving: TypeAlias = Mapping[TopicPartition, ReplicaAssignment]
NOTHING_MOVES: Moving = MappingProxyType({})


def parse_replica_assignment(text: str) -> dict[int, list[int]]:
    """``"1:2,2:3"``: brokers of partition 0, then of partition 1, leader first.

    Raises WrongUsage."""
    assignments: dict[int, list[int]] = {}
    for partition, part in enumerate(text.split(",")):
        try:
            replicas = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise WrongUsage(f"--replica-assignment needs B:B,B:B,..., not {text}") from None
        if len(set(replicas)) < len(replicas):
            raise WrongUsage(f"--replica-assignment names a broker twice in {part}")
        assignments[partition] = replicas
    if len({len(replicas) for replicas in assignments.values()}) > 1:
        raise WrongUsage("--replica-assignment needs as many replicas for each partition")
    return assignments


def topic_facts(
    topic: TopicView, configs: Mapping[str, str], moving: Moving = NOTHING_MOVES
) -> dict[str, Any]:
    """A topic as JSON."""
    return {
        "topic": topic.name,
        "topicId": topic_id_text(topic.topic_id),
        "partitionCount": len(topic.partitions),
        "replicationFactor": topic_replication_factor(topic, moving),
        "configs": dict(configs),
        "partitions": [
            {
                "partition": view.partition,
                "leader": view.leader,
                "leaderEpoch": view.leader_epoch,
                "replicas": list(view.replicas),
                "isr": list(view.isr),
            }
            for _, view in sorted(topic.partitions.items())
        ],
    }


def describe_text(
    topic: TopicView, configs: Mapping[str, str], moving: Moving = NOTHING_MOVES
) -> str:
    """Return Kafka's description of a topic and all its partitions, tabs and all."""
    partitions = [
        partition_text(topic.name, view, moving) for _, view in sorted(topic.partitions.items())
    ]
    return "\n".join([topic_text(topic, configs, moving), *partitions])


def topic_text(topic: TopicView, configs: Mapping[str, str], moving: Moving) -> str:
    settings = ",".join(f"{key}={value}" for key, value in sorted(configs.items()))
    return (
        f"Topic: {topic.name}\tTopicId: {topic_id_text(topic.topic_id)}"
        f"\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic_replication_factor(topic, moving)}\tConfigs: {settings}"
    )


def partition_text(topic: str, view: PartitionView, moving: Moving) -> str:
    """Return one line; a partition on the move also says which replicas come and which go."""
    leader = "none" if view.leader < 0 else str(view.leader)
    line = (
        f"\tTopic: {topic}\tPartition: {view.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(view.replicas)}\tIsr: {_ids(view.isr)}"
    )
    assignment = moving.get(TopicPartition(topic, view.partition))
    if assignment is None:
        return line
    return (
        f"{line}\tAdding Replicas: {_ids(assignment.adding)}"
        f"\tRemoving Replicas: {_ids(assignment.removing)}"
    )


def replication_factor(topic: str, view: PartitionView, moving: Moving) -> int:
    """Count the replicas of a partition without those that a reassignment is adding."""
    assignment = moving.get(TopicPartition(topic, view.partition))
    adding = assignment.adding if assignment is not None else ()
    return len([replica for replica in view.replicas if replica not in adding])


def topic_replication_factor(topic: TopicView, moving: Moving) -> int:
    """Return the replication factor of the first partition, as Kafka does."""
    views = sorted(topic.partitions.items())
    return replication_factor(topic.name, views[0][1], moving) if views else 0


def _ids(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, broker_ids))
