"""Operations that wait for thousands of partitions, and changes of all these in one request."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.server.broker.apis.records.produce import APPENDED_AT_ONCE
from minikafka.server.broker.fetch.record_fetches import DelayedFetch
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster, batch

PARTITIONS = range(300)
SLICES = len(PARTITIONS) // APPENDED_AT_ONCE


def produce(node: Node, acks: int, timeout_ms: int = 60_000) -> list[Any]:
    data = [PartitionProduceData(i, bytearray(batch("a"))) for i in PARTITIONS]
    topics = [TopicProduceData(TOPIC, partition_data=data)]
    return node.ask(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics), 9)


def fetch(node: Node, offset: int, **fields: Any) -> list[Any]:
    wanted = [
        FetchPartition(i, fetch_offset=offset, partition_max_bytes=1 << 20) for i in PARTITIONS
    ]
    return node.ask(FetchRequest(topics=[FetchTopic(TOPIC, partitions=wanted)], **fields), 11)


class Tries:
    """Counts the tries of delayed operations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> None:
        self.count = 0
        try_complete = kind.try_complete

        def counted(operation: Any) -> bool:
            self.count += 1
            done: bool = try_complete(operation)
            return done

        monkeypatch.setattr(kind, "try_complete", counted)


@pytest.mark.mission("SAFE-79")
async def test_a_produce_to_many_partitions_tries_a_parked_fetch_of_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, (1,), replicas=(1,), partitions=PARTITIONS)
        parked = fetch(cluster[1], 0, max_wait_ms=60_000, min_bytes=1 << 20)
        tries = Tries(monkeypatch, DelayedFetch)
        answers = produce(cluster[1], acks=1)
        await cluster.clock.advance(10)
        assert len(answers) == 1
        assert parked == []
        assert tries.count == SLICES


@pytest.mark.mission("SAFE-79")
async def test_other_changes_of_many_partitions_try_a_parked_fetch_of_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, (1,), replicas=(1,), partitions=PARTITIONS)
        fetch(cluster[1], 0, max_wait_ms=60_000, min_bytes=1 << 20)
        tries = Tries(monkeypatch, DelayedFetch)
        purgatories = cluster[1].replicas.purgatories
        purgatories.partitions_changed([TopicPartition(TOPIC, i) for i in PARTITIONS])
        assert tries.count == 1
