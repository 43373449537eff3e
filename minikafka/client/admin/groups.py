"""The admin client's calls about groups: list, describe, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from minikafka.client.admin.broker_calls import call_every_broker, outcomes_of
from minikafka.client.coordinators import Coordinators, look_up_coordinator
from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import (
    Call,
    CoordinatorCall,
    error_of,
    raise_for,
    raise_gravest,
)
from minikafka.core.client.cluster_view import Node
from minikafka.core.client.consumer.group_calls import (
    PartitionErrors,
    group_key,
    offset_commit,
    offset_fetch,
)
from minikafka.core.client.errors import COORDINATOR_ERRORS
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.codec import DecodeError, decode
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

R = TypeVar("R")

_VERSION_BYTES = 2  # in front of an assignment


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in ListGroups. State and type are empty if the broker is too old to send them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group with the partitions that are assigned to it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in DescribeGroups. A group that does not exist has the state "Dead"."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: Node


class GroupAdmin:
    """The group calls of ``Admin``, which inherits this class.

    Calls go to the coordinators of the groups and are retried after retriable errors until
    ``timeout_ms``.
    """

    session: ClusterSession

    async def list_groups(
        self,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        *,
        timeout_ms: int | None = None,
    ) -> list[GroupListing]:
        """Return the groups of all brokers, by id. Brokers know the filter ``states`` from Kafka
        2.6 on, ``types`` from 3.8 on. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        call = Call(ListGroupsRequest(sorted(states), sorted(types)), _listings)
        found = await call_every_broker(self.session, call, deadline_ms)
        groups = {group.group_id: group for listed in found.values() for group in listed}
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(group_id: str) -> GroupDescription:
            def read(response: DescribeGroupsResponse) -> DescribedGroup:
                (row,) = response.groups
                raise_for(row.error_code, group_id)
                return row

            async def attempt() -> GroupDescription:
                key = group_key(group_id)
                broker_id = await look_up_coordinator(self.session, key, deadline_ms)
                node = self.session.metadata.view.nodes[broker_id]
                call = Call(DescribeGroupsRequest([group_id]), read)
                return _description(await self.session.call(broker_id, call, deadline_ms), node)

            return await self.session.retrying(attempt, deadline_ms)

        return await outcomes_of(describe, group_ids)

    async def group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed of ``partitions``, or of all. Raises KafkaError."""
        call = offset_fetch(group_id, partitions, require_stable=False)
        return await self._call_coordinator(call, timeout_ms)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_ms: int | None = None,
    ) -> PartitionErrors:
        """Set offsets of a group without members; a group with members refuses with
        UNKNOWN_MEMBER_ID. Raises KafkaError."""
        return await self._call_coordinator(
            offset_commit(GroupMetadata(group_id), offsets), timeout_ms
        )

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> PartitionErrors:
        """Delete offsets of a group. Raises KafkaError for the group as a whole, for example
        GROUP_ID_NOT_FOUND."""

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
        call = CoordinatorCall(request, read, coordinator=group_key(group_id))
        return await self._call_coordinator(call, timeout_ms)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete groups without members, with their offsets. None for those that are deleted."""

        async def delete(group_id: str) -> None:
            def read(response: DeleteGroupsResponse) -> None:
                raise_for(response.results[0].error_code, group_id)

            request = DeleteGroupsRequest([group_id])
            call = CoordinatorCall(request, read, coordinator=group_key(group_id))
            await self._call_coordinator(call, timeout_ms)

        return await outcomes_of(delete, group_ids)

    async def _call_coordinator(self, call: CoordinatorCall[R], timeout_ms: int | None) -> R:
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await Coordinators(self.session).call(call, deadline_ms)


def _listings(response: ListGroupsResponse) -> list[GroupListing]:
    raise_for(response.error_code)
    return [
        GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type)
        for row in response.groups
    ]


def _description(row: DescribedGroup, coordinator: Node) -> GroupDescription:
    of_consumers = row.protocol_type in (PROTOCOL_TYPE, "")
    return GroupDescription(
        row.group_id,
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(
            MemberDescription(
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
