"""One replica fetcher: it copies partitions from one leader broker over one connection.

Each round is that of Kafka's ``AbstractFetcherThread.doWork``. It

1. leaves out partitions that are delayed: after an error, by the throttle, or because a truncation
   is being flushed;
2. connects to the leader if there is no connection;
3. compares leader epochs by OffsetForLeaderEpoch, if the inter-broker protocol is older than 2.7:
   newer leaders compare them in every Fetch and respond with a diverging epoch;
4. sends one Fetch for all other partitions and applies the response (see ``FollowerLogs``).

The response is applied where its bytes arrive, and the next Fetch is sent in the same place. The
task of ``run`` does what has to wait between two Fetches: connect, compare, flush, request offsets
after OFFSET_OUT_OF_RANGE, and sleep while no partition is due.

The state of a partition is an immutable ``PartitionFetchState``. The controller's requests add,
remove and change partitions between a request and its response. So a response applies to a
partition only if its state is still the same object from which the request was built.

Two measures reduce waiting. When a partition is added while a Fetch is parked at the leader, the
fetcher closes the connection, and the next Fetch names the partition. And a follower far behind
sends the next Fetch before it has appended the last response (``core/replication/fetch_state``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.client_quota import RateConfig, SampledRate
from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import (
    FetchedRecords,
    FetchStates,
    PartitionFetchState,
    read_ahead,
)
from minikafka.core.replication.follower import EpochEnd, restart_below_leader_end
from minikafka.core.replication.partition_state import NEVER_MS
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.network.channel import Channel
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from minikafka.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from minikafka.protocol.schema import Message
from minikafka.server.broker.replication.follower_logs import FollowerLogs, ReplicaFailed
from minikafka.server.broker.replication.leader_session import (
    SESSION_ERRORS,
    LeaderSession,
    PartitionResponses,
    ReplicaFetcherConfig,
)

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
FETCH_RATE = RateConfig(window_num=2, window_size_seconds=30)  # as Kafka's metrics have
MAX_NAMED = 10  # partitions in a log event
# The leader has not received its LeaderAndIsr yet.
LEADER_NOT_READY = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH))
# With more partitions a parked Fetch is not interrupted: the fetch session would have to be
# created again, by a Fetch that names all partitions.
INTERRUPT_UP_TO = 500
# The least time between two interrupted Fetches. Each costs a connection and a Fetch that names
# all partitions.
INTERRUPT_EVERY_MS = 20


# Connects to a broker by id. Raises OSError, also when the broker's address is not known.
Connect: TypeAlias = Callable[[int], Awaitable[Channel]]


class FetchedState(NamedTuple):
    """The response for one partition, and the state from which its request was built."""

    topic_partition: TopicPartition
    state: PartitionFetchState
    data: PartitionData


class ReplicaFetcher:
    """Copies partitions from the broker ``source`` (Kafka's ``ReplicaFetcherThread``).

    ``flush_truncation`` is called when a log was truncated. Call ``resume`` after its flush."""

    def __init__(
        self,
        source: int,
        broker_id: int,
        broker_epoch: Callable[[], int],
        connect: Connect,
        logs: FollowerLogs,
        clock: Clock,
        config: ReplicaFetcherConfig,
        flush_truncation: Callable[[TopicPartition], None],
        log: EventLog,
    ) -> None:
        self.source = source
        self._session = LeaderSession(
            broker_id, broker_epoch, logs.log_start_offset, logs.log_starts, config
        )
        self._connect = connect
        self._logs = logs
        self._clock = clock
        self._config = config
        self._flush_truncation = flush_truncation
        self._log = log.bind(source=source)
        self._states = FetchStates()
        # Partitions whose epochs have to be compared with the leader's before the first Fetch.
        self._uncompared: set[TopicPartition] = set()
        self.fetches = SampledRate(FETCH_RATE)  # responses
        self._channel: Channel | None = None
        self._polling = False  # a Fetch is in flight
        self._is_ahead = False  # it was sent before the last response was applied
        self._interrupted = False
        self._interrupted_ms = NEVER_MS
        self._interrupt_timer: TimerHandle | None = None
        self._stopped = False
        # What the task has to do before the next Fetch, and an exception that it has to raise.
        self._grown: list[TopicPartition] = []  # to flush
        self._restarts: list[tuple[TopicPartition, PartitionFetchState]] = []
        self._bug: Exception | None = None
        self._is_flushing = False
        self._wake = asyncio.Event()
        self._connect_failures = 0

    def __len__(self) -> int:
        return len(self._states)

    def state_of(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._states.get(topic_partition)

    def add(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Start to fetch this partition, or restart it from ``state`` in a new leader epoch."""
        if (
            not self._config.inter_broker_protocol.truncates_on_fetch
            and state.last_fetched_epoch is not None
        ):
            self._uncompared.add(topic_partition)
        self._put(topic_partition, state)

    def _put(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        self._states.put(topic_partition, state)
        self._wake.set()
        if self._polling and not self._interrupted and self._interrupt_timer is None:
            self._interrupt()

    def _interrupt(self) -> None:
        """Abort the Fetch parked at the leader, now or ``INTERRUPT_EVERY_MS`` after the last time.

        Until then the partitions that are added one by one, such as those of several LeaderAndIsr
        requests of a controlled shutdown, gather for the next Fetch. In Kafka all of them wait for
        the end of the parked one, and with them the producers that want acks of all replicas."""
        self._interrupt_timer = None
        if not self._polling or len(self._states) > INTERRUPT_UP_TO:
            return
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._interrupted_ms + INTERRUPT_EVERY_MS - now_ms
        if wait_ms > 0:
            self._interrupt_timer = self._clock.call_later(wait_ms, self._interrupt)
        else:
            self._interrupted = True
            self._interrupted_ms = now_ms
            self._hang_up()

    def _cancel_interrupt(self) -> None:
        timer, self._interrupt_timer = self._interrupt_timer, None
        if timer is not None:
            timer.cancel()

    def resume(self, topic_partition: TopicPartition) -> None:
        """Continue to fetch a partition whose truncation was flushed."""
        state = self._states.get(topic_partition)
        if state is not None and state.truncating:
            self._put(topic_partition, state._replace(truncating=False))

    def set_topic_id(self, topic_partition: TopicPartition, topic_id: UUID | None) -> None:
        """Request a partition by its topic id from now on, or by name if it is None (Kafka's
        ``maybeUpdateTopicIds``)."""
        state = self._states.get(topic_partition)
        if state is not None and state.topic_id != topic_id:
            self._states.put(topic_partition, state._replace(topic_id=topic_id))

    def remove(self, topic_partition: TopicPartition) -> None:
        self._states.remove(topic_partition)
        self._uncompared.discard(topic_partition)

    def stop(self) -> None:
        """End ``run`` at its next step."""
        self._stopped = True
        self._wake.set()
        self._hang_up()

    async def run(self) -> None:
        """Fetch until ``stop`` is called."""
        try:
            while not self._stopped:
                await self._step()
                if self._bug is not None:
                    raise self._bug
        finally:
            self._stopped = True
            self._cancel_interrupt()
            self._hang_up()

    async def _step(self) -> None:
        """Do what comes before the next Fetch, or send it and wait until there is something to
        do."""
        if self._grown:
            await self._flush()
        elif self._polling or self._fetch():
            await self._sleep(None)
        elif self._restarts:
            await self._restart(*self._restarts.pop(0))
        elif self._channel is None and self._due():
            await self._reach_leader()
        elif uncompared := {tp: s for tp, s in self._due().items() if tp in self._uncompared}:
            await self._compare(uncompared)
        else:
            await self._sleep(self._states.first_delay_ms(self._clock.monotonic_ms()))

    # ------------------------------------------------------------------------------------- waiting

    async def _sleep(self, delay_ms: int | None) -> None:
        """Wait until there is something to do for the task, or for a delay."""
        self._wake.clear()
        timer = None
        if delay_ms is not None:
            timer = self._clock.call_later(max(1, delay_ms), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _flush(self) -> None:
        """Flush logs that have reached ``flush.messages``. A Fetch may be in flight, but none is
        sent meanwhile."""
        grown, self._grown = self._grown, []
        self._is_flushing = True
        await self._logs.flush_due(grown)
        self._is_flushing = False

    async def _reach_leader(self) -> None:
        try:
            channel = await self._connect(self.source)
        except OSError as error:
            self._failed(list(self._states.copy()))
            self._connect_failures += 1
            if self._connect_failures == 1:
                self._log.warning("leader_not_reached", error=str(error) or repr(error))
            return
        if self._connect_failures:
            self._log.info("leader_reached", attempts=self._connect_failures + 1)
            self._connect_failures = 0
        if self._stopped:
            channel.close()
        else:
            self._channel = channel

    def _hang_up(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    async def _response_to(self, message: Message, version: int) -> Any:
        """Send a request and return its response; None if the connection failed."""
        channel = self._channel
        if channel is None:
            return None
        try:
            return await channel.request(message, version, self._config.replica_socket_timeout_ms)
        except OSError as error:
            self._lost(error)
            return None

    def _lost(self, error: OSError) -> None:
        self._hang_up()
        if not self._interrupted and not self._stopped:
            self._log.warning("leader_lost", error=str(error) or repr(error))

    # ------------------------------------------------------------------------------------ fetching

    def _due(self) -> Mapping[TopicPartition, PartitionFetchState]:
        """Return the partitions to fetch now, after delaying those that the throttle holds back."""
        now_ms = self._clock.monotonic_ms()
        if self._logs.throttle.quota.limited:
            held_back = self._logs.throttle.held_back(self._states.copy(), now_ms)
            for topic_partition, state in held_back.items():
                self._states.put(topic_partition, state)
        return self._states.due(now_ms)

    def _fetch(self) -> bool:
        """Send a Fetch of all partitions that are due. False if the task has to do something before
        or if none is due."""
        if self._channel is None or self._grown or self._restarts or self._is_flushing:
            return False
        due = self._due()
        if not due or any(tp in due for tp in self._uncompared):
            return False
        # The leader reports the records below these as deleted, also after a crash of this broker.
        self._logs.log_starts.write()
        request, version = self._session.request_changed(
            due, self._states.changed, self._max_wait_ms(len(due))
        )
        self._states.changed.clear()
        return self._begin(request, version)

    def _begin(self, request: FetchRequest, version: int) -> bool:
        """Send a Fetch. False without a connection."""
        assert self._channel is not None
        assert not self._polling, "one Fetch at a time"
        self._polling, self._interrupted = True, False
        timeout_ms = self._config.replica_socket_timeout_ms
        try:
            self._channel.begin(request, version, timeout_ms, self._receive)
        except OSError as error:
            self._receive(None, error)
        return self._polling

    def _receive(self, response: Any, error: OSError | None) -> None:
        """Apply the response to a Fetch, or handle the loss of the connection, and send the next
        Fetch. Called where the response arrives."""
        self._polling = self._is_ahead = False
        self._cancel_interrupt()  # the next Fetch names all partitions
        try:
            if error is not None:
                self._lost(error)
                self._session.failed()
                if not (self._interrupted or self._stopped):
                    self._failed(self._session.requested)
            elif not self._stopped:
                self._apply(response)
                if not self._polling:
                    self._fetch()
        except Exception as bug:
            self._bug = bug
        if not self._polling or self._grown or self._bug is not None:
            self._wake.set()

    def _apply(self, response: FetchResponse) -> None:
        """Apply a response. The next Fetch may be sent before."""
        error = ErrorCode(response.error_code)
        session_id = self._session.id
        responses = self._session.accept(error, response)
        if responses is None:
            self._log.info("fetch_refused", error=error.name, session=session_id)
            if error not in SESSION_ERRORS:
                self._failed(self._session.requested)
            return
        self.fetches.record(1, self._clock.monotonic_ms())
        # The partitions that were neither removed nor changed since.
        rows = [
            FetchedState(topic_partition, state, data)
            for topic_partition, data in responses
            if (state := self._session.requested_state(topic_partition)) is not None
            and self._states.get(topic_partition) is state
        ]
        self._read_ahead(responses, rows)
        self._apply_all(rows)

    def _read_ahead(self, responses: PartitionResponses, rows: list[FetchedState]) -> None:
        """Send the next Fetch before ``responses`` are applied, if ``read_ahead`` allows it.

        If an append fails afterwards, the state of its partition differs from the one in that
        request, and the partition's part of the next response is ignored."""
        fetched: list[FetchedRecords] = []
        if (
            self._channel is None
            or self._is_flushing
            or any(data.error_code or data.diverging_epoch is not None for _, data in responses)
        ):
            return
        for topic_partition, state, data in rows:
            records, high_watermark = data.records or b"", data.high_watermark
            if records and state.fetch_offset >= high_watermark:
                return  # the most frequent case: the follower is in sync
            if records and self._logs.throttle.is_throttled(topic_partition):
                return  # these bytes may have exceeded the limit
            fetched.append(FetchedRecords(topic_partition, state, records, high_watermark))
        ahead = read_ahead(fetched)
        if ahead is not None:
            busy = ahead.keys() | self._uncompared
            due = self._states.due(self._clock.monotonic_ms())
            requested = {tp: state for tp, state in due.items() if tp not in busy} | ahead
            self._logs.log_starts.write()
            request, version = self._session.request(requested, self._max_wait_ms(len(requested)))
            self._is_ahead = self._begin(request, version)
            self._states.changed.update(dict.fromkeys(ahead))

    def _apply_all(self, rows: list[FetchedState]) -> None:
        refused: dict[ErrorCode, list[TopicPartition]] = {}
        for topic_partition, state, data in rows:
            if self._states.get(topic_partition) is not state:
                continue  # the response has the partition twice
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._restarts.append((topic_partition, state))
            elif data.error_code != ErrorCode.NONE:
                refused.setdefault(ErrorCode(data.error_code), []).append(topic_partition)
            else:
                self._try(topic_partition, partial(self._logs.apply, topic_partition, state, data))
                if data.records and self._logs.is_flush_due(topic_partition):
                    self._grown.append(topic_partition)
        for error, partitions in refused.items():
            self._refused(partitions, error)

    def _max_wait_ms(self, partitions: int) -> int:
        """Return how long a Fetch of so many partitions may be parked at the leader: until the
        first delay of another partition ends, or ``replica.fetch.wait.max.ms``."""
        if partitions == len(self._states):
            return self._config.replica_fetch_wait_max_ms
        first_ms = self._states.first_delay_ms(self._clock.monotonic_ms())
        longest_ms = self._config.replica_fetch_wait_max_ms
        return longest_ms if first_ms is None else min(longest_ms, first_ms)

    def _try(
        self, topic_partition: TopicPartition, step: Callable[[], PartitionFetchState]
    ) -> None:
        """Run ``step`` and store the state that it returns. After a KafkaError the partition is
        delayed, after ``ReplicaFailed`` it is removed."""
        try:
            self._store(topic_partition, step())
        except ReplicaFailed:
            self._give_up([topic_partition])
        except KafkaError as error:
            disk_full = error.code is ErrorCode.KAFKA_STORAGE_ERROR
            self._log.error(
                "replica_disk_filled" if disk_full else "leader_records_rejected",
                partition=str(topic_partition),
                error=str(error),
            )
            state = self._states.get(topic_partition)
            if state is not None:
                self._states.put(topic_partition, self._logs.after_failure(topic_partition, state))
            self._failed([topic_partition])

    def _store(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Set the state of a partition. A partition that made progress moves to the end of the next
        requests."""
        if state.truncating:
            self._flush_truncation(topic_partition)
        if self._is_ahead:
            # A state equal to the one in the request in flight must be the same object.
            requested = self._session.requested_state(topic_partition)
            state = requested if requested == state else state
        self._states.put(topic_partition, state)

    def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions until the controller's next LeaderAndIsr."""
        for topic_partition in partitions:
            self.remove(topic_partition)

    def _failed(self, partitions: list[TopicPartition]) -> None:
        now_ms = self._clock.monotonic_ms()
        for topic_partition in partitions:
            state = self._states.get(topic_partition)
            if state is not None:
                self._store(
                    topic_partition,
                    states.failed(state, now_ms, self._config.replica_fetch_backoff_ms),
                )

    def _refused(self, partitions: list[TopicPartition], error: ErrorCode) -> None:
        """Delay partitions that the leader refused with ``error``. After FENCED_LEADER_EPOCH stop
        fetching them instead: there is a newer leader, and LeaderAndIsr follows."""
        write = self._log.debug if error in LEADER_NOT_READY else self._log.info
        named = ",".join(map(str, partitions[:MAX_NAMED]))
        write("fetch_refused", error=error.name, count=len(partitions), partitions=named)
        if error is not ErrorCode.FENCED_LEADER_EPOCH:
            self._failed(partitions)
            return
        self._give_up(partitions)

    # --------------------------------------------------------------------- before the first fetch

    async def _compare(self, requested: Mapping[TopicPartition, PartitionFetchState]) -> None:
        """Request the leader's ends of the local logs' last epochs, and truncate records that it
        does not have (KIP-101, KIP-279). Only for leaders that do not compare epochs in Fetch."""
        self._interrupted = False
        request = self._session.epoch_request(requested)
        version = self._config.inter_broker_protocol.offset_for_leader_epoch_version
        response: OffsetForLeaderEpochResponse | None
        response = await self._response_to(request, version)
        left = {tp: state for tp, state in requested.items() if self._states.get(tp) is state}
        for topic in response.topics if response is not None else ():
            for row in topic.partitions:
                topic_partition = TopicPartition(topic.topic, row.partition)
                state = left.pop(topic_partition, None)
                if state is None:
                    continue
                if row.error_code != ErrorCode.NONE:
                    self._refused([topic_partition], ErrorCode(row.error_code))
                else:
                    end = EpochEnd(row.leader_epoch, row.end_offset)
                    self._try(topic_partition, partial(self._compared, topic_partition, state, end))
        self._failed(list(left))

    def _compared(
        self, topic_partition: TopicPartition, state: PartitionFetchState, end: EpochEnd
    ) -> PartitionFetchState:
        after, is_last = self._logs.compare(topic_partition, state, end)
        if is_last or after.last_fetched_epoch is None:
            self._uncompared.discard(topic_partition)
        return after

    # -------------------------------------------------------------------------------- out of range

    async def _restart(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Truncate or restart a log whose end is outside of the leader's log, after requesting the
        leader's log end and log start."""
        end = await self._list_offset(topic_partition, state, LATEST_TIMESTAMP)
        if end is None or self._states.get(topic_partition) is not state:
            return
        below = restart_below_leader_end(self._logs.log_end_offset(topic_partition), end)
        if below is not None:
            self._try(
                topic_partition,
                lambda: self._logs.truncate_to_leader_end(topic_partition, state, end),
            )
            return
        start = await self._list_offset(topic_partition, state, EARLIEST_TIMESTAMP)
        if start is None or self._states.get(topic_partition) is not state:
            return
        self._try(topic_partition, lambda: self._logs.restart_at(topic_partition, state, start))

    async def _list_offset(
        self, topic_partition: TopicPartition, state: PartitionFetchState, timestamp: int
    ) -> int | None:
        """Return the start or end of the leader's log. None if the request failed or the partition
        has changed since; after a failure the partition is delayed."""
        request = self._session.offset_request(topic_partition, state.leader_epoch, timestamp)
        version = self._config.inter_broker_protocol.list_offsets_version
        response = await self._response_to(request, version)
        if self._states.get(topic_partition) is not state:
            return None
        if response is None:
            self._failed([topic_partition])
            return None
        rows = [partition for topic in response.topics for partition in topic.partitions]
        error = ErrorCode(rows[0].error_code) if rows else ErrorCode.UNKNOWN_SERVER_ERROR
        if error is not ErrorCode.NONE:
            self._refused([topic_partition], error)
            return None
        return int(rows[0].offset)
