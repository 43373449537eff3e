"""The parts of PySpark's data source API that some of its versions, from 4.0 on, do not have.

The data source is written for the newest API. What the installed PySpark lacks is found by looking
for its name, and is adapted, replaced or refused here; no other module looks at the version:

- 4.0 and 4.1 do not pass the start of a batch to ``latestOffset`` (``BlindStreamReader``);
- 4.0 passes rows, not Arrow batches, to the sink of a stream (``RowStreamWriter``), does not push
  filters down, and has no functions of Arrow arrays."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyspark

try:
    from pyspark.sql import datasource
except ImportError:
    raise ImportError(
        f"minikafka needs PySpark 4.0 or newer: this is {pyspark.__version__}"
    ) from None
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter

from minikafka.spark.option_parsing import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from minikafka.spark.options import ReadOptions

__all__ = [
    "DataSourceStreamArrowWriter",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]

_ROWS: Final = 10_000  # in an Arrow batch made of rows


class SparkTooOldError(RuntimeError):
    """The installed PySpark lacks what a function needs. The message says which one has it."""


@dataclass(frozen=True)
class _ReadAllAvailable:
    """Stands for the read limit of a query whose PySpark has none."""


@dataclass(frozen=True)
class _ReadMaxRows:
    max_rows: int


class _AbsentFilter:
    """Stands for a class of filters that PySpark lacks, and never passes."""


def _read_limits() -> Any:
    """Return PySpark's module of read limits, None before 4.2."""
    try:
        return importlib.import_module("pyspark.sql.streaming.datasource")
    except ModuleNotFoundError:
        return None


_LIMITS: Final = _read_limits()
_ARROW_STREAMS: Final = hasattr(datasource, "DataSourceStreamArrowWriter")

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamArrowWriter,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:
    ReadLimit = getattr(_LIMITS, "ReadLimit", object)
    ReadAllAvailable = getattr(_LIMITS, "ReadAllAvailable", _ReadAllAvailable)
    ReadMaxRows = getattr(_LIMITS, "ReadMaxRows", _ReadMaxRows)
    SupportsTriggerAvailableNow = getattr(_LIMITS, "SupportsTriggerAvailableNow", object)
    Filter = getattr(datasource, "Filter", _AbsentFilter)
    EqualTo = getattr(datasource, "EqualTo", _AbsentFilter)
    GreaterThan = getattr(datasource, "GreaterThan", _AbsentFilter)
    GreaterThanOrEqual = getattr(datasource, "GreaterThanOrEqual", _AbsentFilter)
    LessThan = getattr(datasource, "LessThan", _AbsentFilter)
    LessThanOrEqual = getattr(datasource, "LessThanOrEqual", _AbsentFilter)
    DataSourceStreamArrowWriter = getattr(
        datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter
    )


def arrow_udf() -> Callable[..., Any]:
    """Return PySpark's ``arrow_udf``. Raises SparkTooOldError."""
    functions = importlib.import_module("pyspark.sql.pandas.functions")
    found: Callable[..., Any] | None = getattr(functions, "arrow_udf", None)
    if found is None:
        raise SparkTooOldError(
            f"columns of a schema registry need PySpark 4.1 or newer, for its functions of Arrow "
            f"arrays; this is {pyspark.__version__}"
        )
    return found


def check_read_limits(options: ReadOptions) -> None:
    """Raise OptionError for limits that this PySpark gives a data source no means to keep."""
    if _LIMITS is not None:
        return
    for name, limit in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
    ):
        if limit is not None:
            raise OptionError(
                f"{name} needs PySpark 4.2 or newer: {pyspark.__version__} does not tell a data "
                "source in Python where a batch starts"
            )


def adapted_reader(reader: Any) -> DataSourceStreamReader:
    """Return the reader of a stream in the form that this PySpark calls."""
    return reader if _LIMITS is not None else BlindStreamReader(reader)


def adapted_writer(writer: Any, schema: Any) -> DataSourceStreamWriter:
    """Return the writer of a stream, for Arrow batches, in the form that this PySpark calls."""
    return writer if _ARROW_STREAMS else RowStreamWriter(writer, schema)


class BlindStreamReader(DataSourceStreamReader):
    """Calls a reader as PySpark 4.2 does, where PySpark calls ``latestOffset`` without arguments.

    That call is the first one, of a new query and of one that continues. So each first batch after
    a start of the query has the starting offsets in its end offset, as if the query were new, and
    is run even if there is nothing to read. Spark passes them to ``partitions`` for a new query
    only."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._last: Mapping[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        initial: dict[str, Any] = self._reader.initialOffset()
        return initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        start = self._reader.initialOffset() if self._last is None else self._last
        end: dict[str, Any] = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        self._last = end
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        if self._last is None:
            self._last = end  # of a batch that is repeated after a restart
        planned: Sequence[Any] = self._reader.partitions(start, end)
        return planned

    def read(self, partition: Any) -> Iterator[Any]:
        rows: Iterator[Any] = self._reader.read(partition)
        return rows

    def commit(self, end: dict[str, Any]) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


class RowStreamWriter(DataSourceStreamWriter):
    """Passes the rows of a stream to a writer that takes Arrow batches."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> Any:
        return self._writer.write(batches_of(iterator, self._schema))

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._writer.abort(messages, batchId)


def batches_of(rows: Iterator[Any], schema: Any) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of the rows of a DataFrame with this schema."""
    import pyarrow as pa

    arrow_schema = to_arrow_schema(schema)
    while chunk := [row.asDict(recursive=True) for row in islice(rows, _ROWS)]:
        yield pa.RecordBatch.from_pylist(chunk, schema=arrow_schema)


def to_arrow_schema(schema: Any) -> pa.Schema:
    """Return the Arrow schema of a DataFrame's schema, with timestamps in UTC.

    Before 4.2, PySpark's function has no argument for the time zone, which is UTC always."""
    convert = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
    has_zone = "timezone" in inspect.signature(convert).parameters
    return convert(schema, timezone="UTC") if has_zone else convert(schema)


def settings_of_version() -> dict[str, str]:
    """Return the settings of local sessions that this PySpark needs besides those of the newest.

    Before 4.2 a data source in Python cannot say that it supports the trigger ``availableNow``.
    Spark would run a single batch, which may be one that it repeats, unless it wraps the source.
    Spark 4.1 renamed the package of the class for checkpoints on local disks."""
    settings = {}
    if _LIMITS is None:
        settings["spark.sql.streaming.triggerAvailableNowWrapper.enabled"] = "true"
    if pyspark.__version__.startswith("4.0."):
        streaming = "org.apache.spark.sql.execution.streaming"
        manager = f"{streaming}.FileSystemBasedCheckpointFileManager"
        settings["spark.sql.streaming.checkpointFileManagerClass"] = manager
    return settings
