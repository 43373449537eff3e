"""The admin client's calls about groups: list, describe, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from minikafka.client.admin.broker_calls import (
    call_every_broker,
    describe_each_group,
    outcomes_of,
)
from minikafka.client.session import ClusterSession, Coordinators
from minikafka.core.client.admin import groups as calls
from minikafka.core.client.admin.groups import GroupDescription, GroupListing
from minikafka.core.client.admin.streams_groups import (
    StreamsGroupDescription,
    describe_streams_groups,
)
from minikafka.core.client.calls import CoordinatorCall
from minikafka.core.client.consumer.group_calls import (
    PartitionErrors,
    offset_commit,
    offset_fetch,
)
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError

R = TypeVar("R")


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
        call = calls.list_groups(states, types)
        found = await call_every_broker(self.session, call, deadline_ms)
        groups = {group.group_id: group for listed in found.values() for group in listed}
        return [groups[group_id] for group_id in sorted(groups)]

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        """Return the description of each group, or its KafkaError.

        A coordinator is asked for a consumer group (KIP-848) first. A group of another type is not
        found then, and brokers before Kafka 4 do not know the request.
        """
        of_types = calls.describe_consumer_groups, calls.describe_groups
        return await describe_each_group(self.session, group_ids, of_types, timeout_ms)

    async def describe_streams_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, StreamsGroupDescription | KafkaError]:
        """Return the description of each streams group (KIP-1071), or its KafkaError. A group of
        another type is not found."""
        of_types = (describe_streams_groups,)
        return await describe_each_group(self.session, group_ids, of_types, timeout_ms)

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
        call = calls.delete_group_offsets(group_id, partitions)
        return await self._call_coordinator(call, timeout_ms)

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete groups without members, with their offsets. None for those that are deleted."""

        async def delete(group_id: str) -> None:
            await self._call_coordinator(calls.delete_group(group_id), timeout_ms)

        return await outcomes_of(delete, group_ids)

    async def _call_coordinator(self, call: CoordinatorCall[R], timeout_ms: int | None) -> R:
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await Coordinators(self.session).call(call, deadline_ms)
