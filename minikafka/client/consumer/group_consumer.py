"""The group part of a consumer: membership, committed offsets, automatic commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from minikafka.client.consumer.classic_member import ClassicMember
from minikafka.client.consumer.config import ConsumerConfig
from minikafka.client.consumer.consumer_member import ConsumerMember
from minikafka.client.consumer.subscription import RebalanceListener, TopicSubscription
from minikafka.client.session import ClusterSession
from minikafka.core.client.consumer.consumer_membership import (
    ConsumerMembership,
    ConsumerMembershipConfig,
)
from minikafka.core.client.consumer.fetched import ReadPosition
from minikafka.core.client.consumer.group_calls import (
    STABLE_OFFSETS_VERSION,
    offset_commit,
    offset_fetch,
)
from minikafka.core.client.consumer.membership import GroupRebalanceConfig, Membership, Next
from minikafka.core.client.consumer.positions import Positions
from minikafka.core.client.offsets import NO_GENERATION, GroupMetadata, OffsetAndMetadata
from minikafka.kernel.cluster import TopicPartition, topic_id_text
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log
from minikafka.protocol.api_keys import ApiKey


class CommitFailedError(KafkaError):
    """A commit failed because the group has rebalanced without this consumer.

    Other members own its partitions and may have consumed the records again. Kafka:
    ``CommitFailedException``, ``RebalanceInProgressException``.
    """


class StaleMemberEpochError(KafkaError):
    """A commit of a member of the consumer protocol carried an older epoch than the member has at
    the coordinator. The next heartbeat brings that one; then the commit may succeed."""

    @property
    def retriable(self) -> bool:
        return True


class GroupOffsetClient:
    """Commits and fetches offsets through the coordinator of one group.

    ``is_member`` says whether the group assigns the partitions. Otherwise commits have no
    generation, as for a consumer with manually assigned partitions.
    """

    def __init__(
        self,
        session: ClusterSession,
        member: ClassicMember | ConsumerMember,
        is_member: Callable[[], bool],
    ) -> None:
        self.commits = 0
        self._session = session
        self._member = member
        self._is_member = is_member

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """Commit all offsets in one request, retrying until the deadline.

        Raises CommitFailedError when the group has rebalanced, KafkaError for other errors.
        """
        if offsets:
            begun = self._committer().generation
            await self._session.retrying(
                lambda: self._commit(offsets, begun, deadline_ms), deadline_ms
            )
            self.commits += 1

    async def commit_existing(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """Commit as ``commit`` does, for partitions that are about to be revoked.

        A deleted partition must not block the rebalance: after an UNKNOWN_TOPIC_OR_PARTITION,
        partitions that are missing in the metadata are left out.
        """
        remaining = dict(offsets)
        begun = self._committer().generation

        async def attempt() -> None:
            try:
                if remaining:
                    await self._commit(remaining, begun, deadline_ms)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    view = self._session.metadata.view
                    for tp in [tp for tp in remaining if view.partition(tp) is None]:
                        del remaining[tp]
                raise

        await self._session.retrying(attempt, deadline_ms)
        self.commits += bool(remaining)

    async def commit_once(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int
    ) -> None:
        """Commit as ``commit`` does, with one attempt.

        It is for automatic commits: a retry could arrive after a newer commit.
        """
        if offsets:
            await self._commit(offsets, self._committer().generation, deadline_ms)
            self.commits += 1

    def _committer(self) -> GroupMetadata:
        """Return the member and generation for a commit.

        Raises CommitFailedError if the member has lost its generation.
        """
        membership = self._member.membership
        group = membership.config
        if not self._is_member():
            return GroupMetadata(group.group_id)
        if not membership.may_commit:
            raise CommitFailedError(
                ErrorCode.UNKNOWN_MEMBER_ID, "this consumer is no member of its group now"
            )
        return GroupMetadata(
            group.group_id, membership.generation, membership.member_id, group.group_instance_id
        )

    async def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], begun: int, deadline_ms: int
    ) -> None:
        """Commit with one attempt. Raises CommitFailedError or KafkaError.

        ``begun`` is the generation in which the first attempt was made. Kafka's
        ``ConsumerCoordinator`` takes the current generation for each attempt, but does not join
        in between. Here a classic member may join between two attempts, and lose its partitions.
        """
        committer = self._committer()
        membership = self._member.membership
        if self._is_member() and not membership.continues(begun):
            raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, "the group has rebalanced")
        errors = await self._member.call(
            offset_commit(committer, offsets), self._session.remaining_ms(deadline_ms)
        )
        for tp, error in errors.items():
            if error is None:
                continue
            if committer.generation == NO_GENERATION:
                raise error
            if membership.on_commit(error.code, committer.generation) is Next.JOIN_AGAIN:
                raise CommitFailedError(error.code, f"{tp}: the group has rebalanced")
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise StaleMemberEpochError(error.code, str(tp))
            raise error

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets; None where nothing is committed. Raises KafkaError."""
        wanted = sorted(partitions)
        group_id = self._member.membership.config.group_id

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            call = offset_fetch(group_id, wanted, await self._knows_stable_offsets())
            found = await self._member.call(call, self._session.timeout_ms(deadline_ms))
            return {tp: found.get(tp) for tp in wanted}

        return await self._session.retrying(attempt, deadline_ms) if wanted else {}

    async def _knows_stable_offsets(self) -> bool:
        """Whether the coordinator supports ``require_stable`` in OffsetFetch (KIP-447)."""
        versions = await self._member.coordinator_versions()
        return versions.get(ApiKey.OFFSET_FETCH, (0, 0))[1] >= STABLE_OFFSETS_VERSION


