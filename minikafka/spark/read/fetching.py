"""Reads a planned range of one partition: fetch, decode, exactly the offsets that were planned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from minikafka.core.client.errors import STALE_METADATA
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.connection import Connection
from minikafka.spark.read.decode import Slice, decode_to_arrow, next_offset
from minikafka.spark.read.offsets import EARLIEST, LATEST
from minikafka.spark.read.planning import ADVICE_FAIL, DataLossError, OffsetRange
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    import pyarrow as pa

_HIGHEST_BY_NAME: Final = 12  # later versions name topics by their ids


class RangeReader:
    """Use once. While a fetched buffer is decoded, the next fetch is on its way already.

    A planned range holds offsets that were there when it was planned. If some are gone (log start
    moved on, topic deleted or cut) that is a loss: DataLossError, or with ``fail_on_data_loss``
    false they are passed over. A range that makes no progress for ``poll_timeout_ms`` fails too.
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
        self._fail_on_data_loss = fail_on_data_loss
        self._poll_timeout_ms = poll_timeout_ms
        self._clock = WallClock()
        self._progress_at_ms = 0

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Raises DataLossError, KafkaError."""
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
                elif error.code in STALE_METADATA and not self._is_stuck():
                    self._cluster.topics.pop(self._partition.topic, None)
                    pause(self._cluster.options.retry_backoff_ms)
                else:
                    raise

    def _leader(self) -> int | None:
        """None when the partition is not there, and does not come."""
        try:
            return self._cluster.retrying(
                lambda: self._cluster.leader(self._partition), f"reading {self._partition}"
            )
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            raise

    def _read_from(self, connection: Connection, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        connection.send(self._request(), _HIGHEST_BY_NAME)
        while True:
            data = self._answer(connection)
            records = data.records if data.records is not None else memoryview(b"")
            following = next_offset(records, self.position)
            if following > self.position:
                self._progress_at_ms = self._clock.monotonic_ms()
            elif self._is_stuck():
                self._give_up()
                return
            self.position = following
            done = following >= self._wanted.end
            if not done:
                connection.send(self._request(), _HIGHEST_BY_NAME)
            aborted = [(each.producer_id, each.first_offset)
                       for each in data.aborted_transactions or ()]  # fmt: skip
            for rows in decode_to_arrow(
                records, self._slice, schema, aborted, self._cluster.options.check_crcs
            ):
                yield rows
                self._progress_at_ms = self._clock.monotonic_ms()  # Spark may have let us wait
            if done:
                return

    def _request(self) -> FetchRequest:
        options = self._cluster.options
        partition = FetchPartition(
            partition=self._partition.partition,
            fetch_offset=self.position,
            partition_max_bytes=options.max_partition_fetch_bytes,
        )
        return FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_wait_ms=options.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=options.fetch_max_bytes,
            isolation_level=int(options.read_committed),
            topics=[FetchTopic(topic=self._partition.topic, partitions=[partition])],
        )

    def _answer(self, connection: Connection) -> PartitionData:
        answer = connection.receive()
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            data: PartitionData = answer.responses[0].partitions[0]
            code = ErrorCode(data.error_code)
            if code is ErrorCode.NONE:
                return data
        raise KafkaError(code, f"fetching {self._partition} at {self.position}")

    def _is_stuck(self) -> bool:
        return self._clock.monotonic_ms() - self._progress_at_ms >= self._poll_timeout_ms

    def _give_up(self) -> None:
        """Nothing comes: the log ends here, or its broker does not tell."""
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
            self._slice = replace(self._slice, start=first)  # its batch may hold older ones still
        else:
            self._lost(f"{self._partition} ends before offset {self.position}")
            self.position = self._wanted.end

    def _lost(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{what}. {ADVICE_FAIL}")
