"""The members of a share group: metadata, assignment, and their records."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.core.group.modern.partitions import Partitions, read_rows, rows_of
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_group_log import TopicPartitions
from minikafka.protocol.messages.share_group_membership_log import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
)

_STABLE: Final = 0  # Kafka's ``MemberState``: a member of a share group has no other


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """The metadata of a member. ``topics`` are the names to which it subscribes, sorted."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class ShareAssignment(NamedTuple):
    """The partitions that a member reads, and its epochs."""

    member_epoch: int
    previous_member_epoch: int
    assigned: Partitions


NOT_JOINED: Final = ShareAssignment(0, -1, {})


def stored_metadata(member: ShareGroupMember) -> ShareGroupMemberMetadataValue:
    return ShareGroupMemberMetadataValue(
        member.rack_id, member.client_id, member.client_host, list(member.topics)
    )


def read_metadata(value: ShareGroupMemberMetadataValue) -> ShareGroupMember:
    topics = tuple(sorted(set(value.subscribed_topic_names)))
    return ShareGroupMember(value.rack_id, value.client_id, value.client_host, topics)


def stored_target(target: Partitions) -> ShareGroupTargetAssignmentMemberValue:
    return ShareGroupTargetAssignmentMemberValue(_rows(target))


def read_target(value: ShareGroupTargetAssignmentMemberValue) -> Partitions:
    return read_rows(value.topic_partitions)


def stored_current(current: ShareAssignment) -> ShareGroupCurrentMemberAssignmentValue:
    return ShareGroupCurrentMemberAssignmentValue(
        current.member_epoch, current.previous_member_epoch, _STABLE, _rows(current.assigned)
    )


def read_current(value: ShareGroupCurrentMemberAssignmentValue) -> ShareAssignment:
    return ShareAssignment(
        value.member_epoch, value.previous_member_epoch, read_rows(value.assigned_partitions)
    )


def _rows(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(*row) for row in rows_of(partitions)]
