"""What older versions of PySpark lack, with stand-ins for their calls. No JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql import Row
from pyspark.sql.pandas import functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from minikafka.spark import spark_api
from minikafka.spark.option_parsing import OptionError
from minikafka.spark.read.planning import DataLossError
from minikafka.spark.source import DefaultSource
from minikafka.spark.spark_api import BlindStreamReader, RowStreamWriter, SparkTooOldError
from tests.unit.spark.read.test_spark_first_batches import (
    BEFORE,
    OF_NEW,
    OLD,
    SCHEMA,
    STARTS,
    Checkpoint,
    Driver,
    KilledError,
    Topic,
    no_pauses,
)

__all__ = ["no_pauses"]  # used by pytest

BASE = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}


class BlindDriver(Driver):
    """Calls a reader as Spark 4.0 and 4.1 do: ``latestOffset`` has no arguments, comes before
    ``initialOffset``, and is called once if the trigger is ``availableNow``."""

    reader: Any

    def run(self, trigger: str) -> None:
        self.step()
        self.ends = iter([json.dumps(self.reader.latestOffset())]) if trigger != "often" else None
        self.planned = next(self.ends) if self.ends else ""
        while self.one_batch(trigger):
            pass

    def plan(self, trigger: str) -> bool:
        end = self.planned or json.dumps(self.reader.latestOffset())
        self.step()
        if self.checkpoint.offsets and end == self.checkpoint.offsets[-1]:
            return False
        self.checkpoint.offsets.append(end)
        self.step()
        return True


def blind(topic: Topic, starting: str, **options: str) -> Any:
    reader = topic.reader(starting, **options)
    reader._options = replace(reader._options, max_offsets_per_trigger=None)
    return BlindStreamReader(reader)


@pytest.mark.mission("SPV-2")
@pytest.mark.parametrize("starting", STARTS)
@pytest.mark.parametrize("trigger", ["often", "availableNow"])
def test_a_driver_that_does_not_pass_the_start_is_killed_at_each_step(
    trigger: str, starting: str
) -> None:
    for kill_at in range(60):
        topic, checkpoint = Topic(), Checkpoint()
        latest, killed = topic.count, False
        driver = BlindDriver(blind(topic, starting), checkpoint, kill_at)
        try:
            driver.run(trigger)
            topic.count += 9
            driver = BlindDriver(blind(topic, starting), checkpoint, driver.steps_left)
            driver.run(trigger)
        except KilledError:
            killed = True
        topic.count += 3
        if not checkpoint.offsets:
            latest = topic.count
        for _ in range(2):
            BlindDriver(blind(topic, starting), checkpoint, None).run(trigger)
            assert checkpoint.numbers() == topic.expected(starting, latest), kill_at
            topic.count += 3
        if not killed:
            assert checkpoint.commits >= 3
            return
    raise AssertionError("60 steps were not enough for two runs")


@pytest.mark.mission("SPV-2")
def test_a_topic_created_again_between_two_runs_is_noticed_when_the_batch_is_planned() -> None:
    topic, checkpoint = Topic(topic_id=OLD), Checkpoint()
    BlindDriver(blind(topic, "earliest"), checkpoint, None).run("often")
    topic.create_again(30)
    for _ in range(2):  # the end of the batch is in the checkpoint then
        with pytest.raises(DataLossError, match="topic t was deleted and created again"):
            BlindDriver(blind(topic, "earliest"), checkpoint, None).run("often")
    mild = blind(topic, "earliest", failOnDataLoss="false")
    BlindDriver(mild, checkpoint, None).run("often")
    assert checkpoint.numbers() == [*range(BEFORE), *range(OF_NEW, OF_NEW + 30)]


@pytest.mark.mission("SPV-3")
@pytest.mark.parametrize("limit", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_are_refused_where_a_start_is_not_passed(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_api, "_LIMITS", None)
    reader = DefaultSource({**BASE, limit: "5"}).streamReader(SCHEMA)
    with pytest.raises(OptionError, match=f"{limit} needs PySpark 4.2 or newer"):
        reader.latestOffset()  # type: ignore[call-arg, unused-ignore]
    assert isinstance(DefaultSource(BASE).streamReader(SCHEMA), BlindStreamReader)


@pytest.mark.mission("SPV-3")
def test_columns_of_a_registry_are_refused_without_functions_of_arrow_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(functions, "arrow_udf")
    with pytest.raises(SparkTooOldError, match=r"need PySpark 4\.1 or newer"):
        spark_api.arrow_udf()


@pytest.mark.mission("SPV-2")
def test_rows_of_a_stream_are_written_as_arrow_batches() -> None:
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    schema = StructType(
        [
            StructField("value", BinaryType()),
            StructField("partition", IntegerType()),
            StructField("headers", ArrayType(header)),
        ]
    )
    rows = [
        Row(value=bytearray(b"a"), partition=1, headers=[Row(key="k", value=bytearray(b"v"))]),
        Row(value=None, partition=None, headers=None),
    ]

    class Inner:
        committed: Any = None

        def write(self, batches: Any) -> list[Any]:
            return [row for batch in batches for row in batch.to_pylist()]

        def commit(self, messages: Any, batch_id: int) -> None:
            self.committed = messages, batch_id

    inner = Inner()
    writer = RowStreamWriter(inner, schema)
    assert writer.write(iter(rows)) == [
        {"value": b"a", "partition": 1, "headers": [{"key": "k", "value": b"v"}]},
        {"value": None, "partition": None, "headers": None},
    ]
    writer.commit(["m"], 3)
    assert inner.committed == (["m"], 3)


def test_a_pyspark_without_data_sources_is_named() -> None:
    """As 3.5, with which the import of PySpark's modules would fail with a name of them."""
    code = (
        "import pyspark.sql, sys; sys.modules['pyspark.sql.datasource'] = None\n"
        "vars(pyspark.sql).pop('datasource', None); pyspark.__version__ = '3.5.9'\n"
        "import minikafka.spark.spark_api"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: minikafka needs PySpark 4.0 or newer: this is 3.5.9"
