"""The current leader, which responses name beside NOT_LEADER_OR_FOLLOWER (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from minikafka.kernel.cluster import NO_EPOCH, NO_LEADER, Broker, Endpoint, TopicPartition
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions

NodeT = TypeVar("NodeT")


class LeaderHint(NamedTuple):
    """A leader, its epoch and its address. -1, -1 and no address if no leader is known."""

    leader: int
    leader_epoch: int
    broker: Broker | None
    endpoint: Endpoint | None


def leader_hint(
    cluster: MetadataCache, hosted: HostedPartitions, topic_partition: TopicPartition, listener: str
) -> LeaderHint:
    """Return the leader known to the local replica, since LeaderAndIsr arrives before
    UpdateMetadata. Without a replica, return the leader in the metadata cache. Its endpoint is the
    one on ``listener``."""
    partition = hosted.get(topic_partition)
    if partition is not None and partition.leader_epoch >= 0:
        leader, leader_epoch = partition.state.leader, partition.leader_epoch
    else:
        leader, leader_epoch = cluster.partition_leader(topic_partition) or (NO_LEADER, NO_EPOCH)
    broker = cluster.broker(leader) if leader >= 0 else None
    endpoint = broker.endpoint(listener) if broker is not None else None
    return LeaderHint(leader, leader_epoch, broker, endpoint)


def node_endpoints(
    hints: Iterable[LeaderHint], node_type: Callable[[int, str, int, str | None], NodeT]
) -> list[NodeT]:
    """Return the leaders of ``hints`` that have an endpoint, each once, as ``node_type``, which is
    the structure of the response's module."""
    nodes = {
        hint.leader: node_type(
            hint.leader, hint.endpoint.host, hint.endpoint.port, hint.broker.rack
        )
        for hint in hints
        if hint.endpoint is not None and hint.broker is not None
    }
    return list(nodes.values())
