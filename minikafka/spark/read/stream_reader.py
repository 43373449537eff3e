"""The reader of streaming queries: ``spark.readStream``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.cluster import Cluster, pause
from minikafka.spark.failure_text import print_to_stderr
from minikafka.spark.group_commits import GroupCommits
from minikafka.spark.option_parsing import OptionError
from minikafka.spark.options import ReadOptions
from minikafka.spark.read.batch_reader import read_range, tasks_of
from minikafka.spark.read.offsets import (
    EARLIEST,
    LATEST,
    UNRESOLVED_START,
    Offsets,
    TopicIds,
    is_unresolved,
    offsets_json,
    offsets_of,
    start_in,
    topic_ids_in,
    with_remarks,
    with_start,
    with_topic_ids,
)
from minikafka.spark.read.planning import (
    ADVICE_FAIL,
    ADVICE_RECREATED,
    DataLossError,
    check_start_within,
    may_start_at_latest,
    new_records,
    plan_ranges,
    rate_limit,
    starting_offsets,
    without_recreated,
)
from minikafka.spark.spark_api import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_METADATA_MAX_AGE_MS = 1000  # partitions and topics that are new are seen so soon
_POLL_MS = 50  # with no trigger interval Spark asks for news every few milliseconds


class StartUnknownError(RuntimeError):
    """The checkpoint does not have the starting offsets of the query's first batch."""


