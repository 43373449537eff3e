"""The encoding of subscriptions and assignments in group requests (``ConsumerProtocol``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.core.client.assignors.model import Subscription
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerTopicPartitions,
)
from minikafka.protocol.versioned import decode_versioned, encode_versioned

# Members of an older client read what they know: later versions only add to the end.
NEWEST: Final = 3


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """Encode a subscription. Topics and owned partitions are sorted, as in Kafka.

    Equal subscriptions therefore have equal bytes; a coordinator compares the bytes of a repeated
    JoinGroup.
    """
    return encode_versioned(
        ConsumerProtocolSubscription(
            topics=sorted(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=_by_topic(subscription.owned),
            generation_id=subscription.generation,
            rack_id=subscription.rack_id,
        ),
        version,
    )


def decode_subscription(data: Buffer, group_instance_id: str | None = None) -> Subscription:
    """Decode the subscription of another member. Raises DecodeError.

    ``group_instance_id`` is not part of the bytes: it comes from the row of the JoinGroup response.
    """
    found, _ = decode_versioned(ConsumerProtocolSubscription, data, NEWEST)
    return Subscription(
        tuple(found.topics),
        _flat(found.owned_partitions),
        found.generation_id,
        None if found.user_data is None else bytes(found.user_data),
        group_instance_id,
        found.rack_id,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None, version: int = NEWEST
) -> bytes:
    return encode_versioned(ConsumerProtocolAssignment(_by_topic(partitions), user_data), version)


def decode_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """Decode the partitions of an assignment. Raises DecodeError.

    Empty bytes are an empty assignment: a coordinator sends them to a member that the leader left
    out.
    """
    if not len(data):
        return ()
    found, _ = decode_versioned(ConsumerProtocolAssignment, data, NEWEST)
    return _flat(found.assigned_partitions)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[ConsumerTopicPartitions]:
    return [ConsumerTopicPartitions(*of_topic) for of_topic in grouped(sorted(partitions)).items()]


def _flat(rows: Iterable[ConsumerTopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(row.topic, number) for row in rows for number in row.partitions)
