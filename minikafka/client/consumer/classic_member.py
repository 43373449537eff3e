"""A member of the classic protocol: sends JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minikafka.client.consumer.group_member import GroupMember, PartitionOwner
from minikafka.client.session import ClusterSession
from minikafka.client.task_waits import end_task
from minikafka.core.client.assignors.wire import decode_assignment
from minikafka.core.client.calls import Call
from minikafka.core.client.cluster_view import ClusterView, partition_counts
from minikafka.core.client.consumer.membership import Membership, MemberState, Next
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import DecodeError
from minikafka.protocol.schema import Message

JOIN_GRACE_MS = 5_000  # time-out of a JoinGroup beyond the rebalance time-out


class _Joined(NamedTuple):
    generation: int
    partitions: tuple[TopicPartition, ...]


class ClassicMember(GroupMember[Membership]):
    """Carries out the requests of a ``Membership``.

    JoinGroup and SyncGroup run in a task between polls, as heartbeats do in another one.
    """

    def __init__(
        self,
        session: ClusterSession,
        membership: Membership,
        owner: PartitionOwner,
        on_news: Callable[[], None],
        client_rack: str | None = None,
    ) -> None:
        super().__init__(session, membership, owner, on_news)
        self._client_rack = client_rack
        self._joined: _Joined | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._counts: dict[str, int] = {}  # of partitions, as the leader assigned them
        self._join_task: asyncio.Task[None] | None = None

    async def step(self) -> None:
        if self._error is not None:
            raise self._error
        membership = self.membership
        self._look_at_metadata()
        await self._give_up_lost()
        if self._joined is not None:
            joined, self._joined = self._joined, None
            if joined.generation == membership.generation:
                await self._complete(joined.partitions)
        if membership.rejoin_needed and self._join_task is None and self._owner.knows_topics():
            await self._prepare()
            await self._give_up_lost()  # a commit in there may have found the generation lost
            self._begin_join()

    def subscription_changed(self) -> None:
        self.membership.want_rejoin("the subscription has changed")

    def _look_at_metadata(self) -> None:
        """Rejoin if other topics match the subscription, or a topic has got more partitions."""
        membership, view = self.membership, self._session.metadata.view
        if not self._sees_new_metadata() or membership.state is not MemberState.STABLE:
            return
        topics = self._owner.topics()
        if topics != self._joined_topics:
            membership.want_rejoin("the subscribed topics have changed")
        elif membership.is_leader and partition_counts(view, self._counts) != self._counts:
            membership.want_rejoin("partitions were added, or topics came or went")

    async def _prepare(self) -> None:
        """Give up partitions before joining.

        Eager members give up all, cooperative ones only those of topics that are no longer
        subscribed.
        """
        owned = self._owner.owned()
        if self.membership.config.cooperative:
            topics = self._owner.topics()
            owned = [tp for tp in owned if tp.topic not in topics]
        if owned:
            await self._owner.give_up(owned, False)

    async def _complete(self, partitions: Sequence[TopicPartition]) -> None:
        owned, assigned = set(self._owner.owned()), set(partitions)
        self.rebalances += 1
        revoked = sorted(owned - assigned)
        if revoked:
            await self._owner.give_up(revoked, False)
            # Others get them in the next round, which begins when we join without them.
            self.membership.want_rejoin("partitions were given up")
        self.membership.remember(assigned)
        await self._owner.take_over(sorted(assigned), sorted(assigned - owned))

    # ---------------------------------------------------------------------------- joining

    def _begin_join(self) -> None:
        assert self._tasks is not None
        self._join_task = self._tasks.create_task(self._join(), name="join-group")

    async def _join(self) -> None:
        """Join repeatedly, until the member is in a generation or the listener has to be called
        first."""
        failures, session = 0, self._session
        try:
            while True:
                code = ErrorCode.NOT_COORDINATOR
                try:
                    step = await self._join_once()
                except KafkaError as error:
                    if not error.retriable:
                        self._error = error
                        return
                    session.metadata.note_error(error.code)
                    step, code = Next.OTHER_COORDINATOR, error.code
                if step is Next.OTHER_COORDINATOR:
                    self._coordinators.forget(self._key)
                if step in (Next.GO_ON, Next.JOIN_AGAIN) or self.membership.lost:
                    return
                if step is not Next.AT_ONCE:
                    delay_ms = session.backoff_ms(code, failures)
                    failures += 1
                    await session.world.clock.sleep(delay_ms)
        finally:
            self._join_task = None
            self._wake.set()
            self._on_news()

    async def _join_once(self) -> Next:
        """Send JoinGroup and SyncGroup once. Raises KafkaError."""
        membership, owner = self.membership, self._owner
        timeout_ms = membership.config.max_poll_interval_ms + JOIN_GRACE_MS
        timeout_ms = max(timeout_ms, self._session.config.request_timeout_ms)
        node_id = await self._coordinators.find(self._key, self._lookup_deadline_ms())
        topics = owner.topics()
        owned = owner.owned() if membership.config.cooperative else []
        request = membership.join_request(topics, owned, self._client_rack)
        try:
            response = await self._session.connections.request(
                node_id, request, timeout_ms=timeout_ms
            )
            step = membership.on_join(response)
            if step is not Next.GO_ON:
                return step
            self._joined_topics = topics
            self._wake.set()  # from here on the coordinator waits for heartbeats
            shares = await self._assign() if membership.is_leader else None
            response = await self._session.connections.request(
                node_id, membership.sync_request(shares), timeout_ms=timeout_ms
            )
        except KafkaError:
            if membership.state in (MemberState.JOINING, MemberState.SYNCING):
                membership.state = MemberState.UNJOINED
                membership.want_rejoin("the coordinator was not reached")
            raise
        generation = membership.generation
        step = membership.on_sync(response)
        if step is Next.GO_ON:
            self._joined = _Joined(generation, _decoded(decode_assignment, response.assignment))
        return step

    async def _assign(self) -> dict[str, list[TopicPartition]]:
        """Compute the assignment of all members, as the leader of the group.

        Topics that are unknown for longer than a request time-out are left out.
        """
        membership, metadata = self.membership, self._session.metadata
        subscriptions = _decoded(lambda _: membership.subscriptions(), b"")
        topics = {topic for wanted in subscriptions.values() for topic in wanted.topics}
        metadata.add_topics(topics)

        def all_known(view: ClusterView) -> bool | None:
            return (metadata.knows_all or all(topic in view.topics for topic in topics)) or None

        try:
            await metadata.wait_until(all_known, self._session.config.request_timeout_ms, "topics")
        except KafkaError as error:
            if not error.retriable:
                raise
        self._counts = partition_counts(metadata.view, topics)
        assert membership.assignor is not None
        there = {topic: count for topic, count in self._counts.items() if count}
        return membership.assignor.assign(there, subscriptions)

    async def _stop_joining(self) -> None:
        await end_task(self._join_task)
        self._join_task = self._joined = None

    # ---------------------------------------------------------------------------- heartbeats

    async def _send_heartbeat(self) -> Next:
        membership = self.membership
        request = membership.heartbeat_request()
        timeout_ms = min(
            self._session.config.request_timeout_ms, membership.config.session_timeout_ms
        )
        call = Call(request, lambda response: ErrorCode(response.error_code))
        step = membership.on_heartbeat(await self.call(call, timeout_ms), request)
        if membership.rejoin_needed and step is not Next.OTHER_COORDINATOR:
            self._on_news()
        return step

    def _leave_request(
        self, reason: str, versions: Mapping[int, tuple[int, int]]
    ) -> Message | None:
        last = versions.get(ApiKey.LEAVE_GROUP, (0, 0))[1]
        return self.membership.leave_request(reason, last)


def _decoded(decode: Callable[[Any], Any], data: Any) -> Any:
    """Decode bytes from other members. Raises KafkaError if they are malformed."""
    try:
        return decode(data)
    except DecodeError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
