"""Streams with wrong options: the error is the last thing that PySpark raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from minikafka.spark.option_parsing import OptionError
from minikafka.spark.read.stream_reader import StreamReader
from minikafka.spark.source import DefaultSource

pytestmark = pytest.mark.mission("SPK-2")

BASE = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
VALUES = StructType([StructField("value", BinaryType())])
CALLS: dict[str, Callable[[Any], object]] = {
    "initialOffset": lambda it: it.initialOffset(),
    "getDefaultReadLimit": lambda it: it.getDefaultReadLimit(),
    "prepareForTriggerAvailableNow": lambda it: it.prepareForTriggerAvailableNow(),
    "reportLatestOffset": lambda it: it.reportLatestOffset(),
    "latestOffset": lambda it: it.latestOffset({}, ReadAllAvailable()),
    "partitions": lambda it: it.partitions({}, {}),
    "read": lambda it: it.read(InputPartition(None)),
}


@pytest.mark.parametrize("called", CALLS)
def test_an_option_error_comes_from_whatever_spark_calls_first(called: str) -> None:
    reader = DefaultSource({**BASE, "startingOffset": "earliest"}).streamReader(VALUES)
    assert isinstance(reader, SupportsTriggerAvailableNow)  # Spark looks at this before any call
    with pytest.raises(OptionError, match="did you mean 'startingOffsets'"):
        CALLS[called](reader)
    reader.stop()


def test_a_column_of_another_type_is_refused_in_the_same_way() -> None:
    schema = StructType([StructField("value", LongType())])
    reader = DefaultSource(BASE).streamReader(schema)
    with pytest.raises(OptionError, match="column value bigint"):
        reader.initialOffset()


def test_right_options_make_a_reader() -> None:
    reader = DefaultSource(BASE).streamReader(VALUES)
    assert isinstance(reader, StreamReader)
    reader.stop()


def test_every_method_of_a_reader_is_refused() -> None:
    """Spark calls ``commit`` and ``stop`` only after others."""
    public = {name for name in vars(StreamReader) if not name.startswith("_")}
    assert public - {"commit", "stop"} == set(CALLS)
