"""The fetcher: one Fetch request in flight to each leader, for partitions with room in the
buffer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from minikafka.client.consumer.truncation import TruncationCheck
from minikafka.client.offsets import list_offsets_once
from minikafka.client.session import ClusterSession
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.consumer.fetch_requests import (
    FetchLimits,
    SessionFetches,
    is_fetched_again,
)
from minikafka.core.client.consumer.fetched import Convert, FetchedChunk
from minikafka.core.client.consumer.positions import Positions
from minikafka.core.client.consumer.read_replicas import ReadReplicas
from minikafka.core.client.errors import BrokerBackoffs
from minikafka.core.client.offsets import LATEST_TIMESTAMP
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.fetch import PartitionData


@dataclass(frozen=True, slots=True)
class FetcherConfig:
    """The consumer's keys for fetching: times in milliseconds, sizes in bytes.

    ``reset_timestamp`` is where to continue if an offset is out of range; None raises the error.
    ``rack`` is the consumer's rack; a leader may name a replica in the same rack (KIP-392).
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int
    check_crcs: bool
    reset_timestamp: int | None
    rack: str = ""


class Fetcher:
    """Fills the buffer of ``Positions``: looks up offsets, fetches, follows leaders.

    ``news`` is set when there may be records to take or an error to raise.
    """

    def __init__(
        self,
        session: ClusterSession,
        positions: Positions,
        config: FetcherConfig,
        convert: Convert | None = None,
    ) -> None:
        self.news = asyncio.Event()
        self._convert = convert
        self._session = session
        self._positions = positions
        self._config = config
        self._requests = SessionFetches(
            FetchLimits(
                config.max_wait_ms,
                config.min_bytes,
                config.max_bytes,
                config.max_partition_bytes,
                config.isolation_level,
                config.rack,
            )
        )
        self._sources = ReadReplicas(session.config.metadata_max_age_ms)
        self._busy_leaders: set[int] = set()
        self._fetch_backoffs = BrokerBackoffs(session.backoff)
        self._resetting: set[TopicPartition] = set()
        self._reset_backoffs = BrokerBackoffs(session.backoff)
        self._truncation = TruncationCheck(session, positions, config.reset_timestamp is not None)
        self._error: KafkaError | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None
        self._closed = False
        self.fetches = 0
        self.bytes_fetched = 0

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._session.metadata.add_listener(self.news.set)

    async def close(self) -> None:
        self._closed = True
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def take_error(self) -> KafkaError | None:
        """Return the error to raise to the application, and forget it."""
        error = self._error or self._truncation.error
        self._error = self._truncation.error = None
        return error

    def advance(self) -> None:
        """Start lookups of offsets and fetches where none is in flight."""
        if self._closed:
            return
        view = self._session.metadata.view
        now_ms = self._session.world.clock.monotonic_ms()
        self._advance_resets(view, now_ms)
        self._check_leader_epochs(view)
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for tp, offset in self._positions.fetchable().items():
            leader = self._sources.source(tp, view, now_ms)
            if leader is None:
                self._want_leader(tp)
            elif leader not in self._busy_leaders and self._fetch_backoffs.may_send(leader, now_ms):
                by_leader.setdefault(leader, {})[tp] = offset
        for leader, offsets in sorted(by_leader.items()):
            self._busy_leaders.add(leader)
            for tp in offsets:
                self._positions.fetch_sent(tp)
            self._spawn(self._fetch(leader, offsets))

    def _advance_resets(self, view: ClusterView, now_ms: int) -> None:
        """Start a lookup of offsets at each leader, each in its task: none waits for another
        leader."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for tp, timestamp in self._positions.to_reset().items():
            leader = view.leaders.get(tp)
            if leader is None:
                self._want_leader(tp)
            elif tp not in self._resetting and self._reset_backoffs.may_send(leader, now_ms):
                by_leader.setdefault(leader, {})[tp] = timestamp
        for leader, wanted in sorted(by_leader.items()):
            self._resetting.update(wanted)
            self._spawn(self._reset(leader, wanted))

    def _want_leader(self, tp: TopicPartition) -> None:
        self._session.metadata.add_topics([tp.topic])
        self._session.metadata.request_update()

    def _check_leader_epochs(self, view: ClusterView) -> None:
        for tp in self._positions.assigned:
            partition = view.partition(tp)
            if partition is not None:
                self._positions.note_leader_epoch(tp, partition.leader_epoch)
        if not self._truncation.is_running and (doubts := self._positions.to_validate()):
            self._truncation.is_running = True
            self._spawn(self._truncation.run(doubts, self.news.set))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _reset(self, leader: int, wanted: Mapping[TopicPartition, int]) -> None:
        """Look up offsets at one leader once. Failed partitions are retried after a backoff."""
        session, level = self._session, self._config.isolation_level
        try:
            deadline_ms = session.deadline_ms()
            found, errors = await list_offsets_once(session, wanted, deadline_ms, level)
            # No record is as late as the timestamp: go on from the end.
            beyond = {tp: LATEST_TIMESTAMP for tp, response in found.items() if response.offset < 0}
            ends, more_errors = await list_offsets_once(session, beyond, deadline_ms, level)
            for tp, response in (found | ends).items():
                if response.offset >= 0:
                    self._positions.resolve({tp: (wanted[tp], response.offset)})
            failed = errors + more_errors
            for error in failed:
                session.metadata.note_error(error.code)
                if not error.retriable:
                    self._error = error
            if failed:
                self._back_off(self._reset_backoffs, leader, failed[0].code)
            else:
                self._reset_backoffs.succeeded(leader)
        finally:
            self._resetting.difference_update(wanted)
            self.news.set()

    async def _fetch(self, leader: int, offsets: Mapping[TopicPartition, int]) -> None:
        arrived, session = False, self._session
        try:
            await session.connections.connect(leader)
            _, served = session.connections.versions(leader).get(ApiKey.FETCH, (0, 0))
            request, version = self._requests.build(leader, offsets, session.metadata.view, served)
            response = await session.connections.request(
                leader,
                request,
                highest_version=version,
                timeout_ms=session.config.request_timeout_ms + self._config.max_wait_ms,
            )
            rows = self._requests.handle_response(leader, response)
            session.metadata.note_leader_errors(leader, dict(rows), response.node_endpoints)
        except KafkaError as error:
            self._requests.handle_error(leader)
            self._sources.clear(offsets)
            session.metadata.note_error(error.code)
            self._back_off(self._fetch_backoffs, leader, error.code)
            if not error.retriable:
                self._error = error
        else:
            arrived = self._process(leader, rows, offsets)
        finally:
            for tp in offsets:
                self._positions.fetch_done(tp)
            self._busy_leaders.discard(leader)
            self.news.set()
            if arrived:  # fetch while the application is busy, as far as the buffers allow
                self.advance()

    def _process(
        self,
        leader: int,
        rows: list[tuple[TopicPartition, PartitionData]],
        offsets: Mapping[TopicPartition, int],
    ) -> bool:
        """Process the rows of a Fetch response. Return whether records have arrived."""
        before_bytes = self._positions.buffered_bytes
        self.fetches += 1
        failure = ErrorCode.NONE
        for tp, row in rows:
            offset = offsets.get(tp)
            # Not in the request, or the application has moved the position meanwhile.
            if offset is None or not self._positions.is_at(tp, offset):
                continue
            code = ErrorCode(row.error_code)
            if code is not ErrorCode.NONE:
                failure = code
                self._partition_failed(tp, offset, code)
            elif row.preferred_read_replica >= 0:
                now_ms = self._session.world.clock.monotonic_ms()
                self._sources.prefer(tp, row.preferred_read_replica, now_ms)
            else:
                self._buffer(tp, row)
        if failure is not ErrorCode.NONE:
            self._back_off(self._fetch_backoffs, leader, failure)
        else:
            self._fetch_backoffs.succeeded(leader)
        arrived_bytes = self._positions.buffered_bytes - before_bytes
        self.bytes_fetched += arrived_bytes
        return arrived_bytes > 0

    def _buffer(self, tp: TopicPartition, row: PartitionData) -> None:
        aborted = [(at.producer_id, at.first_offset) for at in row.aborted_transactions or ()]
        chunk = FetchedChunk(
            tp,
            row.records or b"",
            self._positions.fetch_place(tp),
            aborted,
            self._config.check_crcs,
            self._convert,
        )
        self._positions.fetched(tp, chunk, row.high_watermark, row.last_stable_offset)

    def _partition_failed(self, tp: TopicPartition, offset: int, code: ErrorCode) -> None:
        elsewhere = self._sources.clear([tp])
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and elsewhere:
            return  # a follower may be behind, or ahead in deletions; ask the leader
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and self._config.reset_timestamp is not None:
            self._positions.reset(tp, self._config.reset_timestamp)
        elif not is_fetched_again(code):
            self._error = KafkaError(code, f"{tp} at offset {offset}")

    def _back_off(self, backoffs: BrokerBackoffs, leader: int, code: ErrorCode) -> None:
        """Suspend requests to a broker for the backoff."""
        world = self._session.world
        now_ms = world.clock.monotonic_ms()
        delay_ms = backoffs.failed(leader, code, now_ms, world.entropy.random())
        world.clock.call_later(delay_ms, self.news.set)
