"""The Produce call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from minikafka.core.client.calls import Call
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

# The result is the outcome of each partition.
ProduceCall: TypeAlias = Call[dict[TopicPartition, PartitionProduceResponse]]


def produce(
    batches: Iterable[tuple[TopicPartition, Buffer]],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceCall:
    """Build a Produce call to one leader, with one batch for each partition.

    The result is the response row of each partition. The broker sends no response to ``acks`` 0.
    """
    topics = grouped((tp.topic, PartitionProduceData(tp.partition, data)) for tp, data in batches)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name, rows) for name, rows in topics.items()],
    )
    return Call(request, _produced)


def _produced(response: ProduceResponse) -> dict[TopicPartition, PartitionProduceResponse]:
    return {
        TopicPartition(topic.name, row.index): row
        for topic in response.responses
        for row in topic.partition_responses
    }
