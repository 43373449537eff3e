"""Calls about share groups (KIP-932): describe them, and list, alter and delete their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.core.client.admin.groups import partitions_of
from minikafka.core.client.calls import (
    Call,
    CoordinatorCall,
    error_of,
    of_each,
    raise_for,
    raise_gravest,
)
from minikafka.core.client.cluster_view import Node
from minikafka.core.client.consumer.group_calls import PartitionErrors, group_key
from minikafka.core.client.errors import COORDINATOR_ERRORS
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from minikafka.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
)


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """A member of a share group with the partitions that it reads."""

    member_id: str
    client_id: str
    host: str
    rack_id: str | None
    epoch: int
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group, its epoch and that of its target assignment."""

    group_id: str
    state: str
    assignor: str
    epoch: int
    target_epoch: int
    members: tuple[ShareMemberDescription, ...]
    coordinator: Node


@dataclass(frozen=True, slots=True)
class SharePartitionStart:
    """Where a share-partition starts. ``lag`` is the number of records from there to the end that
    still need delivery; None if it is not known."""

    start_offset: int
    leader_epoch: int
    lag: int | None


def describe_share_groups(
    group_ids: Iterable[str], coordinator: Node
) -> Call[dict[str, ShareGroupDescription | KafkaError]]:
    """Build ShareGroupDescribe for groups that have one coordinator. The result has the outcome of
    each group; a group of another type has the error GROUP_ID_NOT_FOUND."""

    def read(
        response: ShareGroupDescribeResponse,
    ) -> dict[str, ShareGroupDescription | KafkaError]:
        found = {
            row.group_id: error_of(row.error_code, row.error_message or row.group_id)
            or _description(row, coordinator)
            for row in response.groups
        }
        return of_each(wanted, found)

    wanted = list(group_ids)
    return Call(ShareGroupDescribeRequest(wanted), read)


def _description(row: DescribedGroup, coordinator: Node) -> ShareGroupDescription:
    members = (
        ShareMemberDescription(
            member.member_id,
            member.client_id,
            member.client_host,
            member.rack_id,
            member.member_epoch,
            partitions_of(member.assignment),
        )
        for member in row.members
    )
    return ShareGroupDescription(
        row.group_id,
        row.group_state,
        row.assignor_name,
        row.group_epoch,
        row.assignment_epoch,
        tuple(members),
        coordinator,
    )


def share_group_offsets(
    group_id: str, partitions: Iterable[TopicPartition] | None
) -> CoordinatorCall[dict[TopicPartition, SharePartitionStart | KafkaError | None]]:
    """Build DescribeShareGroupOffsets for one group: for all its partitions, or for those that are
    given. None for a partition that has not begun."""

    def read(
        response: DescribeShareGroupOffsetsResponse,
    ) -> dict[TopicPartition, SharePartitionStart | KafkaError | None]:
        (group,) = response.groups
        raise_for(group.error_code, group.error_message or group_id)
        return {
            TopicPartition(topic.topic_name, row.partition_index): _offset(row)
            for topic in group.topics
            for row in topic.partitions
        }

    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(*of_topic)
            for of_topic in grouped(partitions).items()
        ]
    group = DescribeShareGroupOffsetsRequestGroup(group_id, topics)
    request = DescribeShareGroupOffsetsRequest([group])
    return CoordinatorCall(request, read, coordinator=group_key(group_id))


def _offset(
    row: DescribeShareGroupOffsetsResponsePartition,
) -> SharePartitionStart | KafkaError | None:
    error = error_of(row.error_code, row.error_message)
    if error is not None:
        return error
    if row.start_offset < 0:
        return None
    return SharePartitionStart(
        row.start_offset, row.leader_epoch, row.lag if row.lag >= 0 else None
    )


def alter_share_group_offsets(
    group_id: str, offsets: Mapping[TopicPartition, int]
) -> CoordinatorCall[PartitionErrors]:
    """Build AlterShareGroupOffsets. Its result is the error of each partition, or None.

    The call raises the KafkaError if an error concerns the group or the coordinator as a whole."""

    def read(response: AlterShareGroupOffsetsResponse) -> PartitionErrors:
        raise_for(response.error_code, response.error_message or group_id)
        errors = {
            TopicPartition(topic.topic_name, row.partition_index): error_of(
                row.error_code, row.error_message
            )
            for topic in response.responses
            for row in topic.partitions
        }
        raise_gravest(e for e in errors.values() if e and e.code in COORDINATOR_ERRORS)
        return errors

    rows = (
        (topic, AlterShareGroupOffsetsRequestPartition(partition, offset))
        for (topic, partition), offset in offsets.items()
    )
    topics = [AlterShareGroupOffsetsRequestTopic(*each) for each in grouped(rows).items()]
    request = AlterShareGroupOffsetsRequest(group_id, topics)
    return CoordinatorCall(request, read, coordinator=group_key(group_id))


def delete_share_group_offsets(
    group_id: str, topics: Iterable[str]
) -> CoordinatorCall[dict[str, KafkaError | None]]:
    """Build DeleteShareGroupOffsets. Its result is the error of each topic, or None.

    The call raises the KafkaError if an error concerns the group or the coordinator as a whole."""

    def read(response: DeleteShareGroupOffsetsResponse) -> dict[str, KafkaError | None]:
        raise_for(response.error_code, response.error_message or group_id)
        return {
            row.topic_name: error_of(row.error_code, row.error_message)
            for row in response.responses
        }

    rows = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    request = DeleteShareGroupOffsetsRequest(group_id, rows)
    return CoordinatorCall(request, read, coordinator=group_key(group_id))
