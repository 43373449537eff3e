"""Copying from one leader broker: one connection, one Fetch at a time for many partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from minikafka.broker.follower_logs import FollowerLogs
from minikafka.broker.leader_session import LeaderSession, ReplicaFetcherConfig
from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.follower import restart_below_leader_end
from minikafka.core.replication.partition_state import NEVER_MS
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.protocol.messages.fetch import FetchResponse, PartitionData
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.schema import Message

LIST_OFFSETS_VERSION = 7
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
ERROR_NUMBERS = frozenset(int(code) for code in ErrorCode)
# The leader has lost the session, or lost count in it: a full request puts that right at once.
SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


def error_of(code: int) -> ErrorCode:
    """The error of that number; a number that Kafka does not have is UNKNOWN_SERVER_ERROR."""
    return ErrorCode(code) if code in ERROR_NUMBERS else ErrorCode.UNKNOWN_SERVER_ERROR


class SourceChannel(Protocol):
    """An open connection to the leader broker (``network.channel.Channel``)."""

    async def request(self, message: Message, version: int, timeout_ms: int) -> Any:
        """Raises ConnectionError and TimeoutError."""
        ...

    def close(self) -> None: ...


# Connects to a broker by id. Raises OSError, also when it is not known where that broker is.
Connect: TypeAlias = Callable[[int], Awaitable[SourceChannel]]


class ReplicaFetcher:
    """A task that copies from broker ``source`` while there are partitions to copy.

    Partitions come and go between any two awaits: an answer counts for a partition only if its
    fetch state is still the very object that was asked with. A partition that joins does not wait
    behind a long poll: that connection is dropped and the next Fetch names it.
    """

    def __init__(
        self,
        source: int,
        broker_id: int,
        broker_epoch: Callable[[], int],
        connect: Connect,
        logs: FollowerLogs,
        clock: Clock,
        config: ReplicaFetcherConfig,
        log: EventLog,
    ) -> None:
        self.source = source
        self._broker_id = broker_id
        self._session = LeaderSession(broker_id, broker_epoch, logs.log_start_offset, config)
        self._connect = connect
        self._logs = logs
        self._clock = clock
        self._config = config
        self._log = log.bind(source=source)
        self._states: dict[TopicPartition, PartitionFetchState] = {}  # in the order of their turns
        self._channel: SourceChannel | None = None
        self._polling = False
        self._interrupted = False
        self._interrupted_ms = NEVER_MS
        self._interruption: TimerHandle | None = None  # that is to come, of this poll
        self._stopped = False
        self._wake = asyncio.Event()
        self._connect_failures = 0

    def __len__(self) -> int:
        return len(self._states)

    def state_of(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._states.get(topic_partition)

    def add(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        self._states[topic_partition] = state
        self._wake.set()
        if self._polling and not self._interrupted and self._interruption is None:
            self._interrupt_soon()

    def _interrupt_soon(self) -> None:
        """At once; but when thousands join, slice by slice, not for each slice: the request that
        follows names everything. Then they wait no longer than for a poll to end, as in Kafka."""
        again_ms = self._interrupted_ms + self._config.replica_fetch_wait_max_ms
        wait_ms = again_ms - self._clock.monotonic_ms()
        if wait_ms <= 0:
            self._interrupt()
        else:
            self._interruption = self._clock.call_later(wait_ms, self._interrupt)

    def _interrupt(self) -> None:
        self._interruption = None
        self._interrupted = True
        self._interrupted_ms = self._clock.monotonic_ms()
        self._hang_up()

    def _interrupt_no_more(self) -> None:
        if self._interruption is not None:
            self._interruption.cancel()
            self._interruption = None

    def remove(self, topic_partition: TopicPartition) -> None:
        self._states.pop(topic_partition, None)

    def stop(self) -> None:
        """End the task at its next step."""
        self._stopped = True
        self._wake.set()
        self._hang_up()

    async def run(self) -> None:
        """Until ``stop``."""
        try:
            while not self._stopped:
                now_ms = self._clock.monotonic_ms()
                asked = {tp: s for tp, s in self._states.items() if not s.is_delayed(now_ms)}
                if not asked:
                    await self._idle(now_ms)
                elif self._channel is None:
                    await self._reach_leader()
                else:
                    await self._fetch_once(asked)
        finally:
            self._interrupt_no_more()
            self._hang_up()

    # ------------------------------------------------------------------------------------- waiting

    async def _idle(self, now_ms: int) -> None:
        """Until a partition is added, or the first delay is over."""
        delays = [s.delayed_until_ms for s in self._states.values() if s.delayed_until_ms]
        self._wake.clear()
        timer = None
        if delays:
            timer = self._clock.call_later(max(1, min(delays) - now_ms), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _reach_leader(self) -> None:
        try:
            channel = await self._connect(self.source)
        except OSError as error:
            self._failed(list(self._states))
            self._connect_failures += 1
            if self._connect_failures == 1:
                self._log.warning("leader_unreachable", error=repr(error))
            return
        if self._connect_failures:
            self._log.info("leader_reached", attempts=self._connect_failures + 1)
            self._connect_failures = 0
        if self._stopped:
            channel.close()
        else:
            self._channel = channel

    def _hang_up(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    async def _ask(self, message: Message, version: int, timeout_ms: int) -> Any:
        """The answer, or None when the connection failed."""
        channel = self._channel
        if channel is None:
            return None
        try:
            return await channel.request(message, version, timeout_ms)
        except OSError as error:
            if self._channel is channel:
                self._hang_up()
            if not self._interrupted and not self._stopped:
                self._log.warning("leader_lost", error=repr(error))
            return None

    # ------------------------------------------------------------------------------------ fetching

    async def _fetch_once(self, asked: dict[TopicPartition, PartitionFetchState]) -> None:
        self._logs.write_log_starts()
        request, version = self._session.request(asked, self._max_wait_ms())
        self._polling, self._interrupted = True, False
        response: FetchResponse | None = await self._ask(
            request, version, self._config.replica_socket_timeout_ms
        )
        self._polling = False
        self._interrupt_no_more()
        if response is None:
            self._session.failed()
            if not self._interrupted:
                self._failed(list(asked))
            return
        error = error_of(response.error_code)
        answers = self._session.answered(error, response)
        if answers is None:
            self._log.info("fetch_refused", error=error.name, session=request.session_id)
            if error not in SESSION_ERRORS:
                self._failed(list(asked))
            return
        await self._take_all(asked, answers)

    async def _take_all(
        self,
        asked: dict[TopicPartition, PartitionFetchState],
        answers: list[tuple[TopicPartition, PartitionData]],
    ) -> None:
        restarts, grown = [], []
        for topic_partition, data in answers:
            state = asked.get(topic_partition)
            if state is None or self._states.get(topic_partition) is not state:
                continue  # not ours any more, or told otherwise meanwhile
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                restarts.append((topic_partition, state))
            elif data.error_code != ErrorCode.NONE:
                self._refused(topic_partition, error_of(data.error_code))
            else:
                self._take(topic_partition, state, data)
                if data.records:
                    grown.append(topic_partition)
        await self._logs.flush_due(grown)
        for topic_partition, state in restarts:
            await self._restart(topic_partition, state)

    def _max_wait_ms(self) -> int:
        """Not beyond the end of a delay: the partition that waits is to be asked for then."""
        now_ms = self._clock.monotonic_ms()
        ends = [s.delayed_until_ms for s in self._states.values() if s.is_delayed(now_ms)]
        first_ms = min((end - now_ms for end in ends if end is not None), default=None)
        longest_ms = self._config.replica_fetch_wait_max_ms
        return longest_ms if first_ms is None else min(longest_ms, first_ms)

    def _take(
        self, topic_partition: TopicPartition, state: PartitionFetchState, data: PartitionData
    ) -> None:
        self._try(topic_partition, lambda: self._logs.take(topic_partition, state, data))

    def _try(
        self, topic_partition: TopicPartition, step: Callable[[], PartitionFetchState | None]
    ) -> None:
        """``step``, which is to be tried again when it raises KafkaError."""
        try:
            self._settle(topic_partition, step())
        except KafkaError as error:
            disk_full = error.code is ErrorCode.KAFKA_STORAGE_ERROR
            self._log.error(
                "replica_disk_full" if disk_full else "bad_records_from_leader",
                partition=str(topic_partition),
                error=str(error),
            )
            self._failed([topic_partition])

    def _settle(self, topic_partition: TopicPartition, state: PartitionFetchState | None) -> None:
        """The next state of a partition; whoever had its turn goes to the end."""
        before = self._states.get(topic_partition)
        if state is None:
            self._states.pop(topic_partition, None)
        elif before is not None and before.fetch_offset == state.fetch_offset:
            self._states[topic_partition] = state
        else:
            self._states.pop(topic_partition, None)
            self._states[topic_partition] = state

    def _failed(self, partitions: list[TopicPartition]) -> None:
        now_ms = self._clock.monotonic_ms()
        for topic_partition in partitions:
            state = self._states.get(topic_partition)
            if state is not None:
                self._settle(
                    topic_partition,
                    states.failed(state, now_ms, self._config.replica_fetch_backoff_ms),
                )

    def _refused(self, topic_partition: TopicPartition, error: ErrorCode) -> None:
        """FENCED_LEADER_EPOCH: there is a newer leader, whom the controller will name. Anything
        else may pass: above all, a leader that has not heard of its role yet."""
        self._log.info("fetch_refused", partition=str(topic_partition), error=error.name)
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self._states.pop(topic_partition, None)
        else:
            self._failed([topic_partition])

    # -------------------------------------------------------------------------------- out of range

    async def _restart(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Our end is outside the leader's log: ask where that ends and where it starts."""
        end = await self._list_offset(topic_partition, state, LATEST_TIMESTAMP)
        if end is None or self._states.get(topic_partition) is not state:
            return
        below = restart_below_leader_end(self._logs.log_end_offset(topic_partition), end)
        if below is not None:
            self._try(topic_partition, lambda: self._logs.cut_to(topic_partition, state, end))
            return
        start = await self._list_offset(topic_partition, state, EARLIEST_TIMESTAMP)
        if start is None or self._states.get(topic_partition) is not state:
            return
        self._try(topic_partition, lambda: self._logs.restart_at(topic_partition, state, start))

    async def _list_offset(
        self, topic_partition: TopicPartition, state: PartitionFetchState, timestamp: int
    ) -> int | None:
        """An end of the leader's log; None (and a delay) when it cannot be told now."""
        question = ListOffsetsPartition(
            partition_index=topic_partition.partition,
            current_leader_epoch=state.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._broker_id,
            topics=[ListOffsetsTopic(name=topic_partition.topic, partitions=[question])],
        )
        response = await self._ask(
            request, LIST_OFFSETS_VERSION, self._config.replica_socket_timeout_ms
        )
        if self._states.get(topic_partition) is not state:
            return None
        if response is None:
            self._failed([topic_partition])
            return None
        answers = [partition for topic in response.topics for partition in topic.partitions]
        error = error_of(answers[0].error_code) if answers else ErrorCode.UNKNOWN_SERVER_ERROR
        if error is not ErrorCode.NONE:
            self._refused(topic_partition, error)
            return None
        return int(answers[0].offset)
