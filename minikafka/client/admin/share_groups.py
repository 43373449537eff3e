"""The admin client's calls about share groups (KIP-932): describe, and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.client.admin.broker_calls import describe_each_group
from minikafka.client.session import ClusterSession, Coordinators
from minikafka.core.client.admin import share_groups as calls
from minikafka.core.client.admin.share_groups import ShareGroupDescription, SharePartitionStart
from minikafka.core.client.consumer.group_calls import PartitionErrors
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError


class ShareGroupAdmin:
    """The share group calls of ``Admin``, which inherits this class. ``list_groups`` and
    ``delete_groups`` are for share groups, too.

    Calls go to the coordinators of the groups and are retried after retriable errors until
    ``timeout_ms``.
    """

    session: ClusterSession

    async def describe_share_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, ShareGroupDescription | KafkaError]:
        """Return the description of each group, or its KafkaError: GROUP_ID_NOT_FOUND also for a
        group of another type."""
        of_types = (calls.describe_share_groups,)
        return await describe_each_group(self.session, group_ids, of_types, timeout_ms)

    async def share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, SharePartitionStart | KafkaError | None]:
        """Return where ``partitions`` start for the group, or all that it has. None for a partition
        that has not begun. Raises KafkaError."""
        call = calls.share_group_offsets(group_id, partitions)
        return await Coordinators(self.session).call(call, self.session.deadline_ms(timeout_ms))

    async def alter_share_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int | None = None,
    ) -> PartitionErrors:
        """Let share-partitions of a group without members start elsewhere; the first call makes the
        group. Raises KafkaError, for example NON_EMPTY_GROUP."""
        call = calls.alter_share_group_offsets(group_id, offsets)
        return await Coordinators(self.session).call(call, self.session.deadline_ms(timeout_ms))

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Forget what a group without members has read of ``topics``. Raises KafkaError, for
        example GROUP_ID_NOT_FOUND."""
        call = calls.delete_share_group_offsets(group_id, topics)
        return await Coordinators(self.session).call(call, self.session.deadline_ms(timeout_ms))
