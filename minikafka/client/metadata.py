"""The metadata task: keeps a client's view of the cluster current, and lets callers wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from minikafka.client.config import ClientConfig
from minikafka.client.connections import Connections
from minikafka.client.task_waits import end_task, wait_for_event
from minikafka.core.client.cluster_view import ClusterView, Node, TopicView, merge, metadata_request
from minikafka.core.client.errors import STALE_METADATA, is_hopeless
from minikafka.core.client.metadata_refresh import MetadataRefresh
from minikafka.core.client.named_leaders import LeaderRow, NodeEndpoint, with_named_leaders
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World

T = TypeVar("T")


class Metadata:
    """A task that sends Metadata requests when they are needed or the view is old, one at a time,
    as ``MetadataRefresh`` schedules them."""

    def __init__(self, world: World, connections: Connections, config: ClientConfig) -> None:
        self.view = ClusterView()
        self._world = world
        self._connections = connections
        self._config = config
        self._refresh = MetadataRefresh(
            config.retry_backoff_ms, config.retry_backoff_max_ms, config.metadata_max_age_ms
        )
        self._topics: set[str] = set()  # those that the application uses
        self.knows_all = False  # whether the view shows every topic there is
        self._all_topics = False
        self._rescheduled = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._listeners: list[Callable[[], None]] = []
        self._last_error: KafkaError | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._task = tasks.create_task(self._run(), name="metadata")

    async def close(self) -> None:
        # The traceback of the cancellation refers to this object: no cycle may be left.
        task, self._task = self._task, None
        await end_task(task)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every update."""
        self._listeners.append(listener)

    def add_topics(self, topics: Iterable[str]) -> None:
        """Include these topics in all Metadata requests from now on."""
        new = set(topics) - self._topics
        if new:
            self._topics |= new
            self._request_now()

    def follow_all(self) -> None:
        """Request the metadata of all topics from now on."""
        if not self._all_topics:
            self._all_topics = True
            self._request_now()

    def request_update(self) -> None:
        """Request metadata soon: the view is wrong or incomplete."""
        self._refresh.want(self._now_ms())
        self._rescheduled.set()

    def _request_now(self) -> None:
        self._refresh.want_now()
        self._rescheduled.set()

    def note_error(self, code: ErrorCode) -> None:
        """Request metadata if the error code of a response indicates that the view is stale."""
        if code in STALE_METADATA:
            self.request_update()

    def note_leader_error(
        self, topic_partition: TopicPartition, broker_id: int, code: ErrorCode
    ) -> None:
        """Request metadata if the error indicates that a broker does not lead a partition any more,
        until they have another leader."""
        if code in STALE_METADATA:
            self._refresh.doubt(topic_partition, broker_id, self.view, self._now_ms())
            self._rescheduled.set()

    def note_leader_errors(
        self,
        broker_id: int,
        rows: Mapping[TopicPartition, LeaderRow],
        endpoints: Iterable[NodeEndpoint],
    ) -> None:
        """Note the errors in the rows of a broker's response. Newer leaders that it names beside
        them are in the view at once (KIP-951); the other errors count as in
        ``note_leader_error``."""
        failed = {tp: row for tp, row in rows.items() if row.error_code}
        if not failed:
            return
        before = self.view
        view = with_named_leaders(before, failed, endpoints)
        if view is not before:
            self._replace_view(view)
        for tp, row in failed.items():
            if view.partition(tp) == before.partition(tp):
                self.note_leader_error(tp, broker_id, ErrorCode(row.error_code))

    async def wait_for_brokers(self, timeout_ms: int) -> Mapping[int, Node]:
        """Wait until the brokers of the cluster are known, and return them. Raises KafkaError."""
        return await self.wait_until(lambda view: view.nodes or None, timeout_ms, "the cluster")

    async def wait_until(
        self, found: Callable[[ClusterView], T | None], timeout_ms: int, what: str
    ) -> T:
        """Wait until ``found`` returns something other than None for the view, and return that.

        Raises what ``found`` raises, and a KafkaError that ``is_hopeless``. After the time-out
        raises KafkaError with the code and the reason of the last failed request, if any; ``what``
        is for its message.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    result = found(self.view)
                    if result is not None:
                        return result
                    self.request_update()
                    await self._next_update()
        except TimeoutError:
            cause = self._last_error
            code = ErrorCode.REQUEST_TIMED_OUT if cause is None else cause.code
            reason = f": {cause.message}" if cause is not None and cause.message else ""
            message = f"{what} is still unknown after {timeout_ms} ms{reason}"
            raise KafkaError(code, message) from cause

    async def topic(self, name: str, timeout_ms: int, partition: int | None = None) -> TopicView:
        """Return a topic as soon as its partitions are known, including ``partition`` if given.

        Brokers may create the topic. A broker that has just started may not know all partitions
        yet. Raises KafkaError: final errors immediately, retriable ones after the time-out.
        """
        self.add_topics([name])

        def found(view: ClusterView) -> TopicView | None:
            topic = view.topics.get(name)
            if topic is None:
                return None
            if topic.error is ErrorCode.NONE:
                known = topic.partitions
                return topic if known and (partition is None or partition in known) else None
            error = KafkaError(topic.error, name)
            if not topic.error.retriable:
                raise error
            self._last_error = error
            return None

        what = f"topic {name}" if partition is None else f"partition {partition} of topic {name}"
        return await self.wait_until(found, timeout_ms, what)

    async def leader(self, topic_partition: TopicPartition, timeout_ms: int) -> int:
        """Return the broker id of a partition's leader. Raises KafkaError after the time-out."""
        self.add_topics([topic_partition.topic])
        return await self.wait_until(
            lambda view: view.leaders.get(topic_partition),
            timeout_ms,
            f"leader of {topic_partition}",
        )

    @property
    def _is_incomplete(self) -> bool:
        """Whether a topic that is followed is unknown as yet, such as one that is being created.
        Then its metadata are requested again (Kafka's ``Metadata.handleMetadataResponse``)."""
        found = (self.view.topics.get(name) for name in self._topics)
        return any(topic is not None and topic.error in STALE_METADATA for topic in found)

    async def _next_update(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def _run(self) -> None:
        refresh = self._refresh
        while True:
            while (left_ms := self._left_ms()) is None or left_ms > 0:
                await wait_for_event(self._rescheduled, left_ms)
                self._rescheduled.clear()
            refresh.begin()
            before = self.view
            try:
                await self._update()
            except KafkaError as error:
                # No broker responded in time, or one did with an error. Another one may succeed.
                self._last_error = error
                refresh.failed(self._now_ms(), self._world.entropy.random())
                if is_hopeless(error):
                    self._refuse_waiters(error)
            else:
                refresh.updated(
                    before,
                    self.view,
                    self._connections.unreachable(),
                    self._is_incomplete,
                    self._now_ms(),
                    self._world.entropy.random(),
                )

    def _left_ms(self) -> int | None:
        due_ms = self._refresh.due_ms
        return None if due_ms is None else due_ms - self._now_ms()

    def _now_ms(self) -> int:
        return self._world.clock.monotonic_ms()

    def _refuse_waiters(self, error: KafkaError) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def _update(self) -> None:
        names, everything = sorted(self._topics), self._all_topics
        request = metadata_request(
            None if everything else names,
            self._config.allow_auto_create_topics and not everything,
        )
        response = await self._connections.request_any(request)
        view = merge(self.view, response, () if everything else self._topics)
        self.knows_all = everything
        self._last_error = None
        self._replace_view(view)

    def _replace_view(self, view: ClusterView) -> None:
        self.view = view
        self._connections.set_nodes(view.nodes)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in self._listeners:
            listener()
