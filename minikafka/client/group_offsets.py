"""Offsets of a group: committing them, and finding out what was committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from minikafka.client.consumer.group_member import GroupMember
from minikafka.client.session import ClusterSession
from minikafka.core.client.assignors.model import NO_GENERATION
from minikafka.core.client.membership import LOST_COORDINATOR, Membership, MemberState, Next
from minikafka.kernel.cluster import NO_EPOCH, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

_ONE_GROUP_VERSION = 7  # later ones name several groups, with no gain here
_STABLE_VERSION = 7  # of OffsetFetch, KIP-447


class OffsetAndMetadata(NamedTuple):
    """``offset`` is the next one to consume; ``metadata`` the application's own words."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class GroupMetadata(NamedTuple):
    """Who consumes, for transactions that commit offsets; by group id alone nobody is fenced."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


class CommitFailedError(KafkaError):
    """The group went on without this consumer: others have its partitions, and may have read what
    was to be committed. Kafka: CommitFailedException, RebalanceInProgressException."""


class GroupOffsets:
    """Through the coordinator of one group. ``is_member`` says whether partitions come from the
    group; else commits carry no generation, as those of consumers by assignment do."""

    def __init__(
        self, session: ClusterSession, member: GroupMember, is_member: Callable[[], bool]
    ) -> None:
        self.commits = 0
        self._session = session
        self._member = member
        self._is_member = is_member

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """All of them, in one request, again while that may help.

        Raises CommitFailedError when the group has moved on, KafkaError for the rest.
        """
        if offsets:
            await self._session.retrying(self._attempt(offsets, deadline_ms), deadline_ms)
            self.commits += 1

    async def commit_existing(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """As ``commit``, for partitions that are about to be revoked: one that was deleted must not
        hold up the rebalance. Once the coordinator has refused a partition as unknown, those that
        are not in the metadata either are left out."""
        wanted = dict(offsets)

        async def attempt() -> None:
            try:
                if wanted:
                    await self._attempt(wanted, deadline_ms)()
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    view = self._session.metadata.view
                    for tp in [tp for tp in wanted if view.partition(tp) is None]:
                        del wanted[tp]
                raise

        await self._session.retrying(attempt, deadline_ms)
        self.commits += bool(wanted)

    async def commit_once(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """As ``commit``, in a single attempt: for who does not wait, and may commit more before a
        second one would arrive."""
        if offsets:
            await self._attempt(offsets, deadline_ms)()
            self.commits += 1

    def _attempt(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> Callable[[], Awaitable[None]]:
        """To commit as who this is now, whatever it is by then. Raises CommitFailedError."""
        generation, member_id = NO_GENERATION, ""
        membership = self._member.membership
        if self._is_member():
            generation, member_id = membership.generation, membership.member_id
            if generation == NO_GENERATION or membership.state is MemberState.UNJOINED:
                raise CommitFailedError(
                    ErrorCode.UNKNOWN_MEMBER_ID, "this consumer is no member of its group now"
                )
        topics = grouped(
            (
                topic,
                OffsetCommitRequestPartition(
                    index, wanted.offset, wanted.leader_epoch, committed_metadata=wanted.metadata
                ),
            )
            for (topic, index), wanted in sorted(offsets.items())
        )
        request = OffsetCommitRequest(
            group_id=membership.config.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=membership.config.group_instance_id if member_id else None,
            topics=[OffsetCommitRequestTopic(name, rows) for name, rows in topics.items()],
        )

        async def attempt() -> None:
            answer = await self._member.ask(request, self._session.remaining_ms(deadline_ms))
            self._check(answer, membership, generation)

        return attempt

    def _check(self, answer: Any, membership: Membership, generation: int) -> None:
        codes = {
            TopicPartition(topic.name, row.partition_index): ErrorCode(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }
        for tp, code in codes.items():
            if code is ErrorCode.NONE:
                continue
            if code in LOST_COORDINATOR:
                self._member.forget_coordinator()
            if generation == NO_GENERATION:
                raise KafkaError(code, str(tp))
            if membership.on_commit(code, generation) is Next.JOIN_AGAIN:
                raise CommitFailedError(code, f"{tp}: the group has moved on")
            raise KafkaError(code, str(tp))

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """None where nothing is committed. Raises KafkaError."""
        wanted = sorted(partitions)
        topics = grouped(wanted)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            stable = await self._knows_stable()
            request = OffsetFetchRequest(
                group_id=self._member.membership.config.group_id,
                topics=[OffsetFetchRequestTopic(name, rows) for name, rows in topics.items()],
                require_stable=stable,
            )
            timeout_ms = min(
                self._session.config.request_timeout_ms, self._session.remaining_ms(deadline_ms)
            )
            answer = await self._member.ask(request, timeout_ms, at_most=_ONE_GROUP_VERSION)
            self._raise_for(answer.error_code)
            found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
            for topic in answer.topics:
                for row in topic.partitions:
                    self._raise_for(row.error_code)
                    if row.committed_offset >= 0:
                        found[TopicPartition(topic.name, row.partition_index)] = OffsetAndMetadata(
                            row.committed_offset, row.metadata or "", row.committed_leader_epoch
                        )
            return found

        return await self._session.retrying(attempt, deadline_ms) if wanted else {}

    async def _knows_stable(self) -> bool:
        """Whether the coordinator can leave out offsets of transactions that are still open."""
        versions = await self._member.coordinator_versions()
        return versions.get(ApiKey.OFFSET_FETCH, (0, 0))[1] >= _STABLE_VERSION

    def _raise_for(self, value: int) -> None:
        code = ErrorCode(value)
        if code in LOST_COORDINATOR:
            self._member.forget_coordinator()
        if code is not ErrorCode.NONE:
            raise KafkaError(code)


def with_metadata(
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Bare offsets made whole."""
    return {tp: OffsetAndMetadata(at) if isinstance(at, int) else at for tp, at in offsets.items()}
