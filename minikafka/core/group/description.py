"""The contents of DescribeGroups, ConsumerGroupDescribe, ListGroups and OffsetFetch responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minikafka.core.group.committing import epoch_error
from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.heartbeat import preferred_assignor
from minikafka.core.group.consumer.member import NOT_JOINED
from minikafka.core.group.group import ClassicGroupMember, Group, GroupState
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern.partitions import Partitions, rows_of
from minikafka.core.group.records import CommittedOffset
from minikafka.core.group.result import AnyGroup
from minikafka.core.group.share.assignor import ASSIGNOR_NAME
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.member import NOT_JOINED as SHARE_NOT_JOINED
from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.member import NOT_JOINED as STREAMS_NOT_JOINED
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_describe import (
    Assignment,
    Member,
    TopicPartitions,
)
from minikafka.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from minikafka.protocol.messages.list_groups import ListedGroup
from minikafka.protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from minikafka.protocol.messages.share_group_describe import Member as ShareMember

NOTHING_COMMITTED = CommittedOffset(-1)
# The types of members in ConsumerGroupDescribe: the protocols that they speak.
CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1
# The type of other groups than ``ModernGroup``, in ListGroups (KIP-848).
CLASSIC = "classic"


class FetchedOffset(NamedTuple):
    """The OffsetFetch row of a partition.

    ``committed`` is ``NOTHING_COMMITTED`` if there is no committed offset, or an ``error``.
    """

    topic_partition: TopicPartition
    committed: CommittedOffset
    error: ErrorCode = ErrorCode.NONE


def fetched(
    group: AnyGroup | None, topic_partitions: Iterable[TopicPartition], require_stable: bool
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


def check_fetch(group: AnyGroup | None, member_id: str | None, member_epoch: int) -> None:
    """Check the epoch of a member of a consumer or streams group that fetches offsets. Others say
    none.

    Raises KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    is_anybody = member_id is None and member_epoch < 0
    if isinstance(group, ConsumerGroup) and not is_anybody:
        error = epoch_error(group, member_id or "", None, member_epoch)
        if error is not None:
            raise KafkaError(error)
    if isinstance(group, StreamsGroup) and not is_anybody:
        if member_id is None or member_id not in group.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member_epoch != group.current.get(member_id, STREAMS_NOT_JOINED).member_epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)


def described(group_id: str, group: AnyGroup | None) -> DescribedGroup:
    """Return the DescribeGroups row of a group. An unknown group has the state Dead, and so has
    one whose members the coordinator assigns.

    Only the row of a stable group contains the members' metadata. While a group rebalances, the
    assignments are those before it, as in Kafka 4; Kafka 3.9 leaves them out.
    """
    if not isinstance(group, Group):
        problem = None if group is None else f"Group {group_id} is not a classic group."
        dead = GroupState.DEAD.value
        return DescribedGroup(group_id=group_id, error_message=problem, group_state=dead)
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
        member.assignment,
    )


def listed(group: AnyGroup) -> ListedGroup:
    """Return the ListGroups row of a group."""
    if isinstance(group, ModernGroup):
        return ListedGroup(group.group_id, group.PROTOCOL_TYPE, group.state.value, group.TYPE)
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)


# ---- consumer groups


def consumer_described(
    group: ConsumerGroup, image: MetadataImage, config: ConsumerGroupConfig
) -> DescribedConsumerGroup:
    """Return the ConsumerGroupDescribe row of a group."""
    return DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, config),
        members=[_consumer_member(group, member_id, image) for member_id in group.members],
    )


def _consumer_member(group: ConsumerGroup, member_id: str, image: MetadataImage) -> Member:
    metadata = group.members[member_id]
    current = group.current.get(member_id, NOT_JOINED)
    return Member(
        member_id=member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=current.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.topics),
        subscribed_topic_regex=metadata.regex,
        assignment=_described_assignment(current.assigned, image),
        target_assignment=_described_assignment(group.targets.get(member_id, {}), image),
        member_type=CLASSIC_MEMBER if metadata.classic is not None else CONSUMER_MEMBER,
    )


# ---- share groups


def share_described(group: ShareGroup, image: MetadataImage) -> DescribedShareGroup:
    """Return the ShareGroupDescribe row of a group."""
    return DescribedShareGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[_share_member(group, member_id, image) for member_id in group.members],
    )


def _share_member(group: ShareGroup, member_id: str, image: MetadataImage) -> ShareMember:
    metadata, current = group.members[member_id], group.current.get(member_id, SHARE_NOT_JOINED)
    return ShareMember(
        member_id=member_id,
        rack_id=metadata.rack_id,
        member_epoch=current.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.topics),
        assignment=_described_assignment(current.assigned, image),
    )


def _described_assignment(partitions: Partitions, image: MetadataImage) -> Assignment:
    return Assignment(
        [
            TopicPartitions(topic_id, image.topic_names.get(topic_id, ""), indices)
            for topic_id, indices in rows_of(partitions)
            if topic_id in image.topic_names
        ]
    )
