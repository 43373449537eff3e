"""The ``partition.metadata`` file of a log: the id of the topic that it belongs to."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

PARTITION_METADATA: Final = "partition.metadata"
_VERSION: Final = 0


class PartitionMetadataError(ValueError):
    """Not the text of a partition.metadata file."""


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> UUID:
    """Raises PartitionMetadataError."""
    try:
        lines = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if int(lines["version"]) != _VERSION:
            raise PartitionMetadataError(f"unknown version {lines['version']}")
        return UUID(bytes=urlsafe_b64decode(lines["topic_id"] + "=="))
    except (ValueError, KeyError) as error:
        raise PartitionMetadataError(f"malformed: {error}") from error


def topic_id_text(topic_id: UUID) -> str:
    """22 characters of URL-safe base64, as Kafka prints its ids."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
