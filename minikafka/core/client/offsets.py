"""Offsets as consumers and groups commit and look them up."""

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
    """A committed offset: the next one to consume. ``metadata`` is a text of the application's;
    ``leader_epoch`` is that of the record before, -1 unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class OffsetAndTimestamp(NamedTuple):
    """What ListOffsets found; ``offset`` -1: no record has the timestamp or a later one."""

    offset: int
    timestamp: int
    leader_epoch: int


class GroupMetadata(NamedTuple):
    """The group, and the member of it, that offsets are committed for. A member with an old
    generation is refused; without a generation nobody is."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Give bare offsets their (empty) metadata."""
    return {tp: OffsetAndMetadata(at) if isinstance(at, int) else at for tp, at in offsets.items()}