class _Latest(NamedTuple):
    """The latest offset of each partition, and the ids of the topics.

    The ids are looked up before the offsets, so an id is never newer than its offsets. If a topic
    is created again between the two requests, the tasks notice."""

    offsets: Offsets
    topic_ids: TopicIds


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads the batches of a query. Spark keeps one reader in one process while the query
    runs, so connections and metadata are kept between batches.

    Spark calls ``initialOffset`` when it plans the first batch, and again when it repeats that
    batch after a crash. The result must not depend on the time of the call, so ``initialOffset``
    returns a constant. ``latestOffset`` resolves the starting offsets and returns them within the
    end offset of the first batch, which Spark writes to ``<checkpoint>/offsets/0`` before the batch
    runs: that write decides where the query starts.

    Each end offset has the ids of its topics. A topic with another id than in the offset before was
    deleted and created again: a data loss. If the query goes on, its partitions are new, and are
    read from their earliest offsets."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._cluster = Cluster(options.client)
        self._group: GroupCommits | None = None
        if options.group is not None:
            self._group = GroupCommits(options.client, options.group)
        self._clock = WallClock()
        self._available_now = False
        self._end_of_available_now: _Latest | None = None
        self._latest = _Latest({}, {})
        self._losses: list[str] = []  # for the progress of the next batch
        self._partitions: list[TopicPartition] = []
        self._topic_ids: TopicIds = {}  # of the partitions
        self._partitions_at_ms: int | None = None
        self._triggered_at_ms: int | None = None

    # ---- called by Spark on the driver

    def initialOffset(self) -> dict[str, Any]:
        return dict(UNRESOLVED_START)

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if not self._latest.offsets:
            return None
        failure = None if self._group is None else self._group.failure
        return with_remarks(self._latest.offsets, [*self._losses, *([failure] if failure else ())])

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if is_unresolved(start):
            return self._end_of_first_batch(limit)
        known = topic_ids_in(start)
        begin = self._update_latest(offsets_of(start), known)
        if self._group is not None:
            # Spark plans a batch when the one before is done: all up to ``begin`` is processed.
            latest = self._latest.offsets
            self._group.commit({each: at for each, at in begin.items() if each in latest})
        if self._is_too_early(begin):
            return start
        end, topic_ids = self._limited(begin, limit), self._latest.topic_ids
        if end == begin and topic_ids == known:
            return start
        return with_topic_ids(offsets_json(end), topic_ids)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        until, topic_ids = offsets_of(end), topic_ids_in(end)
        begin = self._start_of_first_batch(end) if is_unresolved(start) else offsets_of(start)
        begin, recreated = without_recreated(begin, topic_ids_in(start), topic_ids)
        self._check_losses(recreated, ADVICE_RECREATED)
        plan = plan_ranges(begin, until, self._earliest_of_new(begin, until), topic_ids)
        self._check_losses(plan.losses, ADVICE_FAIL)
        self._losses = plan.losses
        for loss in (*recreated, *plan.losses):
            print_to_stderr(f"data loss: {loss}")
        return tasks_of(plan.ranges, options)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: offsets are kept in Spark's checkpoint. ``latestOffset`` has committed those
        of ``end`` to the group, because Spark calls this method only when the next batch, which
        may never come, has been planned."""

    def stop(self) -> None:
        self._cluster.close()
        if self._group is not None:
            self._group.close()

    # ---- in tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._schema, self._options, partition)

    # ---- the first batch

    def _end_of_first_batch(self, limit: ReadLimit) -> dict[str, Any]:
        """Return the end offset of the first batch, with the starting offsets in it.

        Raises ValueError, before anything is in the checkpoint, for a start beyond the end."""
        partitions = self._cluster.partitions(self._options.subscription)
        topic_ids = self._cluster.topic_ids({each.topic for each in partitions})
        begin = self._update_latest(self._resolve_start(partitions), topic_ids)
        if self._options.fail_on_data_loss:
            check_start_within(begin, self._latest.offsets)
        self._triggered_at_ms = self._clock.monotonic_ms()
        end = with_start(self._limited(begin, limit), begin)
        return with_topic_ids(end, self._latest.topic_ids)

    def _start_of_first_batch(self, end: Mapping[str, Any]) -> Offsets:
        """Return where the first batch starts; ``end`` is its end offset in the checkpoint.

        If another connector planned that batch, ``end`` does not hold the start. Offsets, times
        and "earliest" are resolved again then. Raises StartUnknownError for "latest"."""
        start = start_in(end)
        if start is not None:
            return start
        if may_start_at_latest(self._options):
            raise StartUnknownError(
                "the first batch of this checkpoint was planned by another connector, which "
                "did not store where it starts in the offset log, and startingOffsets is latest: "
                "let that connector finish the batch, or set startingOffsets to the offsets in "
                "<checkpoint>/sources/<number>/0"
            )
        return self._resolve_start(sorted(offsets_of(end)))

    def _resolve_start(self, partitions: Sequence[TopicPartition]) -> Offsets:
        return starting_offsets(self._cluster, self._options, partitions)

    def _limited(self, begin: Offsets, limit: ReadLimit) -> Offsets:
        """Return the end offsets of the next batch: the latest ones, or lower ones if ``limit``
        is smaller."""
        latest = self._latest.offsets
        if isinstance(limit, ReadMaxRows):
            return rate_limit(limit.max_rows, begin, latest, self._earliest_of_new(begin, latest))
        return latest

    # ---- the cluster

    def _update_latest(self, start: Offsets, known: TopicIds) -> Offsets:
        """Update ``_latest``, and return ``start`` without topics that were created again since
        they had the ``known`` ids.

        Raises KafkaError; DataLossError for such topics if ``failOnDataLoss`` is true."""
        if not self._available_now:
            self._latest = self._look_up_latest(start, known)
            if self._latest.offsets == start:
                pause(_POLL_MS)
                self._latest = self._look_up_latest(start, known)
        elif self._end_of_available_now is None:
            self._latest = self._end_of_available_now = self._look_up_latest(start, known)
        begin, recreated = without_recreated(start, known, self._latest.topic_ids)
        self._check_losses(recreated, ADVICE_RECREATED)
        self._losses += [each for each in recreated if each not in self._losses]
        return begin

    def _look_up_latest(self, begin: Mapping[TopicPartition, int], known: TopicIds) -> _Latest:
        """Look up the latest offsets of all partitions. Raises KafkaError.

        Repeat this, ``fetchOffset.numRetries`` times in all, if a latest offset is below what was
        read, because a new leader may lag behind, or if a topic was deleted meanwhile."""
        last = max(1, self._options.fetch_retries) - 1
        for attempt in range(last + 1):
            partitions = self._current_partitions(begin, known)
            try:
                latest = self._cluster.list_offsets(
                    dict.fromkeys(partitions, LATEST), missing_is_final=attempt < last
                )
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempt == last:
                    raise
            else:
                if all(latest[each] >= begin.get(each, 0) for each in partitions):
                    break
            self._partitions_at_ms = None
            pause(self._options.fetch_retry_interval_ms)
        topics = {each.topic for each in latest}
        topic_ids = {**known, **self._topic_ids}  # keep ids if brokers before 2.8 respond
        return _Latest(latest, {name: i for name, i in topic_ids.items() if name in topics})

    def _current_partitions(
        self, begin: Iterable[TopicPartition], known: TopicIds
    ) -> list[TopicPartition]:
        now_ms = self._clock.monotonic_ms()
        looked_up_ms = self._partitions_at_ms
        if looked_up_ms is None or now_ms - looked_up_ms >= _METADATA_MAX_AGE_MS:
            self._cluster.topics.clear()
            self._partitions = self._cluster.partitions_there(
                self._options.subscription, begin, known
            )
            self._topic_ids = self._cluster.topic_ids({each.topic for each in self._partitions})
            self._partitions_at_ms = now_ms
        return self._partitions

    def _check_losses(self, losses: Sequence[str], advice: str) -> None:
        """Raise DataLossError for losses if ``failOnDataLoss`` is true."""
        if losses and self._options.fail_on_data_loss:
            raise DataLossError(f"{'; '.join(losses)}. {advice}")

    def _earliest_of_new(
        self, begin: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]
    ) -> Offsets:
        new = until.keys() - begin.keys()
        if not new:
            return {}
        there = new & set(self._cluster.partitions_there(self._options.subscription, new))
        return self._cluster.list_offsets(dict.fromkeys(sorted(there), EARLIEST)) if there else {}

    def _is_too_early(self, begin: Mapping[TopicPartition, int]) -> bool:
        """Return whether to wait for more records before the next batch.

        That is so if fewer than ``minOffsetsPerTrigger`` offsets are new and the last batch was
        planned less than ``maxTriggerDelay`` ago."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._available_now:
            return False
        now_ms = self._clock.monotonic_ms()
        last_ms = self._triggered_at_ms
        overdue = last_ms is None or now_ms - last_ms >= self._options.max_trigger_delay_ms
        if not overdue and new_records(begin, self._latest.offsets) < least:
            return True
        self._triggered_at_ms = now_ms
        return False


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a query with invalid options: every method that Spark calls raises ``error``.

    In PySpark 4.3 ``DataSource.streamReader`` must not raise: PySpark would then call ``stop`` on
    an unassigned variable, and the user would see an UnboundLocalError last."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def getDefaultReadLimit(self) -> NoReturn:
        raise self._error

    def prepareForTriggerAvailableNow(self) -> NoReturn:
        raise self._error

    def reportLatestOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        raise self._error
