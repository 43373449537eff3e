"""The admin client's part for groups: listed, described, their offsets seen, set and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from minikafka.client.coordinators import find_coordinator, request_coordinator
from minikafka.client.session import ClusterSession, raise_for
from minikafka.core.client.cluster_view import Node
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.codec import DecodeError, decode
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
)
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

T = TypeVar("T")

ONE_GROUP_VERSION = 7  # of OffsetFetch; later ones ask for several groups, with no gain here
_VERSION_BYTES = 2  # in front of an assignment

PartitionOutcomes: TypeAlias = dict[TopicPartition, KafkaError | None]


@dataclass(frozen=True, slots=True)
class GroupListing:
    """State and type are empty where brokers do not tell them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group that does not exist is "Dead"."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    coordinator: Node


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """``leader_epoch`` -1: not known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupAdmin:
    """Asked of the groups' coordinators, until ``timeout_ms`` over retriable errors."""

    session: ClusterSession

    async def list_groups(
        self,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        *,
        timeout_ms: int | None = None,
    ) -> list[GroupListing]:
        """Those of all brokers, by id. Brokers take no filters before Kafka 2.6 (states) and 3.8
        (types). Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        request = ListGroupsRequest(sorted(states), sorted(types))
        brokers = await self.session.metadata.wait_until(
            lambda view: view.nodes or None, self.session.remaining_ms(deadline_ms), "the brokers"
        )

        async def ask(broker_id: int) -> list[GroupListing]:
            async def attempt() -> list[GroupListing]:
                timeout_ms = self.session.remaining_ms(deadline_ms)
                timeout_ms = min(timeout_ms, self.session.config.request_timeout_ms)
                answer = await self.session.connections.request(
                    broker_id, request, timeout_ms=timeout_ms
                )
                raise_for(ErrorCode(answer.error_code))
                return [
                    GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type)
                    for row in answer.groups
                ]

            return await self.session.retrying(attempt, deadline_ms)

        found = await asyncio.gather(*(ask(broker_id) for broker_id in sorted(brokers)))
        groups = {group.group_id: group for listed in found for group in listed}
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(group_id: str) -> GroupDescription:
            async def attempt() -> GroupDescription:
                broker_id = await find_coordinator(self.session, group_id, deadline_ms)
                node = self.session.metadata.view.nodes[broker_id]
                timeout_ms = self.session.remaining_ms(deadline_ms)
                answer = await self.session.connections.request(
                    broker_id,
                    DescribeGroupsRequest([group_id]),
                    timeout_ms=min(timeout_ms, self.session.config.request_timeout_ms),
                )
                (row,) = answer.groups
                raise_for(ErrorCode(row.error_code), group_id)
                return _description(row, node)

            return await self.session.retrying(attempt, deadline_ms)

        return await _outcomes(describe, group_ids)

    async def group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, GroupOffset]:
        """What the group has committed of ``partitions``, or of all. Raises KafkaError."""
        topics = None
        if partitions is not None:
            topics = [
                OffsetFetchRequestTopic(topic, numbers)
                for topic, numbers in grouped(partitions).items()
            ]

        def read(answer: Any) -> dict[TopicPartition, GroupOffset]:
            raise_for(ErrorCode(answer.error_code), group_id)
            found: dict[TopicPartition, GroupOffset] = {}
            for topic in answer.topics:
                for row in topic.partitions:
                    raise_for(ErrorCode(row.error_code), f"{topic.name}-{row.partition_index}")
                    if row.committed_offset >= 0:
                        found[TopicPartition(topic.name, row.partition_index)] = GroupOffset(
                            row.committed_offset, row.metadata or "", row.committed_leader_epoch
                        )
            return dict(sorted(found.items()))

        request = OffsetFetchRequest(group_id, topics)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await request_coordinator(
            self.session, group_id, request, deadline_ms, read, at_most=ONE_GROUP_VERSION
        )

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        timeout_ms: int | None = None,
    ) -> PartitionOutcomes:
        """Set offsets of a group without members; with some, UNKNOWN_MEMBER_ID comes back. Raises
        KafkaError."""
        request = OffsetCommitRequest(
            group_id,
            topics=[
                OffsetCommitRequestTopic(
                    topic,
                    [
                        OffsetCommitRequestPartition(
                            number,
                            (new := offsets[TopicPartition(topic, number)]).offset,
                            new.leader_epoch,
                            committed_metadata=new.metadata,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in grouped(offsets).items()
            ],
        )
        return await self._ask_partitions(group_id, request, timeout_ms)

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> PartitionOutcomes:
        """Raises KafkaError for the group as a whole, GROUP_ID_NOT_FOUND for one."""
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(n) for n in numbers])
            for topic, numbers in grouped(partitions).items()
        ]
        request = OffsetDeleteRequest(group_id, topics)
        return await self._ask_partitions(group_id, request, timeout_ms)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Groups without members, with their offsets. None for those that are gone."""
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def delete(group_id: str) -> None:
            def read(answer: Any) -> None:
                raise_for(ErrorCode(answer.results[0].error_code), group_id)

            request = DeleteGroupsRequest([group_id])
            await request_coordinator(self.session, group_id, request, deadline_ms, read)

        return await _outcomes(delete, group_ids)

    async def remove_static_members(
        self, group_id: str, group_instance_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """By instance id; None for those that are out. Raises KafkaError."""
        members = [MemberIdentity("", instance) for instance in group_instance_ids]

        def read(answer: Any) -> dict[str, KafkaError | None]:
            raise_for(ErrorCode(answer.error_code), group_id)
            return {row.group_instance_id: _failure(row) for row in answer.members}

        request = LeaveGroupRequest(group_id, members=members)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await request_coordinator(self.session, group_id, request, deadline_ms, read)

    # -- inside

    async def _ask_partitions(
        self,
        group_id: str,
        request: OffsetCommitRequest | OffsetDeleteRequest,
        timeout_ms: int | None,
    ) -> PartitionOutcomes:
        def read(answer: Any) -> PartitionOutcomes:
            raise_for(ErrorCode(getattr(answer, "error_code", 0)), group_id)
            outcomes = {
                TopicPartition(topic.name, row.partition_index): _failure(row)
                for topic in answer.topics
                for row in topic.partitions
            }
            for error in outcomes.values():
                if error is not None and error.code in _ASK_AGAIN:
                    raise error
            return outcomes

        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await request_coordinator(self.session, group_id, request, deadline_ms, read)


# What OffsetCommit says of each partition and means of the coordinator.
_ASK_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class _Row(Protocol):
    error_code: int


def _failure(row: _Row) -> KafkaError | None:
    code = ErrorCode(row.error_code)
    return None if code is ErrorCode.NONE else KafkaError(code)


async def _outcomes(
    ask: Callable[[str], Awaitable[T]], group_ids: Iterable[str]
) -> dict[str, T | KafkaError]:
    """The result or the KafkaError of each group; all are asked at the same time."""

    async def outcome(group_id: str) -> T | KafkaError:
        try:
            return await ask(group_id)
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(group_ids))
    found = await asyncio.gather(*(outcome(group_id) for group_id in wanted))
    return dict(zip(wanted, found, strict=True))


def _description(row: DescribedGroup, coordinator: Node) -> GroupDescription:
    of_consumers = row.protocol_type in (PROTOCOL_TYPE, "")
    return GroupDescription(
        row.group_id,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                assigned(member.member_assignment) if of_consumers else (),
            )
            for member in row.members
        ),
        coordinator,
    )


def assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """In order. Nothing where the bytes are none that consumers understand."""
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
