"""The producer: takes records and returns futures of their metadata.

``send_many`` and ``send_arrow`` return one future for all the records of a call.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, SupportsIndex, TypeAlias, cast

from minikafka.client.config import ClientConfig
from minikafka.client.producer.config import Partitioner, ProducerConfig
from minikafka.client.producer.sender import Promise, RecordMetadata, Sender, SenderConfig
from minikafka.client.producer.transaction_manager import TransactionManager
from minikafka.client.serialization import Serialize, resolve_serializer, serialize
from minikafka.client.session import Client
from minikafka.client.task_waits import wait_for_event
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata, with_metadata
from minikafka.core.client.producer.accumulator import (
    BATCH_OVERHEAD_BYTES,
    Accumulator,
    AccumulatorConfig,
    PendingRecord,
    record_size_bytes,
)
from minikafka.core.client.producer.partitioner import (
    RoundRobinPartitions,
    StickyPartitions,
    partition_for_key,
)
from minikafka.core.client.producer.producer_batch import (
    EncodedRun,
    as_bytes,
    as_headers,
    check_timestamp,
    encode_runs,
    record_sizes,
)
from minikafka.core.client.producer.sequences import Sequences
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.extras import imports_of
from minikafka.kernel.ports import World
from minikafka.protocol.records.record import Header

if TYPE_CHECKING:
    import pyarrow as pa


class RecordsMetadata(NamedTuple):
    """``record_count`` records of one call that have consecutive offsets, from ``base_offset`` on.

    The offset is -1 with acks=0. A call's records of one partition are in the order in which the
    call got them.
    """

    topic: str
    partition: int
    base_offset: int
    record_count: int


class ManyRecords:
    """The future of one call: done when all its records are delivered or have failed.

    It holds a ``RecordsMetadata`` for each batch, sorted, or the first error.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[list[RecordsMetadata]] = (
            asyncio.get_running_loop().create_future()
        )
        self._is_silent = False
        self._written: list[RecordsMetadata] = []
        self._open = 0
        self._is_complete = False
        self._error: KafkaError | None = None

    def add(self, record_count: int) -> None:
        """Count records that are about to be appended."""
        self._open += record_count

    def complete(self) -> None:
        """Note that all records of the call are appended."""
        self._is_complete = True
        self._settle()

    def delivered(
        self, topic_partition: TopicPartition, base_offset: int, record_count: int
    ) -> None:
        self._written.append(RecordsMetadata(*topic_partition, base_offset, record_count))
        self._open -= record_count
        self._settle()

    def failed(self, record_count: int, error: KafkaError) -> None:
        self._error = self._error or error
        self._open -= record_count
        self._settle()

    def silence(self) -> None:
        """Let the application ignore an error: it learns of it otherwise."""
        self._is_silent = True

    def _settle(self) -> None:
        if self._open or not self._is_complete or self.future.done():
            return
        if self._error is None:
            self.future.set_result(sorted(self._written))
            return
        self.future.set_exception(self._error)
        if self._is_silent:
            self.future.exception()  # retrieved: the application may ignore it


__all__ = ["Partitioner", "Producer", "ProducerConfig", "RecordMetadata", "RecordsMetadata"]

_DRAW = 1 << 31
_STICKY: Final = -1  # the partition of records that may go to any: chosen for each batch
_RUN_BYTES: Final = 512 * 1024  # brokers take batches of a MiB unless topics say otherwise

Written: TypeAlias = "asyncio.Future[list[RecordsMetadata]]"

Choose: TypeAlias = Callable[[bytes | None, bytes | None], int]
DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]


class _Route(NamedTuple):
    """A topic in one view of the cluster: all its partitions by number, and the numbers of those
    with a leader. A partition number that the view lacks between others counts as existing."""

    partitions: list[TopicPartition]
    available: list[int]


