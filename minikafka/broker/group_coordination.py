"""What the group handlers need of the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.description import FetchedOffset
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.syncing import SyncFacts
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.describe_groups import DescribedGroup
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse
from minikafka.protocol.messages.list_groups import ListedGroup
from minikafka.protocol.messages.sync_group import SyncGroupResponse


class GroupCoordination(Protocol):
    """``reply`` is called exactly once, now or later. Errors of a request as a whole are raised as
    KafkaError where an answer is returned."""

    def join(
        self, group_id: str, facts: JoinFacts, reply: Callable[[JoinGroupResponse], None]
    ) -> None: ...

    def sync(
        self, group_id: str, facts: SyncFacts, reply: Callable[[SyncGroupResponse], None]
    ) -> None: ...

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode: ...

    def leave(
        self, group_id: str, identities: Sequence[MemberIdentity]
    ) -> list[MemberResponse]: ...

    def commit(
        self,
        group_id: str,
        facts: CommitFacts,
        reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None: ...

    def partition_for(self, group_id: str) -> int: ...

    def fetch(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition] | None,
        require_stable: bool,
    ) -> list[FetchedOffset]: ...

    def delete_offsets(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition],
        reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None: ...

    def describe(self, group_id: str) -> DescribedGroup: ...

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]: ...

    def delete_groups(
        self, group_ids: Iterable[str], reply: Callable[[Mapping[str, ErrorCode]], None]
    ) -> None: ...
