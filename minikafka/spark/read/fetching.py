"""Reading of one planned range of offsets: fetching from the leader, retries, data losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from minikafka.client.columnar.decode import Slice, decode_to_arrow, next_offset
from minikafka.core.client.calls import raise_for
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.consumer.fetch_requests import (
    FETCH_VERSION,
    FETCH_VERSION_OF_IDS,
    FetchLimits,
    FetchPosition,
    fetch_request,
    fetched_partitions,
    is_fetched_again,
)
from minikafka.kernel.cluster import NO_EPOCH, ZERO_UUID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.fetch import PartitionData
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.connection import BlockingConnection
from minikafka.spark.failure_text import READ, missing_acl, print_to_stderr
from minikafka.spark.read.offsets import EARLIEST, LATEST
from minikafka.spark.read.planning import (
    ADVICE_FAIL,
    ADVICE_RECREATED,
    DataLossError,
    OffsetRange,
    recreated_text,
)
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    import pyarrow as pa


class RangeReader:
    """Reads one range of offsets, once. The next fetch is in flight while a response is decoded.

    All offsets of the range existed when it was planned. If some do not exist any more, because
    records or the topic were deleted, ``read`` raises DataLossError, or skips them if
    ``fail_on_data_loss`` is False, and prints the loss to standard error. It raises KafkaError
    REQUEST_TIMED_OUT if no record arrives for ``poll_timeout_ms``.

    Requests give the id of the topic, so that the leader never sends records of a topic that was
    created again, however old the metadata here are. Brokers before 3.1 lack such requests.
    """

    def __init__(
        self,
        cluster: Cluster,
        offset_range: OffsetRange,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: int = 120_000,
        overflow_is_null: bool = False,
    ) -> None:
        self.position = offset_range.start
        self._cluster = cluster
        self._range = offset_range
        self._partition = offset_range.topic_partition
        self._slice = Slice(*offset_range[:4])
        options = cluster.options
        self._limits = FetchLimits(
            options.fetch_max_wait_ms,
            1,
            options.fetch_max_bytes,
            options.max_partition_fetch_bytes,
            int(options.read_committed),
        )
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_ms = poll_timeout_ms
        self._overflow_is_null = overflow_is_null
        self._clock = WallClock()
        self._progress_at_ms = 0
        self._failures = 0  # since then

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range. Raises DataLossError, KafkaError."""
        self._progress_at_ms = self._clock.monotonic_ms()
        while self.position < self._range.end:
            leader = self._leader()
            if leader is None:
                return
            try:
                yield from self._read_from(self._cluster.connection_to(leader), schema)
            except KafkaError as error:
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._skip_what_is_gone()
                elif is_fetched_again(error.code) and not self._is_stuck():
                    self._cluster.topics.pop(self._partition.topic, None)
                    pause(self._cluster.backoff_ms(error.code, self._failures))
                    self._failures += 1
                else:
                    raise

    def _leader(self) -> int | None:
        """Return the broker id of the leader, None if the partition does not exist any more, which
        is a data loss. Raises DataLossError, KafkaError."""
        topic, known = self._range.topic, self._range.topic_id
        try:
            return self._cluster.retrying(
                lambda: self._cluster.leader(self._partition, known),
                f"reading {self._partition}",
                final=(ErrorCode.UNKNOWN_TOPIC_ID,),
            )
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._lost(f"{self._partition} was deleted")
            elif error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                new = self._cluster.topics[topic].topic_id
                self._lost(
                    f"{self._partition} at offset {self.position}: "
                    f"{recreated_text(topic, known, new)}",
                    ADVICE_RECREATED,
                )
            else:
                raise
        return None

    def _read_from(
        self, connection: BlockingConnection, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._fetch_and_decode(connection, schema)
        finally:
            if connection.in_flight:  # the task ends early, and another one gets the connection
                connection.close()

    def _fetch_and_decode(
        self, connection: BlockingConnection, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        self._send_request(connection)
        while True:
            data = self._receive(connection)
            records = data.records if data.records is not None else memoryview(b"")
            following = next_offset(records, self.position)
            if following > self.position:
                self._progress_at_ms, self._failures = self._clock.monotonic_ms(), 0
            elif self._is_stuck():
                self._give_up()
                return
            self.position = following
            done = following >= self._range.end
            if not done:
                self._send_request(connection)
            aborted = [(each.producer_id, each.first_offset)
                       for each in data.aborted_transactions or ()]  # fmt: skip
            check_crcs = self._cluster.options.check_crcs
            for rows in decode_to_arrow(
                records, self._slice, schema, aborted, check_crcs, self._overflow_is_null
            ):
                yield rows
                self._progress_at_ms = self._clock.monotonic_ms()  # Spark may have taken its time
            if done:
                return

    def _send_request(self, connection: BlockingConnection) -> None:
        known = ClusterView(topics=self._cluster.topics).partition(self._partition)
        epoch = NO_EPOCH if known is None else known.leader_epoch
        positions = [(self._partition, FetchPosition(epoch, self.position))]
        topic_ids = {self._range.topic: self._range.topic_id}
        request = fetch_request(self._limits, positions, topic_ids)
        has_id = self._range.topic_id != ZERO_UUID
        connection.send(request, FETCH_VERSION_OF_IDS if has_id else FETCH_VERSION)

    def _receive(self, connection: BlockingConnection) -> PartitionData:
        """Wait for a Fetch response and return the data of the partition. Raises KafkaError."""
        response = connection.receive()
        where = f"fetching {self._partition} at {self.position}"
        raise_for(response.error_code, where)
        ((_, row),) = fetched_partitions(response)
        raise_for(row.error_code, where + missing_acl(ErrorCode(row.error_code), READ))
        return row

    def _is_stuck(self) -> bool:
        return self._clock.monotonic_ms() - self._progress_at_ms >= self._poll_timeout_ms

    def _give_up(self) -> None:
        """End the range, of which no record arrived for ``poll_timeout_ms``.

        If the log ends before the planned end, this is a data loss. Otherwise the leader has the
        records and does not send them: raises KafkaError REQUEST_TIMED_OUT."""
        what = (
            f"{self._partition}: no record at offset {self.position} or later arrived for "
            f"{self._poll_timeout_ms} ms, but the planned end is {self._range.end}"
        )
        end = self._cluster.list_offsets({self._partition: LATEST})[self._partition]
        if end > self.position:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, what)
        self._lost(f"{what}, and the log ends at {end}")
        self.position = self._range.end

    def _skip_what_is_gone(self) -> None:
        first = self._cluster.list_offsets({self._partition: EARLIEST})[self._partition]
        if first > self.position:
            self._lost(f"{self._partition}: offsets {self.position} to {first - 1} are gone")
            self.position = min(first, self._range.end)
            # The batch with the first offset may have deleted records before it.
            self._slice = replace(self._slice, start=first)
        else:
            self._lost(f"{self._partition} ends before offset {self.position}")
            self.position = self._range.end

    def _lost(self, what: str, advice: str = ADVICE_FAIL) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{what}. {advice}")
        print_to_stderr(f"data loss: {what}")
