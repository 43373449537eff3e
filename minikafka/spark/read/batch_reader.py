"""The reader of batch queries: ``spark.read``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.cluster import Cluster, kept_cluster
from minikafka.spark.gc_tuning import spare_the_collector
from minikafka.spark.options import ReadOptions
from minikafka.spark.read.fetching import RangeReader
from minikafka.spark.read.offsets import LARGEST
from minikafka.spark.read.planning import (
    OffsetRange,
    batch_ranges,
    small_ranges_together,
    split_ranges,
)
from minikafka.spark.spark_api import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
    to_arrow_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from minikafka.spark.read.offline import SegmentRange

_ADVICE_NULL = 'Set the option "failOnTimestampOverflow" to "false" to read null instead.'


class RangePartition(InputPartition):
    """The ranges of offsets that one task reads."""

    def __init__(self, ranges: Sequence[OffsetRange] | Sequence[SegmentRange]) -> None:
        super().__init__(list(ranges))


def tasks_of(ranges: Sequence[OffsetRange], options: ReadOptions) -> list[InputPartition]:
    """Return a partition for each task that reads some of ``ranges``.

    The result depends on nothing else, so that the tasks of a repeated batch read the same."""
    pieces = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    if options.min_partitions is not None:
        return [RangePartition([each]) for each in pieces]
    groups = small_ranges_together(pieces, options.max_records_per_partition)
    return [RangePartition(each) for each in groups]


def read_range(
    schema: StructType, options: ReadOptions, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task's ranges as Arrow batches.

    If a query has no ranges, Spark runs one task with the value None, which yields nothing. Raises
    DataLossError, KafkaError; for a range of a file OSError, CorruptRecordError."""
    if partition.value is None:
        return
    arrow_schema = to_arrow_schema(schema)
    try:
        for each in partition.value:
            yield from _read(each, arrow_schema, options)
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_TIMESTAMP:
            raise
        raise KafkaError(error.code, f"{error.message}. {_ADVICE_NULL}") from None
    spare_the_collector()


def _read(
    wanted: OffsetRange | SegmentRange, schema: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    if isinstance(wanted, OffsetRange):
        reader = RangeReader(
            kept_cluster(options.client),
            wanted,
            options.fail_on_data_loss,
            options.poll_timeout_ms,
            not options.fail_on_timestamp_overflow,
        )
        yield from reader.read(schema)
    else:
        from minikafka.spark.read.offline import read_segment

        yield from read_segment(wanted, schema, options)


def batch_reader(schema: StructType, options: ReadOptions) -> DataSourceReader:
    """Return the reader of a batch query, which pushes filters down if the option ``pushdown`` is
    true.

    It is an option because Spark refuses a reader with this ability unless the session sets
    ``spark.sql.python.filterPushdown.enabled``."""
    for note in options.notes:
        warnings.warn(note, stacklevel=2)
    pushdown = options.pushdown and options.path is None
    return (PushdownReader if pushdown else BatchReader)(schema, options)


class BatchReader(DataSourceReader):
    """Plans offset ranges on the driver and reads each of them in a task."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.path is not None:
            from minikafka.spark.read.offline import segment_ranges

            return [
                RangePartition([each])
                for each in segment_ranges(Path(self._options.path), self._options)
            ]
        with Cluster(self._options.client) as cluster:
            return tasks_of(self._ranges(cluster), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(self._schema, self._options, partition)

    def _ranges(self, cluster: Cluster) -> list[OffsetRange]:
        return batch_ranges(cluster, self._options)


class PushdownReader(BatchReader):
    """A reader that applies filters on ``offset`` and ``partition`` when it plans the ranges.

    Spark applies all other filters to the rows that it gets."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        super().__init__(schema, options)
        self._first = 0
        self._end = LARGEST
        self._partition: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return [each for each in filters if not self._take(each)]

    def _take(self, given: Filter) -> bool:
        name = ".".join(getattr(given, "attribute", ()))
        value: Any = getattr(given, "value", None)
        if name not in ("offset", "partition") or not isinstance(value, int):
            return False
        match given:
            case EqualTo() if name == "partition":
                if self._partition not in (None, value):
                    self._end = 0  # no row is in two partitions
                self._partition = value
            case EqualTo():
                self._narrow(value, value + 1)
            case GreaterThan() if name == "offset":
                self._narrow(value + 1, LARGEST)
            case GreaterThanOrEqual() if name == "offset":
                self._narrow(value, LARGEST)
            case LessThan() if name == "offset":
                self._narrow(0, value)
            case LessThanOrEqual() if name == "offset":
                self._narrow(0, value + 1)
            case _:
                return False
        return True

    def _narrow(self, first: int, end: int) -> None:
        self._first = max(self._first, first)
        self._end = min(self._end, end)

    def _ranges(self, cluster: Cluster) -> list[OffsetRange]:
        return [
            each._replace(start=max(each.start, self._first), end=min(each.end, self._end))
            for each in super()._ranges(cluster)
            if self._partition in (None, each.partition)
            and max(each.start, self._first) < min(each.end, self._end)
        ]
