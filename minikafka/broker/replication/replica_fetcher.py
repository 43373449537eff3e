"""Copying from one leader broker: one connection, one Fetch at a time for many partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from minikafka.broker.replication.follower_logs import FollowerLogs
from minikafka.broker.replication.leader_session import (
    SESSION_ERRORS,
    Answers,
    LeaderSession,
    ReplicaFetcherConfig,
)
from minikafka.core.replication import fetch_state as states
from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.core.replication.follower import EpochEndOffset, restart_below_leader_end
from minikafka.core.replication.partition_state import NEVER_MS
from minikafka.core.replication.read_ahead import Brought, read_ahead
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.network.channel import Channel
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from minikafka.protocol.schema import Message

LIST_OFFSETS_VERSION = 7
OFFSET_FOR_LEADER_EPOCH_VERSION = 4
LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_NAMED = 10  # partitions in a line
NOT_HEARD_YET = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH))
# A poll of more partitions is waited for: without the session that breaks off with it, the next
# request has to name them all, and not only those that join.
INTERRUPT_UP_TO = 500


# Connects to a broker by id. Raises OSError, also when it is not known where that broker is.
Connect: TypeAlias = Callable[[int], Awaitable[Channel]]


class Poll(NamedTuple):
    """A Fetch under way, and the states that it asked with."""

    asked: Mapping[TopicPartition, PartitionFetchState]
    request: FetchRequest
    reply: asyncio.Future[Any] | None  # None: it could not be sent


class ReplicaFetcher:
    """A task that copies from broker ``source`` while there are partitions to copy.

    Partitions come and go between any two awaits: an answer counts for a partition only if its
    fetch state is still the very object that was asked with. A partition that joins does not wait
    behind a long poll: that connection is dropped and the next Fetch names it. While a follower is
    far behind, the next Fetch leaves before the last answer is appended (see ``read_ahead``).
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
        self._session = LeaderSession(
            broker_id, broker_epoch, logs.log_start_offset, logs.log_start_moves, config
        )
        self._connect = connect
        self._logs = logs
        self._clock = clock
        self._config = config
        self._log = log.bind(source=source)
        self._states: dict[TopicPartition, PartitionFetchState] = {}  # in the order of their turns
        # Logs whose last epoch the leader has to be asked for before they are fetched.
        self._uncompared: set[TopicPartition] = set()
        self._channel: Channel | None = None
        self._ahead: Poll | None = None  # begun before the answer before it was taken
        self._polling = False
        self._interrupted = False
        self._interrupted_ms = NEVER_MS
        self._stopped = False
        self._wake = asyncio.Event()
        self._connect_failures = 0

    def __len__(self) -> int:
        return len(self._states)

    def state_of(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._states.get(topic_partition)

    def add(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Copy this partition; one that is copied already was elected a leader again."""
        if not self._config.truncates_on_fetch and state.last_fetched_epoch is not None:
            self._uncompared.add(topic_partition)
        self._put(topic_partition, state)

    def _put(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        self._states[topic_partition] = state
        self._wake.set()
        if self._polling and not self._interrupted and len(self._states) <= INTERRUPT_UP_TO:
            self._interrupt()

    def _interrupt(self) -> None:
        """Not again and again when many join one by one: the last time was when this poll began,
        and so it ends soon, which is what they would wait for in Kafka."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._interrupted_ms + self._config.replica_fetch_wait_max_ms:
            self._interrupted = True
            self._interrupted_ms = now_ms
            self._hang_up()

    def resume(self, topic_partition: TopicPartition) -> None:
        """Its log was cut, and that is on disk."""
        state = self._states.get(topic_partition)
        if state is not None and state.truncating:
            self._put(topic_partition, state._replace(truncating=False))

    def remove(self, topic_partition: TopicPartition) -> None:
        self._states.pop(topic_partition, None)
        self._uncompared.discard(topic_partition)

    def stop(self) -> None:
        """End the task at its next step."""
        self._stopped = True
        self._wake.set()
        self._hang_up()

    async def run(self) -> None:
        """Until ``stop``."""
        try:
            while not self._stopped:
                if self._ahead is not None:
                    await self._end(self._ahead)
                    continue
                now_ms = self._clock.monotonic_ms()
                if self._logs.throttle.quota.limited:
                    self._logs.throttle.hold_back(self._states, now_ms)
                asked = states.not_delayed(self._states, now_ms)
                if not asked:
                    await self._idle(now_ms)
                elif self._channel is None:
                    await self._reach_leader()
                elif not self._uncompared.isdisjoint(asked):
                    await self._compare({tp: asked[tp] for tp in asked if tp in self._uncompared})
                else:
                    await self._end(self._begin(asked))
        finally:
            self._drop_ahead()
            self._hang_up()

    def _drop_ahead(self) -> None:
        reply = self._ahead.reply if self._ahead is not None else None
        if reply is not None and not reply.cancel() and not reply.cancelled():
            reply.exception()  # an error that nobody looks at would be complained of

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

    def _send(self, message: Message, version: int) -> asyncio.Future[Any] | None:
        """The answer to come; None without a connection."""
        if self._channel is None:
            return None
        try:
            return self._channel.begin(message, version, self._config.replica_socket_timeout_ms)
        except OSError as error:
            self._lost(self._channel, error)
            return None

    async def _answer(self, reply: asyncio.Future[Any] | None) -> Any:
        """None when the connection failed."""
        channel = self._channel
        if reply is None:
            return None
        try:
            return await reply
        except OSError as error:
            self._lost(channel, error)
            return None

    def _lost(self, channel: Channel | None, error: OSError) -> None:
        if self._channel is channel:
            self._hang_up()
        if not self._interrupted and not self._stopped:
            self._log.warning("leader_lost", error=repr(error))

    # ------------------------------------------------------------------------------------ fetching

    def _begin(self, asked: Mapping[TopicPartition, PartitionFetchState]) -> Poll:
        self._logs.write_log_starts()
        request, version = self._session.request(asked, self._max_wait_ms(len(asked)))
        self._polling, self._interrupted = True, False
        return Poll(asked, request, self._send(request, version))

    async def _end(self, poll: Poll) -> None:
        """Wait for the answer, and take it in; perhaps with the next poll under way."""
        response: FetchResponse | None = await self._answer(poll.reply)
        self._ahead = None
        self._polling = False
        if response is None:
            self._session.failed()
            if not self._interrupted:
                self._failed(list(poll.asked))
            return
        error = ErrorCode(response.error_code)
        answers = self._session.answered(error, response)
        if answers is None:
            self._log.info("fetch_refused", error=error.name, session=poll.request.session_id)
            if error not in SESSION_ERRORS:
                self._failed(list(poll.asked))
            return
        self._read_ahead(poll, answers)
        await self._take_all(poll, answers)

    def _state_asked_with(
        self, poll: Poll, topic_partition: TopicPartition
    ) -> PartitionFetchState | None:
        """None when the partition is not ours any more, or was told otherwise meanwhile."""
        state = poll.asked.get(topic_partition)
        return state if self._states.get(topic_partition) is state else None

    def _read_ahead(self, poll: Poll, answers: Answers) -> None:
        """Ask on, if that may be done before ``answers`` are taken in. What then turns out not to
        be as it was asked with, as its append failed, drops out of the answer to come."""
        brought: list[Brought] = []
        for topic_partition, data in answers:
            state = self._state_asked_with(poll, topic_partition)
            if data.error_code or data.diverging_epoch is not None or self._channel is None:
                return
            if state is None:
                continue
            records, high_watermark = data.records or b"", data.high_watermark
            if records and state.fetch_offset >= high_watermark:
                return  # mostly: it is in sync
            if records and self._logs.throttle.is_throttled(topic_partition):
                return  # it may be too much already
            brought.append(Brought(topic_partition, state, records, high_watermark))
        ahead = read_ahead(brought)
        if ahead is not None:
            now_ms = self._clock.monotonic_ms()
            busy = ahead.keys() | self._uncompared
            quiet = {tp: state for tp, state in self._states.items() if tp not in busy}
            self._ahead = self._begin(states.not_delayed(quiet, now_ms) | ahead)

    async def _take_all(self, poll: Poll, answers: Answers) -> None:
        restarts, grown = [], []
        refused: dict[ErrorCode, list[TopicPartition]] = {}
        for topic_partition, data in answers:
            state = self._state_asked_with(poll, topic_partition)
            if state is None:
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                restarts.append((topic_partition, state))
            elif data.error_code != ErrorCode.NONE:
                refused.setdefault(ErrorCode(data.error_code), []).append(topic_partition)
            else:
                self._try(topic_partition, partial(self._logs.take, topic_partition, state, data))
                if data.records:
                    grown.append(topic_partition)
        for error, partitions in refused.items():
            self._refused(partitions, error)
        await self._logs.flush_due(grown)
        for topic_partition, state in restarts:
            await self._restart(topic_partition, state)

    def _max_wait_ms(self, asked: int) -> int:
        """Not beyond the end of a delay: the partition that waits is to be asked for then."""
        if asked == len(self._states):
            return self._config.replica_fetch_wait_max_ms
        now_ms = self._clock.monotonic_ms()
        ends = [s.delayed_until_ms for s in self._states.values() if s.is_delayed(now_ms)]
        first_ms = min((end - now_ms for end in ends if end is not None), default=None)
        longest_ms = self._config.replica_fetch_wait_max_ms
        return longest_ms if first_ms is None else min(longest_ms, first_ms)

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
            state = self._states.get(topic_partition)
            if state is not None:
                self._states[topic_partition] = self._logs.after_failure(topic_partition, state)
            self._failed([topic_partition])

    def _settle(self, topic_partition: TopicPartition, state: PartitionFetchState | None) -> None:
        """The next state of a partition; whoever had its turn goes to the end."""
        before = self._states.get(topic_partition)
        if self._ahead is not None:
            asked = self._ahead.asked.get(topic_partition)
            state = asked if asked == state else state  # the very object that was asked with
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

    def _refused(self, partitions: list[TopicPartition], error: ErrorCode) -> None:
        """FENCED_LEADER_EPOCH: there is a newer leader, whom the controller will name. Else it may
        pass; that a leader has not heard of its role yet is not worth a line."""
        write = self._log.debug if error in NOT_HEARD_YET else self._log.info
        named = ",".join(map(str, partitions[:MAX_NAMED]))
        write("fetch_refused", error=error.name, count=len(partitions), partitions=named)
        if error is not ErrorCode.FENCED_LEADER_EPOCH:
            self._failed(partitions)
            return
        for topic_partition in partitions:
            self._states.pop(topic_partition, None)

    # --------------------------------------------------------------------- before the first fetch

    async def _compare(self, asked: Mapping[TopicPartition, PartitionFetchState]) -> None:
        """Ask where our last epochs end at the leader, and cut what it does not have (KIP-101,
        KIP-279). Only for leaders that do not compare epochs in a Fetch."""
        self._interrupted = False
        request = self._session.epoch_request(asked)
        version = self._config.release.at_most(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION
        )
        response: OffsetForLeaderEpochResponse | None
        response = await self._answer(self._send(request, version))
        left = {tp: state for tp, state in asked.items() if self._states.get(tp) is state}
        for topic in response.topics if response is not None else ():
            for row in topic.partitions:
                topic_partition = TopicPartition(topic.topic, row.partition)
                state = left.pop(topic_partition, None)
                if state is None:
                    continue
                if row.error_code != ErrorCode.NONE:
                    self._refused([topic_partition], ErrorCode(row.error_code))
                else:
                    end = EpochEndOffset(row.leader_epoch, row.end_offset)
                    self._try(topic_partition, partial(self._compared, topic_partition, state, end))
        self._failed(list(left))

    def _compared(
        self, topic_partition: TopicPartition, state: PartitionFetchState, end: EpochEndOffset
    ) -> PartitionFetchState | None:
        after, last = self._logs.compare(topic_partition, state, end)
        if last or after is None or after.last_fetched_epoch is None:
            self._uncompared.discard(topic_partition)
        return after

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
        request = self._session.offset_request(topic_partition, state.leader_epoch, timestamp)
        version = self._config.release.at_most(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION)
        response = await self._answer(self._send(request, version))
        if self._states.get(topic_partition) is not state:
            return None
        if response is None:
            self._failed([topic_partition])
            return None
        answers = [partition for topic in response.topics for partition in topic.partitions]
        error = ErrorCode(answers[0].error_code) if answers else ErrorCode.UNKNOWN_SERVER_ERROR
        if error is not ErrorCode.NONE:
            self._refused([topic_partition], error)
            return None
        return int(answers[0].offset)
