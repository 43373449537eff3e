"""The contents of DescribeGroups, ListGroups and OffsetFetch responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minikafka.core.group.group import ClassicGroupMember, Group, GroupState
from minikafka.core.group.records import CommittedOffset
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.protocol.messages.list_groups import ListedGroup

NOTHING_COMMITTED = CommittedOffset(-1)


class FetchedOffset(NamedTuple):
    """The OffsetFetch row of a partition.

    ``committed`` is ``NOTHING_COMMITTED`` if there is no committed offset, or an ``error``.
    """

    topic_partition: TopicPartition
    committed: CommittedOffset
    error: ErrorCode = ErrorCode.NONE


def fetched(
    group: Group | None, topic_partitions: Iterable[TopicPartition], require_stable: bool
) -> list[FetchedOffset]:
    """Return the committed offsets of ``topic_partitions``; none for an unknown group.

    With ``require_stable`` a partition with a pending commit has the error
    UNSTABLE_OFFSET_COMMIT instead of an offset (KIP-447).
    """
    if group is None:
        return [FetchedOffset(tp, NOTHING_COMMITTED) for tp in topic_partitions]
    offsets = group.offsets
    found: list[FetchedOffset] = []
    for topic_partition in topic_partitions:
        if require_stable and offsets.is_unstable(topic_partition):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
            found.append(FetchedOffset(topic_partition, NOTHING_COMMITTED, error))
        else:
            committed = offsets.get(topic_partition)
            found.append(FetchedOffset(topic_partition, committed or NOTHING_COMMITTED))
    return found


def described(group_id: str, group: Group | None) -> DescribedGroup:
    """Return the DescribeGroups row of a group. An unknown group has the state Dead.

    Only the rows of a stable group contain the members' metadata and assignments.
    """
    if group is None:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.members.values()],
    )


def _described_member(member: ClassicGroupMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol is None else member.metadata(protocol),
        b"" if protocol is None else member.assignment,
    )


def listed(group: Group, group_type: str) -> ListedGroup:
    """Return the ListGroups row of a group."""
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, group_type)
