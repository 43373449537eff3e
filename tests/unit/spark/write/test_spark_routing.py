"""Where rows go, what columns a sink takes, and what its options are."""

from __future__ import annotations

import re

import pytest

pa = pytest.importorskip("pyarrow")

from minikafka.client.columnar.partitioning import chunks_of  # noqa: E402
from minikafka.core.client.producer.partitioner import partition_for_key  # noqa: E402
from minikafka.kernel.errors import KafkaError  # noqa: E402
from minikafka.spark.write.routing import Router, WriteError  # noqa: E402
from minikafka.spark.write.write_options import write_options  # noqa: E402

pytestmark = pytest.mark.mission("SPK-3")

BASE = {"kafka.bootstrap.servers": "h:1"}
VALUE = {"value": "binary"}


def routed(topic: str | None, /, **columns: object) -> list[tuple[str, int, list[bytes]]]:
    router = Router(topic, lambda name: {"a": 3, "b": 2}[name], lambda: 7)
    (chunk,) = chunks_of([pa.record_batch(columns)])
    return [(p.topic, p.partition, taken["value"].to_pylist()) for p, taken in router.route(chunk)]


def test_keys_partitions_and_neither() -> None:
    key = b"some key"
    rows = routed(
        "a",
        value=pa.array([b"keyed", b"bare", b"named", b"bare too"]),
        key=pa.array([key, None, key, None]),
        partition=pa.array([None, None, 0, None], pa.int32()),
    )
    expected: dict[int, list[bytes]] = {}
    for partition, value in ((partition_for_key(key, 3), b"keyed"), (1, b"bare"), (0, b"named"),
                             (1, b"bare too")):  # fmt: skip
        expected.setdefault(partition, []).append(value)
    assert {partition: values for _, partition, values in rows} == expected


def test_the_topic_of_each_row_unless_the_option_says_it() -> None:
    columns = {"value": pa.array(["x", "y", "z"]), "topic": pa.array(["a", "b", "a"])}
    assert sorted(routed(None, **columns)) == [("a", 1, [b"x", b"z"]), ("b", 1, [b"y"])]
    assert routed("b", **columns) == [("b", 1, [b"x", b"y", b"z"])]
    with pytest.raises(WriteError, match="null topic"):
        routed(None, value=pa.array(["x"]), topic=pa.array([None], pa.string()))


def test_a_partition_that_is_not_there() -> None:
    for wrong in (-1, 3):
        with pytest.raises(
            KafkaError, match=f"partition {wrong} of topic a does not exist: the topic has 3"
        ):
            routed("a", value=pa.array(["x"]), partition=pa.array([wrong], pa.int32()))


def test_small_batches_are_put_together() -> None:
    batches = [pa.record_batch({"value": pa.array([b"%d" % n])}) for n in range(5)]
    (chunk,) = chunks_of([*batches, batches[0].slice(1)])
    assert len(chunk["value"]) == 5


@pytest.mark.mission("SPK-4")
def test_streams_are_exactly_once_and_batches_with_a_name() -> None:
    given = {**BASE, "topic": " t "}
    assert write_options(given, VALUE, streaming=True).exactly_once
    assert write_options(given, VALUE, streaming=True).topic == "t"
    assert not write_options(given, VALUE).exactly_once
    assert write_options({**given, "sink.id": "job"}, VALUE).exactly_once
    assert write_options({**given, "sink.id": "job", "sink.batch": "7"}, VALUE).sink_batch == 7
    mild = {**given, "delivery": "at-least-once"}
    assert not write_options(mild, VALUE, streaming=True).exactly_once


@pytest.mark.parametrize(
    ("options", "streaming", "complaint"),
    [
        ({"topic": "t", "kafka.bootstrap.servers": ""}, False, "configuring Kafka producer"),
        ({"topic": "t", "kafka.key.serializer": "x"}, False, "'key.serializer' is not supported"),
        ({"topic": "t", "kafka.partitioner.class": "x"}, False, "name others in the column"),
        ({"topic": "t", "delivery": "often"}, True, "delivery must be"),
        ({"topic": "t", "delivery": "exactly-once"}, False, "needs the option sink.id"),
        ({"topic": "t", "sink.id": "x"}, True, "sink.id is for batches"),
        ({"topic": "t", "sink.batch": "3"}, False, "a sink.id, which is missing"),
        ({"topic": "t", "kafka.acks": "1"}, True, "needs kafka.acks=all"),
        ({"topic": "t", "kafka.acks": "2"}, True, "kafka.acks must be"),
        ({"topic": "t", "kafka.compression.type": "rar"}, True, "kafka.compression.type"),
        ({}, True, "topic option required"),
    ],
)
def test_refused(options: dict[str, str], streaming: bool, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        write_options({**BASE, **options}, VALUE, streaming)
