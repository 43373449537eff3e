"""Who leads instead: what replies add to NOT_LEADER_OR_FOLLOWER (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minikafka.broker.metadata.cache import MetadataCache
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import NO_EPOCH, NO_LEADER, Broker, Endpoint, TopicPartition


class LeaderHint(NamedTuple):
    """-1, -1 and no node when nobody is known to lead."""

    leader: int
    leader_epoch: int
    broker: Broker | None
    endpoint: Endpoint | None


def leader_hint(
    cluster: MetadataCache, hosted: HostedPartitions, topic_partition: TopicPartition, listener: str
) -> LeaderHint:
    """A replica knows best: LeaderAndIsr comes before UpdateMetadata, and a leader of a moment ago
    is asked before that. Else as far as the metadata cache knows. The endpoint is that of the
    asker's listener."""
    partition = hosted.get(topic_partition)
    if partition is not None and partition.leader_epoch >= 0:
        leader, leader_epoch = partition.state.leader, partition.leader_epoch
    else:
        leader, leader_epoch = cluster.partition_leader(topic_partition) or (NO_LEADER, NO_EPOCH)
    broker = cluster.broker(leader) if leader >= 0 else None
    endpoint = broker.endpoint(listener) if broker is not None else None
    return LeaderHint(leader, leader_epoch, broker, endpoint)


def name_leader(
    hint: LeaderHint,
    answer: Any,
    response: Any,
    leader_type: Callable[[int, int], object],
    node_type: Callable[[int, str, int, str | None], object],
) -> None:
    """Tell of ``hint`` in a partition's ``answer``, and of its node in the ``response``, once. The
    types are those of the message's own module."""
    answer.current_leader = leader_type(hint.leader, hint.leader_epoch)
    if (
        hint.endpoint is not None
        and hint.broker is not None
        and all(node.node_id != hint.leader for node in response.node_endpoints)
    ):
        response.node_endpoints.append(
            node_type(hint.leader, hint.endpoint.host, hint.endpoint.port, hint.broker.rack)
        )
