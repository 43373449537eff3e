"""The topics of UpdateMetadata requests as bytes, which several brokers get.

The metadata of 100,000 partitions take 0.2 s to encode. A broker that starts gets them, and after a
failover all brokers do. So they are encoded in steps, and once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from minikafka.protocol.codec import encode_struct
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


class _EncodedPartitionState(UpdateMetadataPartitionState):
    """A partition of which only the bytes can be read."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded


class EncodedTopicState(UpdateMetadataTopicState):
    """A topic with its bytes in one version. Its fields can be read as those of any other."""

    __slots__ = ("encoded", "version")

    def __init__(self, topic: UpdateMetadataTopicState, encoded: bytes, version: int) -> None:
        self.topic_name = topic.topic_name
        self.topic_id = topic.topic_id
        self.partition_states = topic.partition_states
        self.encoded = encoded
        self.version = version


def encoding_steps(
    topics: Iterable[UpdateMetadataTopicState], version: int
) -> Generator[None, None, list[UpdateMetadataTopicState]]:
    """Return the topics with their bytes; yield after each partition. ``version`` is one that has
    topics (from 5 on)."""
    encoded: list[UpdateMetadataTopicState] = []
    for topic in topics:
        rows: list[UpdateMetadataPartitionState] = []
        for state in topic.partition_states:
            rows.append(
                _EncodedPartitionState(encode_struct(state, UpdateMetadataRequest, version))
            )
            yield
        whole = UpdateMetadataTopicState(topic.topic_name, topic.topic_id, rows)
        encoded.append(
            EncodedTopicState(topic, encode_struct(whole, UpdateMetadataRequest, version), version)
        )
    return encoded


def topics_for(
    topics: list[UpdateMetadataTopicState], version: int
) -> list[UpdateMetadataTopicState]:
    """Return the topics for a request of ``version``: without their bytes, if these are of
    another."""
    if all(
        not isinstance(topic, EncodedTopicState) or topic.version == version for topic in topics
    ):
        return topics
    return [
        UpdateMetadataTopicState(topic.topic_name, topic.topic_id, topic.partition_states)
        for topic in topics
    ]
