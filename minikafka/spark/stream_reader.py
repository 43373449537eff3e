"""Reads topics for ever: ``spark.readStream``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.batch_reader import RangePartition, read_range
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.offsets import EARLIEST, LATEST, Offsets, offsets_json, offsets_of
from minikafka.spark.options import ReadOptions
from minikafka.spark.planning import (
    ADVICE_FAIL,
    DataLossError,
    new_records,
    plan_ranges,
    rate_limit,
    split_ranges,
)
from minikafka.spark.resolving import resolve
from minikafka.world.real.clock import RealClock

if TYPE_CHECKING:
    from uuid import UUID

    import pyarrow as pa
    from pyspark.sql.types import StructType

_METADATA_MAX_AGE_MS = 1000  # partitions and topics that are new are seen so soon
_POLL_MS = 50  # with no trigger interval Spark asks for news every few milliseconds


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark keeps one of these in one process for as long as a query runs, so that connections and
    what is known of the cluster stay here between batches.

    Spark does not journal what ``initialOffset`` says until the first batch is planned: if that
    batch failed, a restart would ask again, and "latest" would have moved on. So the first batch of
    a new query is an empty one that pins the start."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._cluster = Cluster(options.client)
        self._clock = RealClock()
        self._initial: dict[str, Any] | None = None
        self._pin = False
        self._available_now = False
        self._end_of_available_now: Offsets | None = None
        self._latest: Offsets = {}
        self._topic_ids: dict[str, UUID] = {}
        self._partitions: list[TopicPartition] = []
        self._partitions_at_ms: int | None = None
        self._triggered_at_ms: int | None = None

    # ---- what Spark calls on the driver

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:  # Spark asks twice
            partitions = self._cluster.partitions(self._options.subscription)
            options = self._options
            found = resolve(
                self._cluster, options.starting, partitions, True, options.no_match_is_latest
            )
            self._initial = offsets_json(found)
            self._pin = True
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return offsets_json(self._latest) if self._latest else None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._pin:
            self._pin = False
            return start
        begin = offsets_of(start)
        self._latest = self._find_latest(begin)
        if self._is_too_early(begin):
            return start
        end = self._latest
        if isinstance(limit, ReadMaxRows):
            end = rate_limit(limit.max_rows, begin, end, self._earliest_of_new(begin, end))
        return start if end == begin else offsets_json(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        begin, until = offsets_of(start), offsets_of(end)
        plan = plan_ranges(begin, until, self._earliest_of_new(begin, until))
        if plan.losses and options.fail_on_data_loss:
            raise DataLossError(f"{'; '.join(plan.losses)}. {ADVICE_FAIL}")
        ranges = split_ranges(
            plan.ranges, options.min_partitions, options.max_records_per_partition
        )
        return [RangePartition(each) for each in ranges]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint is what counts."""

    def stop(self) -> None:
        self._cluster.close()

    # ---- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._schema, self._options, partition)

    # ---- the cluster

    def _find_latest(self, begin: Mapping[TopicPartition, int]) -> Offsets:
        if self._available_now:
            if self._end_of_available_now is None:
                self._end_of_available_now = self._ask_latest(begin)
            return self._end_of_available_now
        latest = self._ask_latest(begin)
        if latest == begin:
            pause(_POLL_MS)
            latest = self._ask_latest(begin)
        return latest

    def _ask_latest(self, begin: Mapping[TopicPartition, int]) -> Offsets:
        """Asked again where an end is below what was read, for a broker may lag behind, and where
        a topic was deleted since its partitions were asked for."""
        last = max(1, self._options.fetch_retries) - 1
        for attempt in range(last + 1):
            partitions = self._current_partitions(begin)
            try:
                latest = self._cluster.list_offsets(
                    dict.fromkeys(partitions, LATEST), missing_is_final=attempt < last
                )
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempt == last:
                    raise
                self._partitions_at_ms = None
            else:
                if all(latest[each] >= begin.get(each, 0) for each in partitions):
                    break
            pause(self._options.fetch_retry_interval_ms)
        return latest

    def _current_partitions(self, begin: Iterable[TopicPartition]) -> list[TopicPartition]:
        now_ms = self._clock.monotonic_ms()
        asked_at_ms = self._partitions_at_ms
        if asked_at_ms is None or now_ms - asked_at_ms >= _METADATA_MAX_AGE_MS:
            self._cluster.topics.clear()
            self._partitions = self._cluster.partitions_there(self._options.subscription, begin)
            self._partitions_at_ms = now_ms
            self._check_topic_ids()
        return self._partitions

    def _check_topic_ids(self) -> None:
        """A topic of the same name may be another one, with other records at the same offsets."""
        for name, view in self._cluster.topics.items():
            known = self._topic_ids.setdefault(name, view.topic_id)
            if known != view.topic_id and ZERO_UUID not in (known, view.topic_id):
                self._topic_ids[name] = view.topic_id
                if self._options.fail_on_data_loss:
                    raise DataLossError(f"topic {name} was deleted and made again. {ADVICE_FAIL}")

    def _earliest_of_new(
        self, begin: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]
    ) -> Offsets:
        new = until.keys() - begin.keys()
        if not new:
            return {}
        there = new & set(self._cluster.partitions_there(self._options.subscription, new))
        return self._cluster.list_offsets(dict.fromkeys(sorted(there), EARLIEST)) if there else {}

    def _is_too_early(self, begin: Mapping[TopicPartition, int]) -> bool:
        """Fewer than ``minOffsetsPerTrigger`` wait, and not for long yet."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._available_now:
            return False
        now_ms = self._clock.monotonic_ms()
        last_ms = self._triggered_at_ms
        overdue = last_ms is None or now_ms - last_ms >= self._options.max_trigger_delay_ms
        if not overdue and new_records(begin, self._latest) < least:
            return True
        self._triggered_at_ms = now_ms
        return False
