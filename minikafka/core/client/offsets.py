"""Offsets as clients commit them and look them up: with metadata, with timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.kernel.cluster import NO_EPOCH, TopicPartition

NO_GENERATION: Final = -1  # of a group

# Timestamps of ListOffsets that stand for the end, the start, and the highest timestamp of a log.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the next record to consume.

    ``metadata`` is any text of the application; ``leader_epoch`` is the epoch of the last consumed
    record, -1 if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class OffsetAndTimestamp(NamedTuple):
    """A result of ListOffsets. ``offset`` is -1 if no record is at or after the timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


class GroupMetadata(NamedTuple):
    """The consumer group and member for which offsets are committed (KIP-447).

    The coordinator rejects commits of a member with an old generation. Without a generation (-1) it
    does not check the member.
    """

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Convert plain offsets to OffsetAndMetadata with empty metadata."""
    return {tp: OffsetAndMetadata(at) if isinstance(at, int) else at for tp, at in offsets.items()}
