"""What members of both group protocols share: the coordinator, the heartbeat task, leaving."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from minikafka.client.connections import SECOND_CONNECTION
from minikafka.client.session import ClusterSession, Coordinators
from minikafka.client.task_waits import end_task, wait_for_event
from minikafka.core.client.calls import Call
from minikafka.core.client.consumer.consumer_membership import ConsumerMembership
from minikafka.core.client.consumer.group_calls import group_key
from minikafka.core.client.consumer.membership import Membership, Next
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.schema import Message

R = TypeVar("R")
M = TypeVar("M", bound=Membership | ConsumerMembership)

LEAVE_TIMEOUT_MS = 5_000


class PartitionOwner(Protocol):
    """The consumer as its group member uses it: topics, partitions, and calls of the listener."""

    def topics(self) -> frozenset[str]: ...

    def regex(self) -> str: ...

    def knows_topics(self) -> bool: ...

    def owned(self) -> list[TopicPartition]: ...

    async def give_up(self, partitions: Sequence[TopicPartition], lost: bool) -> None: ...

    async def take_over(
        self, partitions: Sequence[TopicPartition], added: Sequence[TopicPartition]
    ) -> None: ...


class GroupMember(ABC, Generic[M]):
    """Carries out the requests of a membership.

    Every poll calls ``step``: only there partitions change and the listener is called. Heartbeats
    run in a task between polls.
    """

    def __init__(
        self,
        session: ClusterSession,
        membership: M,
        owner: PartitionOwner,
        on_news: Callable[[], None],
    ) -> None:
        self.membership: M = membership
        self.rebalances = 0
        self.heartbeats = 0
        self._session = session
        self._owner = owner
        self._on_news = on_news
        self._coordinators = Coordinators(session, SECOND_CONNECTION)
        self._key = group_key(membership.config.group_id)
        self._error: KafkaError | None = None  # final
        self._view_version = -1  # of the metadata that the last step has seen
        self._polling = 0
        self._last_poll_ms = 0
        self._wake = asyncio.Event()
        self._beat_due = False  # whether a heartbeat is due before its time
        self._tasks: asyncio.TaskGroup | None = None
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
        """Give up all partitions and tell the coordinator.

        If the coordinator is unknown, no request is sent, and the session times out at the
        coordinator.
        """
        try:
            owned = self._owner.owned()
            if owned and self._owner.knows_topics():
                lost = self.membership.lost or self._error is not None
                await self._owner.give_up(owned, lost)
        finally:
            await self._stop_joining()
            await self._leave(reason)
            self.membership.lose(reason)
            self.membership.lost = False

    # ---------------------------------------------------------------------------- polls

    def poll_begins(self) -> None:
        self._polling += 1

    def poll_ends(self) -> None:
        self._polling -= 1
        self._last_poll_ms = self._now_ms()

    @abstractmethod
    async def step(self) -> None:
        """Give up lost or revoked partitions, take over assigned ones, start a join if one is
        due.

        Waits for the application's listener, but not for brokers. Raises KafkaError if
        membership is impossible, and what the listener raises.
        """

    @abstractmethod
    def subscription_changed(self) -> None:
        """Tell the coordinator of the owner's subscription soon."""

    async def _give_up_lost(self) -> None:
        """Give up the partitions of a lost generation, unless a newer one has been joined."""
        if self.membership.lost:
            self.membership.lost = False
            owned = self._owner.owned()
            if owned:
                await self._owner.give_up(owned, True)

    def _sees_new_metadata(self) -> bool:
        """Whether the metadata have changed since the last call."""
        version = self._session.metadata.view.version
        changed = version != self._view_version
        self._view_version = version
        return changed

    # ---------------------------------------------------------------------------- heartbeats

    def _beat_now(self) -> None:
        self._beat_due = True
        self._wake.set()

    async def _beat(self) -> None:
        membership = self.membership
        next_ms = failures = 0
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
                limit_ms = membership.config.max_poll_interval_ms
                reason = f"no poll for max.poll.interval.ms ({limit_ms})"
                await self._leave(reason)
                membership.lose(reason)
                self._on_news()
            elif now_ms >= next_ms or self._beat_due:
                self._beat_due = False
                code = await self._beat_once()
                if code is None:
                    failures, pause_ms = 0, membership.heartbeat_interval_ms
                else:
                    pause_ms = self._session.backoff_ms(code, failures)
                    failures += 1
                next_ms = self._now_ms() + pause_ms

    async def _beat_once(self) -> ErrorCode | None:
        """Send a heartbeat. Return why the next one is due before the usual interval, or None."""
        self.heartbeats += 1
        try:
            step = await self._send_heartbeat()
        except KafkaError as error:
            if error.retriable:
                return error.code
            self._error = error
            self.membership.lose(error.code.name)
            self._on_news()
            return None
        if step is Next.OTHER_COORDINATOR:
            self._coordinators.forget(self._key)
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if step is Next.LATER else None

    @abstractmethod
    async def _send_heartbeat(self) -> Next:
        """Send a heartbeat and process its response. Raises KafkaError."""

    def _is_poll_overdue(self, now_ms: int) -> bool:
        late_ms = self._last_poll_ms + self.membership.config.max_poll_interval_ms
        return self._polling == 0 and now_ms >= late_ms

    # ---------------------------------------------------------------------------- coordinator

    async def coordinator_versions(self) -> Mapping[int, tuple[int, int]]:
        """Return the coordinator's version ranges by API key. Raises KafkaError."""
        return await self._coordinators.versions(self._key, self._lookup_deadline_ms())

    async def call(self, call: Call[R], timeout_ms: int) -> R:
        """Carry out a call to the group's coordinator once. Raises KafkaError; after some errors
        the coordinator is looked up again by the next call."""
        deadline_ms = self._lookup_deadline_ms()
        return await self._coordinators.call_once(self._key, call, deadline_ms, timeout_ms)

    def _lookup_deadline_ms(self) -> int:
        return self._session.deadline_ms(self._session.config.request_timeout_ms)

    # ---------------------------------------------------------------------------- leaving

    async def _stop_joining(self) -> None:
        """End what joins in the background, if anything does."""

    @abstractmethod
    def _leave_request(
        self, reason: str, versions: Mapping[int, tuple[int, int]]
    ) -> Message | None:
        """Build the request by which the member leaves; None if it needs none.

        ``versions`` are the coordinator's version ranges by API key.
        """

    async def _leave(self, reason: str) -> None:
        coordinator = self._coordinators.known(self._key)
        if coordinator is None:
            return
        versions = self._session.connections.versions(coordinator)
        request = self._leave_request(reason, versions)
        if request is None:
            return
        try:
            await self._session.connections.request(
                coordinator, request, timeout_ms=LEAVE_TIMEOUT_MS
            )
        except KafkaError:
            return  # the session times out at the coordinator

    def _now_ms(self) -> int:
        return self._session.world.clock.monotonic_ms()