class Producer(Client):
    """Writes records; the order of each partition is kept, and each record is written once.

    Batches have sequence numbers. Without idempotence a partition has one batch in flight at a
    time, and a retry may write it twice.

    After ``start`` any number of tasks may send. Records of one partition keep the order in
    which one task sends them.
    """

    def __init__(
        self, world: World, config: ClientConfig, producer_config: ProducerConfig | None = None
    ) -> None:
        super().__init__(world, config)
        self._config = producer_config or ProducerConfig()
        in_flight = config.max_in_flight_requests_per_connection
        idempotent = self._config.idempotent(in_flight)
        self._accumulator: Accumulator[Promise] = Accumulator(
            AccumulatorConfig(
                batch_size=min(self._config.batch_size, self._config.max_request_size),
                linger_ms=self._config.linger_ms,
                buffer_memory=self._config.buffer_memory,
                max_request_size=self._config.max_request_size,
                delivery_timeout_ms=self._config.delivery_timeout_ms,
                retries=self._config.retries,
                in_flight=1 if idempotent is False else in_flight,
            )
        )
        self._settled = asyncio.Event()
        transactional_id = self._config.transactional_id
        sequences = None if idempotent is False else Sequences(transactional_id is not None)
        self._transactions: TransactionManager | None = None
        if transactional_id is not None:
            assert sequences is not None
            self._transactions = TransactionManager(
                self.session, sequences, transactional_id, self._config.transaction_timeout_ms
            )
        self.sender = Sender(
            self.session,
            self._accumulator,
            sequences,
            self._transactions,
            SenderConfig(
                acks=self._config.acks,
                compression=self._config.compression,
                compression_level=self._config.compression_level,
                request_timeout_ms=config.request_timeout_ms,
                max_in_flight=in_flight,
                idempotent=idempotent,
            ),
            self._settled.set,
        )
        self._sticky = StickyPartitions()
        self._turns = RoundRobinPartitions()
        named = isinstance(self._config.partitioner, str)
        self._custom = None if named else cast(Partitioner, self._config.partitioner)
        self._on_new_batch = getattr(self._custom, "on_new_batch", None)
        self._serialize_key = resolve_serializer(self._config.key_serializer)
        self._serialize_value = resolve_serializer(self._config.value_serializer)
        most_bytes = min(self._config.max_request_size, self._config.buffer_memory)
        self._max_record_bytes = most_bytes - BATCH_OVERHEAD_BYTES
        self._run_bytes = min(max(self._config.batch_size, _RUN_BYTES), self._max_record_bytes)
        self._blocked_ms = 0
        self._closed = False
        self._routes: dict[str, _Route] = {}
        self._routes_of: ClusterView | None = None  # the view that they are taken from
        self._wall_ms = world.clock.wall_ms
        self._new_promise: Callable[[], Promise]

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self._new_promise = asyncio.get_running_loop().create_future
        self.session.start(tasks)
        self.sender.start(tasks)

    async def send(
        self,
        topic: str,
        value: object,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Append a record to the buffer. The future holds where it was written, or a KafkaError;
        ``on_delivery`` is called with (metadata, None) or (None, error). ``value`` and ``key`` are
        bytes or None, or what their serializers take.

        The steps are those of Kafka's ``doSend``: wait for the topic's metadata, serialize, choose
        the partition, check the size, append. The waits for metadata and for room in the buffer
        take at most ``max_block_ms`` together. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION,
        MESSAGE_TOO_LARGE, REQUEST_TIMED_OUT (no room, or a partition that the topic lacks). Raises
        TypeError and ValueError for invalid records, and what a serializer or partitioner raises.
        """
        if self._serialize_value is None and type(value) is not bytes:
            value = as_bytes(value)
        if key is not None and self._serialize_key is None and type(key) is not bytes:
            key = as_bytes(key)
        view = self.session.metadata.view
        if view is not self._routes_of:
            self._routes_of = view
            self._routes.clear()
        route = self._routes.get(topic)
        block_ms = self._config.max_block_ms
        if route is None or self._closed or not _has(route, partition):
            begun_ms = self.session.world.clock.monotonic_ms()
            route = await self._route(topic, partition)
            block_ms -= self.session.world.clock.monotonic_ms() - begun_ms
        if self._serialize_key is not None:
            key = serialize(self._serialize_key, "key.serializer", topic, key)
        if self._serialize_value is not None:
            value = serialize(self._serialize_value, "value.serializer", topic, value)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        else:
            check_timestamp(timestamp_ms)
        if headers:
            headers = as_headers(headers)
        assert key is None or type(key) is bytes
        assert value is None or type(value) is bytes
        record: PendingRecord = (timestamp_ms, key, value, headers)
        size_bytes = record_size_bytes(record)
        target = self._partition(route, key, value, partition, size_bytes)
        if size_bytes > self._max_record_bytes:
            raise self._too_large(size_bytes)
        promise: Promise = self._new_promise()
        if self._transactions is not None:
            await self._transactions.admit(target)
        full = self._accumulator.append_to_open(target, record, size_bytes, promise)
        if full is None:
            await self._append(target, record, size_bytes, promise, block_ms)
        elif full:
            self.sender.wake()
            await asyncio.sleep(0)  # a caller that sends in a loop would not let the sender run
        if on_delivery is not None:
            promise.add_done_callback(partial(_call_back, on_delivery))
        return promise

    async def _route(self, topic: str, partition: int | None) -> _Route:
        """Wait for the topic, and the partition. Raises KafkaError after ``max_block_ms``."""
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition} does not exist")
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
        metadata = self.session.metadata
        view = await metadata.topic(topic, self._config.max_block_ms, partition)
        count = max(view.partitions) + 1
        route = _Route([TopicPartition(topic, n) for n in range(count)], view.available)
        if metadata.view is self._routes_of:
            self._routes[topic] = route
        return route

    async def _append(
        self,
        target: TopicPartition,
        record: PendingRecord,
        size_bytes: int,
        promise: Promise,
        block_ms: int,
    ) -> None:
        """Append a record to a new batch, as soon as the buffer has room. Raises KafkaError."""
        if not self._accumulator.has_memory(size_bytes):
            await self._wait_for_memory(size_bytes, block_ms)
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
        now_ms = self.session.world.clock.monotonic_ms()
        if self._accumulator.append(target, record, size_bytes, promise, now_ms):
            self.sender.wake()
            await asyncio.sleep(0)

    async def send_and_wait(
        self,
        topic: str,
        value: object,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] = (),
    ) -> RecordMetadata:
        """Send a record and wait until it is acknowledged. Raises KafkaError."""
        return await (
            await self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        )

    # -- many records at once

    async def send_many(
        self,
        topic: str,
        values: Iterable[object],
        keys: Iterable[object] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Written:
        """Append many records, and return one future for all of them, after all are in the buffer.

        They become batches of up to 512 KiB (or ``batch_size``) that are sent at once, whatever
        ``linger_ms`` is, so that a call pays from some dozen records on. The future holds what was
        written where, or the first KafkaError. Partitions are chosen as by ``send``; the sticky
        partition changes with each batch. Raises as ``send``: before anything is appended, except
        REQUEST_TIMED_OUT for want of room, when earlier records are on their way.
        """
        contents = self._serialized(topic, values, self._serialize_value, "value.serializer")
        of_keys = None
        if keys is not None:
            of_keys = self._serialized(topic, keys, self._serialize_key, "key.serializer")
            if len(of_keys) != len(contents):
                raise ValueError(f"{len(of_keys)} keys for {len(contents)} values")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        else:
            check_timestamp(timestamp_ms)
        deadline_ms = self.session.world.clock.monotonic_ms() + self._config.max_block_ms
        route = await self._route(topic, partition)
        self._check_sizes(record_sizes(contents, of_keys))
        groups = self._grouped(route, contents, of_keys, partition)
        runs = (
            (number, run)
            for number, (group, group_keys) in groups.items()
            for run in encode_runs(group, group_keys, timestamp_ms, self._run_bytes)
        )
        return await self._append_runs(route, runs, deadline_ms)

    async def send_arrow(self, topic: str, table: pa.Table | pa.RecordBatch) -> Written:
        """Append the rows of an Arrow table, as ``send_many`` does. Needs the extra ``arrow``.

        Columns, by name: value, and optionally key, headers, partition, timestamp; others are
        ignored, so that a table of ``poll_arrow`` can be sent as it is (it has partitions). Keys
        and values are binary or strings; the serializers have no part in it. A row with a null
        partition gets one as by ``send``; one without a timestamp gets the present. Raises as
        ``send_many``, ValueError for columns that do not fit, and MissingExtraError.
        """
        with imports_of("arrow", "send_arrow"):
            from minikafka.client.producer.arrow_rows import ArrowRows

        rows = ArrowRows(table, self._wall_ms())
        deadline_ms = self.session.world.clock.monotonic_ms() + self._config.max_block_ms
        route = await self._route(topic, rows.last_partition)
        self._check_sizes(rows.largest())
        runs = rows.runs(len(route.partitions), self._run_bytes, self._chooser(route))
        return await self._append_runs(route, runs, deadline_ms)

    def _serialized(
        self, topic: str, contents: Iterable[object], serializer: Serialize | None, key: str
    ) -> list[bytes | None]:
        if serializer is not None:
            return [serialize(serializer, key, topic, content) for content in contents]
        found = list(contents)
        if set(map(type, found)) <= {bytes}:
            return cast("list[bytes | None]", found)
        return [as_bytes(content) for content in found]

    def _check_sizes(self, sizes: Iterable[int]) -> None:
        """Raises KafkaError MESSAGE_TOO_LARGE."""
        if (largest := max(sizes, default=0)) > self._max_record_bytes:
            raise self._too_large(largest)

    def _grouped(
        self,
        route: _Route,
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        partition: int | None,
    ) -> dict[int, tuple[list[bytes | None], list[bytes | None] | None]]:
        """Return values and keys by partition, in order."""
        choose = self._chooser(route)
        if partition is not None or (keys is None and choose is None):
            return {_STICKY if partition is None else partition: (values, keys)}
        of_keys = [None] * len(values) if keys is None else keys
        known: dict[bytes | None, int] = {None: _STICKY}
        groups: dict[int, tuple[list[bytes | None], list[bytes | None]]] = {}
        for key, value in zip(of_keys, values, strict=True):
            if choose is not None:
                number = choose(key, value)
            elif (found := known.get(key)) is not None:
                number = found
            else:
                assert key is not None
                number = known[key] = partition_for_key(key, len(route.partitions))
            group = groups.setdefault(number, ([], []))
            group[0].append(value)
            group[1].append(key)
        return dict(groups)

    def _chooser(self, route: _Route) -> Choose | None:
        """Return a function for partitioners that are called for each record; None for Kafka's hash
        and sticky partitions."""
        if self._custom is None and self._config.partitioner == "sticky":
            return None

        def choose(key: bytes | None, value: bytes | None) -> int:
            return self._partition(route, key, value, None, self._run_bytes).partition

        return choose

    async def _append_runs(
        self, route: _Route, runs: Iterable[tuple[int, EncodedRun]], deadline_ms: int
    ) -> Written:
        """Append encoded runs, each as soon as the buffer has room. Raises KafkaError."""
        clock, records = self.session.world.clock, ManyRecords()
        partitions, available = route
        topic, count = partitions[0].topic, len(partitions)
        for number, run in runs:
            if number == _STICKY:
                current = self._sticky.current(topic, count)
                previous = -1 if current is None else current
                number = self._sticky.next(topic, count, available, previous, self._draw())
            if self._transactions is not None:
                await self._transactions.admit(partitions[number])
            self._check_sizes([run.size_bytes])  # with headers
            if not self._accumulator.has_memory(run.size_bytes):
                await self._wait_for_memory(run.size_bytes, deadline_ms - clock.monotonic_ms())
            if self._closed:
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the producer is closed")
            records.add(run.record_count)
            self._accumulator.append_run(partitions[number], run, records, clock.monotonic_ms())
            self.sender.wake()
            await asyncio.sleep(0)  # the sender runs, and other tasks
        records.complete()
        return records.future

    async def flush(self) -> None:
        """Send all records appended so far, and wait until each is delivered or has failed, also
        those whose futures were cancelled."""
        mark = self._accumulator.begin_flush()
        try:
            self.sender.wake()
            while not self._accumulator.is_flushed(mark):
                self._settled.clear()
                await self._settled.wait()
        finally:
            self._accumulator.end_flush()

    async def close(self) -> None:
        """Flush, then end the tasks. Each record is delivered or fails within its delivery
        time-out.

        If cancelled, end as ``abort`` does.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self.flush()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """End the tasks now. Unacknowledged records fail with NETWORK_EXCEPTION, delivered or
        not."""
        self._closed = True
        try:
            await self.sender.close()
        finally:
            await self.session.close()

    # -- transactions. All raise KafkaError, RuntimeError without a ``transactional_id``.

    async def init_transactions(self) -> None:
        """Get the producer id, once, before the first transaction. Fences a producer that had the
        transactional id before."""
        await self._of_transactions().initialize()

    def begin_transaction(self) -> None:
        self._of_transactions().begin()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group: GroupMetadata | str,
    ) -> None:
        """Commit offsets of the group with the transaction. ``group`` is
        ``consumer.group_metadata``, or the id of a group that has no other members."""
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self._of_transactions().send_offsets(with_metadata(offsets), metadata)

    async def commit_transaction(self) -> None:
        """Flush and commit. Raises the error of a failed record: then the transaction can only be
        aborted. After a time-out or a cancellation only the commit can be repeated."""
        await self.flush()
        await self._of_transactions().end(commit=True)

    async def abort_transaction(self) -> None:
        """Abort. Records that are not sent yet fail with INVALID_TXN_STATE."""
        transactions = self._of_transactions()
        await self.sender.drop(
            KafkaError(ErrorCode.INVALID_TXN_STATE, "the transaction was aborted")
        )
        await transactions.end(commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """``async with producer.transaction():`` commits, or aborts after an exception. After one
        during the commit it does neither: only ``commit_transaction``, repeated, can tell."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            if self._of_transactions().may_abort:
                await self._abort_because_of(error)
            raise

    async def _abort_because_of(self, error: BaseException) -> None:
        """Abort. When that fails, the application still gets ``error``, with a note."""
        try:
            await self.abort_transaction()
        except KafkaError as failure:
            error.add_note(f"The transaction could not be aborted: {failure}")

    def _of_transactions(self) -> TransactionManager:
        if self._transactions is None:
            raise RuntimeError("transactional_id is not set")
        return self._transactions

    def metrics(self) -> dict[str, int]:
        """Return counters since the start, and gauges, under Kafka's names where it has them."""
        counts = self.sender.counts
        return {
            "record-send-total": counts.records,
            "record-error-total": counts.failed,
            "record-retry-total": counts.retries,
            "outgoing-byte-total": counts.bytes_sent,
            "request-total": counts.requests,
            "batch-total": counts.batches,
            "buffer-available-bytes": self._config.buffer_memory - self._accumulator.used_bytes,
            "bufferpool-wait-time-total-ms": self._blocked_ms,
        }

    async def _wait_for_memory(self, size_bytes: int, block_ms: int) -> None:
        """Wait for room in the buffer, up to ``block_ms``. Raises KafkaError."""
        begun_ms = self.session.world.clock.monotonic_ms()
        deadline_ms = begun_ms + block_ms
        try:
            while not self._accumulator.has_memory(size_bytes):
                self._settled.clear()
                left_ms = deadline_ms - self.session.world.clock.monotonic_ms()
                if not await wait_for_event(self._settled, left_ms):
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"no room in the buffer within {self._config.max_block_ms} ms",
                    )
        finally:
            self._blocked_ms += self.session.world.clock.monotonic_ms() - begun_ms

    def _partition(
        self,
        route: _Route,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        size_bytes: int,
    ) -> TopicPartition:
        """Return the partition that the record names, else that of its key, else that of the
        partitioner."""
        partitions, available = route
        if partition is not None:
            return partitions[partition]
        if self._custom is not None:
            return self._by_custom(route, key, value, size_bytes)
        topic, count = partitions[0].topic, len(partitions)
        if key is not None:
            return partitions[partition_for_key(key, count)]
        if self._config.partitioner == "round_robin":
            return partitions[self._turns.next(topic, count, available, self._draw())]
        current = self._sticky.current(topic, count)
        if current is not None:
            target = partitions[current]
            if self._accumulator.fits_open_batch(target, size_bytes):
                return target
        previous = -1 if current is None else current
        return partitions[self._sticky.next(topic, count, available, previous, self._draw())]

    def _by_custom(
        self, route: _Route, key: bytes | None, value: bytes | None, size_bytes: int
    ) -> TopicPartition:
        """Call the application's partitioner; when the record would begin a batch there, call its
        ``on_new_batch`` and the partitioner again (KIP-480). Raises ValueError."""
        assert self._custom is not None
        partitions, available = route
        topic, count = partitions[0].topic, len(partitions)
        chosen = _checked(self._custom(topic, key, value, count, available), count)
        if self._on_new_batch is not None and not self._accumulator.fits_open_batch(
            partitions[chosen], size_bytes
        ):
            self._on_new_batch(topic, count, available, chosen)
            chosen = _checked(self._custom(topic, key, value, count, available), count)
        return partitions[chosen]

    def _too_large(self, size_bytes: int) -> KafkaError:
        """Return Kafka's RecordTooLargeException."""
        whole, config = size_bytes + BATCH_OVERHEAD_BYTES, self._config
        bound = f"max.request.size {config.max_request_size}"
        if whole <= config.max_request_size:
            bound = f"buffer.memory {config.buffer_memory}"
        text = f"the record takes {whole} bytes serialized, more than {bound}"
        return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def _draw(self) -> int:
        return self.session.world.entropy.randrange(_DRAW)


def _has(route: _Route, partition: int | None) -> bool:
    """Whether the partition that the record names, if any, is one of the route."""
    return partition is None or 0 <= partition < len(route.partitions)


def _checked(chosen: SupportsIndex, count: int) -> int:
    """Return a partitioner's choice, any integer type, as an int. Raises ValueError for a partition
    that does not exist."""
    try:
        partition = operator.index(chosen)
    except TypeError:
        partition = -1
    if not 0 <= partition < count:
        raise ValueError(f"the partitioner chose {chosen!r} of {count} partitions")
    return partition


def _call_back(callback: DeliveryCallback, promise: asyncio.Future[RecordMetadata]) -> None:
    if promise.cancelled():
        return
    error = promise.exception()
    if error is None:
        callback(promise.result(), None)
    else:
        callback(None, error)
