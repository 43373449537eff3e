"""Topics as text: Kafka's describe shape, and the replica assignments that users write."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from minikafka.core.client.cluster_view import TopicView
from minikafka.kernel.config import ConfigError


def parse_replica_assignment(text: str) -> dict[int, list[int]]:
    """``"1:2,2:3"``: brokers of partition 0, then of partition 1, leader first.

    Raises ConfigError."""
    assignments: dict[int, list[int]] = {}
    for partition, part in enumerate(text.split(",")):
        try:
            replicas = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise ConfigError(f"--replica-assignment needs B:B,B:B,..., not {text}") from None
        if len(set(replicas)) < len(replicas):
            raise ConfigError(f"--replica-assignment names a broker twice in {part}")
        assignments[partition] = replicas
    if len({len(replicas) for replicas in assignments.values()}) > 1:
        raise ConfigError("--replica-assignment needs as many replicas for each partition")
    return assignments


def topic_facts(topic: TopicView, configs: Mapping[str, str]) -> dict[str, Any]:
    """A topic as JSON."""
    return {
        "topic": topic.name,
        "topicId": topic_id_text(topic),
        "partitionCount": len(topic.partitions),
        "replicationFactor": replication_factor(topic),
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


def describe_text(topic: TopicView, configs: Mapping[str, str]) -> str:
    """Kafka's own shape, tabs and all (row OPS-1)."""
    settings = ",".join(f"{key}={value}" for key, value in sorted(configs.items()))
    head = (
        f"Topic: {topic.name}\tTopicId: {topic_id_text(topic)}"
        f"\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {replication_factor(topic)}\tConfigs: {settings}"
    )
    lines = [head]
    for number, view in sorted(topic.partitions.items()):
        leader = "none" if view.leader < 0 else str(view.leader)
        replicas, isr = (",".join(map(str, ids)) for ids in (view.replicas, view.isr))
        lines.append(
            f"\tTopic: {topic.name}\tPartition: {number}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}"
        )
    return "\n".join(lines)


def replication_factor(topic: TopicView) -> int:
    return max((len(view.replicas) for view in topic.partitions.values()), default=0)


def topic_id_text(topic: TopicView) -> str:
    """Kafka's form of a UUID: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()