CLOSE_TIMEOUT_MS = 30_000


class GroupConsumer:
    """The group of one consumer.

    ``subscription`` is None while partitions are assigned by hand; then the group only stores
    offsets.
    """

    def __init__(
        self,
        session: ClusterSession,
        positions: Positions,
        group: GroupRebalanceConfig | ConsumerMembershipConfig,
        config: ConsumerConfig,
        reset_timestamp: int | None,
        on_news: Callable[[], None],
    ) -> None:
        self.subscription: TopicSubscription | None = None
        self.member: ClassicMember | ConsumerMember
        if isinstance(group, GroupRebalanceConfig):
            self.member = ClassicMember(session, Membership(group), self, on_news)
        else:
            member_id = topic_id_text(UUID(bytes=session.world.entropy.random_bytes(16), version=4))
            membership = ConsumerMembership(group, member_id)
            self.member = ConsumerMember(session, membership, self, on_news)
        self.offsets = GroupOffsetClient(
            session, self.member, lambda: self.subscription is not None
        )
        self._session = session
        self._positions = positions
        self._config = config
        self._reset_timestamp = reset_timestamp
        self._on_news = on_news
        self._listener = RebalanceListener()
        self._log = event_log("consumer", group=group.group_id)
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._looking_up = False
        self._committing = False
        self._lookup_failures = 0
        self._error: KafkaError | None = None
        self._next_commit_ms = 0

    @property
    def metadata(self) -> GroupMetadata:
        """This member as it owns its partitions, or owned them until it lost them; a client without
        a generation while partitions are assigned by hand."""
        owner = self.member.membership.last_owner
        if self.subscription is None:
            return owner._replace(generation=NO_GENERATION, member_id="")
        return owner

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._put_off_commit(self._config.auto_commit_interval_ms)
        self.member.start(tasks)

    async def close(self, commit: bool) -> None:
        """Leave the group. With ``commit``, commit consumed offsets if ``enable_auto_commit`` is
        set, and notify the listener of a revocation; without, of a loss."""
        try:
            for task in list(self._running):
                task.cancel()
            if self._running:
                await asyncio.wait(self._running)
            if not commit:
                self.member.membership.lost = True
            elif self.subscription is None:
                await self._commit_consumed()
        finally:
            await self.member.close("the consumer is closed")

    def subscribe(
        self, subscription: TopicSubscription, listener: RebalanceListener | None
    ) -> None:
        if subscription.names:
            self._session.metadata.add_topics(subscription.names)
        else:
            self._session.metadata.follow_all()
        self.subscription = subscription
        self._listener = listener or RebalanceListener()
        self.member.subscription_changed()
        self._on_news()

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group."""
        if self.subscription is not None:
            await self.member.leave("the consumer unsubscribed")
            self.subscription = None

    # ---------------------------------------------------------------------------- every poll

    async def step(self) -> None:
        """Advance the membership, fetch committed offsets, start an automatic commit if one is due.
        Raises as ``GroupMember.step``, and the KafkaError of a failed lookup."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.subscription is not None:
            await self.member.step()
        if not self._looking_up and self._positions.to_initialize():
            self._looking_up = True
            self._spawn(self._look_up())
        if self.commit_is_due:
            self._committing = True
            self._spawn(self._commit_beside(self.consumed()))

    @property
    def commit_is_due(self) -> bool:
        """Whether an automatic commit is due and none is in flight."""
        return (
            self._config.enable_auto_commit
            and not self._committing
            and self._session.world.clock.monotonic_ms() >= self._next_commit_ms
        )

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after the records that were returned to the application."""
        places = {tp: self._positions.place(tp) for tp in self._positions.assigned}
        return {
            tp: OffsetAndMetadata(place.offset, "", place.epoch)
            for tp, place in places.items()
            if place is not None
        }

    async def _commit_beside(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit in the background, with one attempt: the next automatic commit is newer.

        Kafka: ``doAutoCommitOffsetsAsync``.
        """
        config = self._session.config
        pause_ms = self._config.auto_commit_interval_ms
        try:
            deadline_ms = self._session.deadline_ms(config.request_timeout_ms)
            await self.offsets.commit_once(offsets, deadline_ms)
        except KafkaError as error:
            if error.retriable and not isinstance(error, CommitFailedError):
                pause_ms = min(pause_ms, config.retry_backoff_ms)
            self._log.warning("auto_commit_failed", error=str(error))
        finally:
            self._committing = False
            self._put_off_commit(pause_ms)

    async def _commit_consumed(self) -> None:
        """Commit before partitions are revoked, if ``enable_auto_commit`` is set."""
        if not self._config.enable_auto_commit:
            return
        try:
            deadline_ms = self._session.deadline_ms(CLOSE_TIMEOUT_MS)
            await self.offsets.commit_existing(self.consumed(), deadline_ms)
        except KafkaError as error:
            self._log.warning("auto_commit_failed", error=str(error))
        self._put_off_commit(self._config.auto_commit_interval_ms)

    def _put_off_commit(self, pause_ms: int) -> None:
        self._next_commit_ms = self._session.world.clock.monotonic_ms() + pause_ms

    async def _look_up(self) -> None:
        """Fetch committed offsets, with one attempt; ``step`` starts the next one."""
        session, positions = self._session, self._positions
        wanted = positions.to_initialize()
        try:
            timeout_ms = session.config.request_timeout_ms
            found = await self.offsets.committed(wanted, session.deadline_ms(timeout_ms))
        except KafkaError as error:
            if not error.retriable:
                self._error = error
            delay_ms = session.backoff_ms(error.code, self._lookup_failures)
            self._lookup_failures += 1
            await session.world.clock.sleep(delay_ms)
        else:
            self._lookup_failures = 0
            for tp, at in found.items():
                place = None if at is None else ReadPosition(at.offset, at.leader_epoch)
                positions.initialize(tp, place, self._reset_timestamp)
        finally:
            self._looking_up = False
            self._on_news()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    # ---------------------------------------------------------------------------- PartitionOwner

    def topics(self) -> frozenset[str]:
        if self.subscription is None:
            return frozenset()
        return self.subscription.topics(self._session.metadata.view)

    def regex(self) -> str:
        return "" if self.subscription is None else self.subscription.regex

    def knows_topics(self) -> bool:
        if self.subscription is None:
            return False
        return self.subscription.pattern is None or self._session.metadata.knows_all

    def owned(self) -> list[TopicPartition]:
        return sorted(self._positions.assigned)

    async def give_up(self, partitions: Sequence[TopicPartition], lost: bool) -> None:
        going = sorted(partitions)
        try:
            if lost:
                await self._listener.on_partitions_lost(going)
            else:
                await self._commit_consumed()
                await self._listener.on_partitions_revoked(going)
        finally:
            gone = set(going)
            self._assign(tp for tp in self._positions.assigned if tp not in gone)

    async def take_over(
        self, partitions: Sequence[TopicPartition], added: Sequence[TopicPartition]
    ) -> None:
        self._session.metadata.add_topics({tp.topic for tp in partitions})
        self._assign(partitions)
        await self._listener.on_partitions_assigned(list(added))

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions.assign(partitions, self._reset_timestamp, committed_wanted=True)
