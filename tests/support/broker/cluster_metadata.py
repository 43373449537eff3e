"""UpdateMetadata requests and filled metadata caches for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from minikafka.kernel.cluster import LEADER_DURING_DELETE, ZERO_UUID
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from minikafka.server.broker.metadata.cache import MetadataCache


def topic_id(topic: str) -> UUID:
    return UUID(bytes=topic.encode().ljust(16, b"\0")[:16])


def live_broker(
    broker_id: int, listeners: Sequence[str] = ("PLAINTEXT",), rack: str | None = None
) -> UpdateMetadataBroker:
    """Return a live broker. Its first listener is on port 9000 + id, each other one 100 higher."""
    endpoints = [
        UpdateMetadataEndpoint(9000 + 100 * n + broker_id, f"host{broker_id}", listener, 0)
        for n, listener in enumerate(listeners)
    ]
    return UpdateMetadataBroker(id=broker_id, endpoints=endpoints, rack=rack)


def partition_state(
    index: int,
    leader: int,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    leader_epoch: int = 0,
    offline: Sequence[int] = (),
    topic: str = "",
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name=topic,
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=list(replicas if isr is None else isr),
        replicas=list(replicas),
        offline_replicas=list(offline),
    )


def update(
    topics: Mapping[str, Sequence[UpdateMetadataPartitionState]] | None = None,
    brokers: Sequence[UpdateMetadataBroker | int] = (1, 2, 3),
    controller: int = 1,
    with_ids: bool = True,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller,
        controller_epoch=1,
        topic_states=[
            UpdateMetadataTopicState(name, topic_id(name) if with_ids else ZERO_UUID, list(states))
            for name, states in (topics or {}).items()
        ],
        live_brokers=[live_broker(b) if isinstance(b, int) else b for b in brokers],
    )


def deletion(topic: str, partitions: int) -> UpdateMetadataRequest:
    states = [partition_state(p, LEADER_DURING_DELETE) for p in range(partitions)]
    return update({topic: states})


def cache_with(request: UpdateMetadataRequest | None = None, broker_id: int = 1) -> MetadataCache:
    cache = MetadataCache(broker_id)
    cache.update(request or update())
    return cache
