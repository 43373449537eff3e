"""The embedded protocol of consumers in classic groups, with topic ids in the place of names.

Kafka: ``ConsumerProtocol``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.core.group.modern.partitions import Partitions
from minikafka.core.metadata_image import MetadataImage
from minikafka.protocol.buffer import Buffer, DecodeError
from minikafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerTopicPartitions,
)
from minikafka.protocol.versioned import decode_versioned, encode_versioned, version_of

NEWEST: Final = 3


def read_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Raises DecodeError."""
    _version(data)
    return decode_versioned(ConsumerProtocolSubscription, data, NEWEST)[0]


def read_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Decode an assignment; empty bytes assign nothing. Raises DecodeError."""
    if not len(data):
        return ConsumerProtocolAssignment()
    _version(data)
    return decode_versioned(ConsumerProtocolAssignment, data, NEWEST)[0]


def encoded_assignment(partitions: Partitions, subscription: Buffer, image: MetadataImage) -> bytes:
    """Encode ``partitions`` in the version of a member's ``subscription``. Raises DecodeError.

    Partitions of topics that do not exist any more are left out.
    """
    rows = [
        ConsumerTopicPartitions(image.topic_names[topic_id], sorted(some))
        for topic_id, some in partitions.items()
        if topic_id in image.topic_names
    ]
    return encode_versioned(ConsumerProtocolAssignment(rows), _version(subscription))


def partitions_by_id(rows: Iterable[ConsumerTopicPartitions], image: MetadataImage) -> Partitions:
    """Return partitions by the ids of their topics; topics that do not exist are left out."""
    return {
        image.topic_ids[row.topic]: frozenset(row.partitions)
        for row in rows
        if row.partitions and row.topic in image.topic_ids
    }


def _version(data: Buffer) -> int:
    """Return the version of a message, the newest one for a later one. Raises DecodeError."""
    version = version_of(data)
    if version < 0:
        raise DecodeError(f"version {version}")
    return min(version, NEWEST)
