"""Reads a planned range of offsets of one partition: fetches and decodes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from minikafka.core.client.calls import raise_for
from minikafka.core.client.cluster_view import ClusterView
from minikafka.core.client.consumer.fetch_request import (
    FETCH_VERSION,
    FetchLimits,
    FetchPosition,
    fetch_request,
    fetched_partitions,
    is_fetched_again,
)
from minikafka.kernel.cluster import NO_EPOCH
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.fetch import FetchRequest, PartitionData
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.connection import BlockingConnection
from minikafka.spark.read.decode import Slice, decode_to_arrow, next_offset
from minikafka.spark.read.offsets import EARLIEST, LATEST
from minikafka.spark.read.planning import ADVICE_FAIL, DataLossError, OffsetRange
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    import pyarrow as pa


class RangeReader:
    """Reads one range, once. While a fetched buffer is decoded, the next fetch is in flight.

    All offsets of a range existed when it was planned. If some are gone (records were deleted, or
    the topic was deleted or truncated), that is a DataLossError; with ``fail_on_data_loss`` False
    they are skipped. A range that makes no progress for ``poll_timeout_ms`` fails, too.
    """

    def __init__(
        self,
        cluster: Cluster,
        wanted: OffsetRange,
        fail_on_data_loss: bool = True,
        poll_timeout_ms: int = 120_000,
    ) -> None:
        self.position = wanted.start
        self._cluster = cluster
        self._wanted = wanted
        self._partition = wanted.topic_partition
        self._slice = Slice(*wanted)
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
        self._clock = WallClock()
        self._progress_at_ms = 0
        self._failures = 0  # since then

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range. Raises DataLossError, KafkaError."""
        self._progress_at_ms = self._clock.monotonic_ms()
        while self.position < self._wanted.end:
            leader = self._leader()
            if leader is None:
                self._lost(f"{self._partition} was deleted")
                return
            try:
                with closing(self._cluster.new_connection(leader)) as connection:
                    yield from self._read_from(connection, schema)
            except KafkaError as error:
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._skip_what_is_gone()
                elif is_fetched_again(error.code) and not self._is_stuck():
                    self._cluster.topics.pop(self._partition.topic, None)
                    pause(self._cluster.backoff_ms(self._failures))
                    self._failures += 1
                else:
                    raise

    def _leader(self) -> int | None:
        """Return the leader's broker id; None for a partition that does not exist."""
        try:
            return self._cluster.retrying(
                lambda: self._cluster.leader(self._partition), f"reading {self._partition}"
            )
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

    def _read_from(
        self, connection: BlockingConnection, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        connection.send(self._request(), FETCH_VERSION)
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
            done = following >= self._wanted.end
            if not done:
                connection.send(self._request(), FETCH_VERSION)
            aborted = [(each.producer_id, each.first_offset)
                       for each in data.aborted_transactions or ()]  # fmt: skip
            for rows in decode_to_arrow(
                records, self._slice, schema, aborted, self._cluster.options.check_crcs
            ):
                yield rows
                self._progress_at_ms = self._clock.monotonic_ms()  # Spark may have taken its time
            if done:
                return

    def _request(self) -> FetchRequest:
        known = ClusterView(topics=self._cluster.topics).partition(self._partition)
        epoch = NO_EPOCH if known is None else known.leader_epoch
        position = FetchPosition(epoch, self.position)
        return fetch_request(self._limits, [(self._partition, position)])

    def _receive(self, connection: BlockingConnection) -> PartitionData:
        """Return the row of the partition. Raises KafkaError."""
        response = connection.receive()
        where = f"fetching {self._partition} at {self.position}"
        raise_for(response.error_code, where)
        ((_, row),) = fetched_partitions(response)
        raise_for(row.error_code, where)
        return row

    def _is_stuck(self) -> bool:
        return self._clock.monotonic_ms() - self._progress_at_ms >= self._poll_timeout_ms

    def _give_up(self) -> None:
        """End without records: the log ends before the planned end, or its broker sends nothing."""
        what = (
            f"{self._partition}: nothing came of offset {self.position} for "
            f"{self._poll_timeout_ms} ms, planned were those below {self._wanted.end}"
        )
        end = self._cluster.list_offsets({self._partition: LATEST})[self._partition]
        if end > self.position:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, what)
        self._lost(f"{what}, and the log ends at {end}")
        self.position = self._wanted.end

    def _skip_what_is_gone(self) -> None:
        first = self._cluster.list_offsets({self._partition: EARLIEST})[self._partition]
        if first > self.position:
            self._lost(f"{self._partition}: offsets {self.position} to {first - 1} are gone")
            self.position = min(first, self._wanted.end)
            # its batch may still hold older records
            self._slice = replace(self._slice, start=first)
        else:
            self._lost(f"{self._partition} ends before offset {self.position}")
            self.position = self._wanted.end

    def _lost(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{what}. {ADVICE_FAIL}")
