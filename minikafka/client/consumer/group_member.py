"""The tasks of a group member: they send JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from minikafka.client.connections import SECOND_CONNECTION
from minikafka.client.session import ClusterSession, look_up_coordinator
from minikafka.client.task_waits import end_task, wait_for_event
from minikafka.core.client.assignors.wire import decode_assignment
from minikafka.core.client.calls import Call
from minikafka.core.client.cluster_view import ClusterView, partition_counts
from minikafka.core.client.consumer.group_calls import group_key
from minikafka.core.client.consumer.membership import Membership, MemberState, Next
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import DecodeError

R = TypeVar("R")

JOIN_GRACE_MS = 5_000  # time-out of a JoinGroup beyond the rebalance time-out
LEAVE_TIMEOUT_MS = 5_000


class PartitionOwner(Protocol):
    """The consumer as its group member uses it: topics, partitions, and calls of the listener."""

    def topics(self) -> frozenset[str]: ...

    def knows_topics(self) -> bool: ...

    def owned(self) -> list[TopicPartition]: ...

    async def give_up(self, partitions: Sequence[TopicPartition], lost: bool) -> None: ...

    async def take_over(
        self, partitions: Sequence[TopicPartition], added: Sequence[TopicPartition]
    ) -> None: ...


class _Joined(NamedTuple):
    generation: int
    partitions: tuple[TopicPartition, ...]


class GroupMember:
    """Carries out the requests of a ``Membership``.

    Every poll calls ``step``: only there partitions change and the listener is called. JoinGroup
    and SyncGroup run in a task between polls, heartbeats in another one.
    """

    def __init__(
        self,
        session: ClusterSession,
        membership: Membership,
        owner: PartitionOwner,
        on_news: Callable[[], None],
        client_rack: str | None = None,
    ) -> None:
        self.membership = membership
        self.rebalances = 0
        self.heartbeats = 0
        self._session = session
        self._owner = owner
        self._on_news = on_news
        self._client_rack = client_rack
        self._coordinator: int | None = None
        self._finding = asyncio.Lock()
        self._error: KafkaError | None = None  # final
        self._joined: _Joined | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._counts: dict[str, int] = {}  # of partitions, as the leader assigned them
        self._view_version = -1
        self._polling = 0
        self._last_poll_ms = 0
        self._wake = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._join_task: asyncio.Task[None] | None = None
        self._beat_task: asyncio.Task[None] | None = None

    # ---------------------------------------------------------------------------- life

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._last_poll_ms = self._now_ms()
        self._beat_task = tasks.create_task(self._beat(), name="heartbeat")

    async def close(self, reason: str) -> None:
        """Leave the group and end the tasks."""
        try:
            await self.leave(reason)
        finally:
            await end_task(self._beat_task)

    async def leave(self, reason: str) -> None:
        """Give up all partitions and send LeaveGroup.

        If the coordinator is unknown, no request is sent, and the session times out at the
        coordinator.
        """
        try:
            owned = self._owner.owned()
            if owned and self._owner.topics():
                lost = self.membership.lost or self._error is not None
                await self._owner.give_up(owned, lost)
        finally:
            await end_task(self._join_task)
            self._join_task = self._joined = None
            await self._leave(reason)
            self.membership.lose(reason)
            self.membership.lost = False

    # ---------------------------------------------------------------------------- polls

    def poll_begins(self) -> None:
        self._polling += 1

    def poll_ends(self) -> None:
        self._polling -= 1
        self._last_poll_ms = self._now_ms()

    async def step(self) -> None:
        """Give up lost or revoked partitions, take over assigned ones, start a join if one is
        due.

        Waits for the application's listener, but not for brokers. Raises KafkaError if
        membership is impossible, and what the listener raises.
        """
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

    async def _give_up_lost(self) -> None:
        """Give up the partitions of a lost generation, unless a newer one has been joined."""
        if self.membership.lost:
            self.membership.lost = False
            owned = self._owner.owned()
            if owned:
                await self._owner.give_up(owned, True)

    def _look_at_metadata(self) -> None:
        """Rejoin if other topics match the subscription, or a topic has got more partitions."""
        view = self._session.metadata.view
        if view.version == self._view_version:
            return
        self._view_version = view.version
        membership = self.membership
        if membership.state is not MemberState.STABLE:
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
        failures = 0
        try:
            while True:
                try:
                    step = await self._join_once()
                except KafkaError as error:
                    if not error.retriable:
                        self._error = error
                        return
                    self._session.metadata.note_error(error.code)
                    step = Next.OTHER_COORDINATOR
                if step is Next.OTHER_COORDINATOR:
                    self._coordinator = None
                if step in (Next.GO_ON, Next.JOIN_AGAIN) or self.membership.lost:
                    return
                if step is not Next.AT_ONCE:
                    session = self._session
                    delay_ms = session.backoff_ms(failures)
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
        node_id = await self._find()
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

    # ---------------------------------------------------------------------------- heartbeats

    async def _beat(self) -> None:
        membership, config = self.membership, self.membership.config
        next_ms = 0
        while True:
            now_ms = self._now_ms()
            wait_ms = max(1, next_ms - now_ms) if membership.beats else None
            await wait_for_event(self._wake, wait_ms)
            self._wake.clear()
            now_ms = self._now_ms()
            if not membership.beats:
                next_ms = now_ms
                continue
            if self._is_poll_overdue(now_ms):
                reason = f"no poll for max.poll.interval.ms ({config.max_poll_interval_ms})"
                await self._leave(reason)
                membership.lose(reason)
                self._on_news()
            elif now_ms >= next_ms:
                ok = await self._beat_once()
                pause_ms = (
                    config.heartbeat_interval_ms if ok else self._session.config.retry_backoff_ms
                )
                next_ms = self._now_ms() + pause_ms

    async def _beat_once(self) -> bool:
        membership = self.membership
        request = membership.heartbeat_request()
        self.heartbeats += 1
        try:
            timeout_ms = min(
                self._session.config.request_timeout_ms, membership.config.session_timeout_ms
            )
            call = Call(request, lambda response: ErrorCode(response.error_code))
            step = membership.on_heartbeat(await self.call(call, timeout_ms), request)
        except KafkaError as error:
            if error.retriable:
                return False
            self._error = error
            membership.lose(error.code.name)
            step = Next.JOIN_AGAIN
        if step is Next.OTHER_COORDINATOR:
            self._coordinator = None
            return False
        if membership.rejoin_needed:
            self._on_news()
        return True

    def _is_poll_overdue(self, now_ms: int) -> bool:
        late_ms = self._last_poll_ms + self.membership.config.max_poll_interval_ms
        return self._polling == 0 and now_ms >= late_ms

    # ---------------------------------------------------------------------------- coordinator

    async def coordinator_versions(self) -> Mapping[int, tuple[int, int]]:
        """Return the coordinator's version ranges by API key. Raises KafkaError."""
        node_id = await self._find()
        try:
            await self._session.connections.connect(node_id)
        except KafkaError:
            self._coordinator = None
            raise
        return self._session.connections.versions(node_id)

    async def call(self, call: Call[R], timeout_ms: int) -> R:
        """Carry out a call to the group's coordinator once. Raises KafkaError; after some errors
        the coordinator is looked up again by the next call."""
        node_id = await self._find()
        try:
            return await self._session.call_within(node_id, call, timeout_ms)
        except KafkaError as error:
            if error.code in LOST_COORDINATOR:
                self._coordinator = None
            raise

    async def _find(self) -> int:
        async with self._finding:
            if self._coordinator is None:
                session = self._session
                deadline_ms = session.deadline_ms(session.config.request_timeout_ms)
                key = group_key(self.membership.config.group_id)
                node_id = await look_up_coordinator(session, key, deadline_ms)
                self._coordinator = node_id + SECOND_CONNECTION
            return self._coordinator

    async def _leave(self, reason: str) -> None:
        if self._coordinator is None:
            return
        versions = self._session.connections.versions(self._coordinator)
        last = versions.get(ApiKey.LEAVE_GROUP, (0, 0))[1]
        request = self.membership.leave_request(reason, last)
        if request is None:
            return
        try:
            await self._session.connections.request(
                self._coordinator, request, timeout_ms=LEAVE_TIMEOUT_MS
            )
        except KafkaError:
            return  # the session times out at the coordinator

    def _now_ms(self) -> int:
        return self._session.world.clock.monotonic_ms()


def _decoded(decode: Callable[[Any], Any], data: Any) -> Any:
    """Decode bytes from other members. Raises KafkaError if they are malformed."""
    try:
        return decode(data)
    except DecodeError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
