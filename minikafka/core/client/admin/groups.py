"""Calls about groups: list, describe and delete them, delete their offsets.

``consumer/group_calls.py`` has the calls that fetch and commit offsets: consumers use them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.codec import DecodeError, decode
from minikafka.protocol.messages.consumer_group_describe import (
    CLASSIC_MEMBER_TYPE,
    CONSUMER_MEMBER_TYPE,
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from minikafka.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
)
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

# Group types in ListGroups.
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"

_VERSION_BYTES: Final = 2  # in front of an assignment


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in ListGroups. State and type are empty if the broker is too old to send them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberFacts:
    """What ConsumerGroupDescribe says of a member beyond DescribeGroups (KIP-848).

    ``is_upgraded`` says whether it speaks the consumer protocol, not the classic one; None if the
    broker is too old to know.
    """

    epoch: int
    target_assignment: tuple[TopicPartition, ...]
    is_upgraded: bool | None


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group with the partitions that are assigned to it.

    ``consumer`` is None in a classic group.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    consumer: ConsumerGroupMemberFacts | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupEpochs:
    """The epoch of a consumer group (KIP-848), and that of its target assignment."""

    group: int
    target_assignment: int


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in DescribeGroups, or in ConsumerGroupDescribe; then it has ``epochs``.

    A group that does not exist has the state "Dead".
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: Node
    epochs: ConsumerGroupEpochs | None = None

    @property
    def group_type(self) -> str:
        """The type as ListGroups names it."""
        return CLASSIC if self.epochs is None else CONSUMER


def list_groups(states: Iterable[str], types: Iterable[str]) -> Call[list[GroupListing]]:
    """Build ListGroups. Every broker returns the groups that it coordinates."""

    def read(response: ListGroupsResponse) -> list[GroupListing]:
        raise_for(response.error_code)
        return [
            GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type)
            for row in response.groups
        ]

    return Call(ListGroupsRequest(sorted(states), sorted(types)), read)


def describe_groups(
    group_ids: Iterable[str], coordinator: Node
) -> Call[dict[str, GroupDescription | KafkaError]]:
    """Build DescribeGroups for groups that have one coordinator. The result has the outcome of each
    group."""

    def read(response: DescribeGroupsResponse) -> dict[str, GroupDescription | KafkaError]:
        found = {
            row.group_id: _error(row) or _description(row, coordinator) for row in response.groups
        }
        return of_each(wanted, found)

    wanted = list(group_ids)
    return Call(DescribeGroupsRequest(wanted), read)


def describe_consumer_groups(
    group_ids: Iterable[str], coordinator: Node
) -> Call[dict[str, GroupDescription | KafkaError]]:
    """Build ConsumerGroupDescribe for groups that have one coordinator. The result has the outcome
    of each group; a group of another type has the error GROUP_ID_NOT_FOUND."""

    def read(response: ConsumerGroupDescribeResponse) -> dict[str, GroupDescription | KafkaError]:
        found = {
            row.group_id: error_of(row.error_code, row.error_message or row.group_id)
            or _consumer_description(row, coordinator)
            for row in response.groups
        }
        return of_each(wanted, found)

    wanted = list(group_ids)
    return Call(ConsumerGroupDescribeRequest(wanted), read)


def _consumer_description(row: DescribedConsumerGroup, coordinator: Node) -> GroupDescription:
    members = (
        MemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            partitions_of(member.assignment),
            ConsumerGroupMemberFacts(
                member.member_epoch,
                partitions_of(member.target_assignment),
                _UPGRADED.get(member.member_type),
            ),
        )
        for member in row.members
    )
    return GroupDescription(
        row.group_id,
        row.group_state,
        PROTOCOL_TYPE,
        row.assignor_name,
        tuple(members),
        coordinator,
        ConsumerGroupEpochs(row.group_epoch, row.assignment_epoch),
    )


_UPGRADED: Final = {CLASSIC_MEMBER_TYPE: False, CONSUMER_MEMBER_TYPE: True}


def partitions_of(assignment: Assignment) -> tuple[TopicPartition, ...]:
    """Return the partitions of a described assignment, sorted."""
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def _error(row: DescribedGroup) -> KafkaError | None:
    """Return the error of a row. An unknown group has one from version 6 on, but its row is
    complete."""
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    return error_of(row.error_code, row.error_message or row.group_id)


def _description(row: DescribedGroup, coordinator: Node) -> GroupDescription:
    of_consumers = row.protocol_type in (PROTOCOL_TYPE, "")
    members = (
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            assigned(member.member_assignment) if of_consumers else (),
        )
        for member in row.members
    )
    return GroupDescription(
        row.group_id,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(members),
        coordinator,
    )


def assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a member's assignment, sorted.

    Bytes that are not of Kafka's consumer protocol yield no partitions.
    """
    if not assignment:
        return ()
    try:
        # Version 0 is the beginning of every version.
        read = decode(ConsumerProtocolAssignment, 0, assignment, _VERSION_BYTES)
    except DecodeError:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, number)
            for topic in read.assigned_partitions
            for number in topic.partitions
        )
    )


def delete_group_offsets(
    group_id: str, partitions: Iterable[TopicPartition]
) -> CoordinatorCall[PartitionErrors]:
    """Build OffsetDelete. Its result is the error of each partition, or None.

    The call raises the KafkaError if an error concerns the group or the coordinator as a whole.
    """

    def read(response: OffsetDeleteResponse) -> PartitionErrors:
        raise_for(response.error_code, group_id)
        errors = {
            TopicPartition(topic.name, row.partition_index): error_of(row.error_code)
            for topic in response.topics
            for row in topic.partitions
        }
        raise_gravest(e for e in errors.values() if e and e.code in COORDINATOR_ERRORS)
        return errors

    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(n) for n in numbers])
        for topic, numbers in grouped(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id, topics)
    return CoordinatorCall(request, read, coordinator=group_key(group_id))


def delete_group(group_id: str) -> CoordinatorCall[None]:
    """Build DeleteGroups for one group."""

    def read(response: DeleteGroupsResponse) -> None:
        raise_for(response.results[0].error_code, group_id)

    return CoordinatorCall(DeleteGroupsRequest([group_id]), read, coordinator=group_key(group_id))
