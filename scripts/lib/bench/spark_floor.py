"""A Spark data source whose batches are ready-made: what Spark's border to Python takes at best.

Nothing is fetched and nothing decoded: each task sends the same Arrow batch again and again. It
has the columns of a topic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

PARTITIONS = 4
ROWS = 20_000  # of an Arrow batch, or fewer if they take more than 16 MB
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)


def register_floor(spark: Any) -> None:
    """Add the format ``ready`` to a session, by value: its processes need not find this module."""
    register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(Ready)


class Ready(DataSource):
    """Options: ``size`` (bytes of a value), ``count`` (records in all), and in a stream ``limit``
    (records of a batch)."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> Any:
        return Reader(self.options)

    streamReader = reader


class Reader(DataSourceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of a batch query and of a stream."""

    def __init__(self, options: Any) -> None:
        self.size, self.count = int(options["size"]), int(options["count"])
        self.limit = int(options["limit"])

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """The end is the same in any case."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return {"at": min(self.count, start["at"] + self.limit)}

    def partitions(self, *bounds: dict[str, Any]) -> list[InputPartition]:
        """``bounds`` are the offsets of a batch of a stream; a batch query has none."""
        begin, end = (each["at"] for each in bounds) if bounds else (0, self.count)
        share = (end - begin) // PARTITIONS
        return [InputPartition((n, share)) for n in range(PARTITIONS)] if share else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return ready_batches(self.size, *partition.value)


def ready_batches(size: int, number: int, left: int) -> Iterator[Any]:
    import pyarrow as pa

    rows = min(ROWS, 16_000_000 // size, left)
    columns = {
        "key": pa.array([b"%08d" % n for n in range(rows)], pa.binary()),
        "value": pa.array([bytes(size)] * rows, pa.binary()),
        "topic": pa.array(["topic"] * rows, pa.string()),
        "partition": pa.array([number] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([1] * rows, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    batch = pa.record_batch(columns)
    while left > 0:
        yield batch.slice(0, min(rows, left))
        left -= rows
