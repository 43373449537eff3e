"""Options, defaults, refusals and offset JSON are those of the official Kafka connector."""

from __future__ import annotations

import re

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.option_parsing import OptionError
from minikafka.spark.options import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    TopicSelection,
    batch_options,
    duration_ms,
    stream_options,
)
from minikafka.spark.read.offsets import offsets_json, parse_offsets, parse_partitions
from minikafka.spark.write.write_options import write_options

pytestmark = pytest.mark.mission("SPK-1")

BASE = {"kafka.bootstrap.servers": "a:1,[::1]:2", "subscribe": "t"}
P0 = TopicPartition("t", 0)


def test_the_defaults_of_a_batch() -> None:
    options = batch_options(BASE)
    assert (options.starting, options.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert options.client.bootstrap_servers == (("a", 1), ("::1", 2))
    assert options.subscription == TopicSelection(topics=("t",))
    assert options.fail_on_data_loss is True
    assert options.include_headers is False
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)
    assert (options.fetch_retries, options.fetch_retry_interval_ms) == (3, 10)
    assert options.poll_timeout_ms == 120_000
    assert options.client.read_committed is False


def test_the_defaults_of_a_stream() -> None:
    options = stream_options(BASE)
    assert options.starting is Edge.LATEST
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (None, None)
    assert options.max_trigger_delay_ms == 15 * 60_000


def test_keys_are_of_any_case_and_topics_are_trimmed() -> None:
    options = stream_options(
        {"KAFKA.Bootstrap.Servers": "h:9", "SUBSCRIBE": " a, b,,a ", "StartingOffsets": "EARLIEST"}
    )
    assert options.subscription.topics == ("a", "b")
    assert options.starting is Edge.EARLIEST


def test_all_that_can_be_set() -> None:
    options = stream_options(
        {
            "kafka.bootstrap.servers": "h:9",
            "assign": '{"t":[1,0]}',
            "failOnDataLoss": "False",
            "failOnTimestampOverflow": "False",
            "minPartitions": "7",
            "maxRecordsPerPartition": "100",
            "maxOffsetsPerTrigger": "1000",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "3s",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.bytes": "1000",
            "kafka.max.poll.records": "x",  # of the Java client, without effect here
            "fetchOffset.numRetries": "0",
        }
    )
    assert options.subscription.partitions == (P0, TopicPartition("t", 1))
    assert not options.fail_on_data_loss
    assert not options.fail_on_timestamp_overflow
    assert (options.min_partitions, options.max_records_per_partition) == (7, 100)
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (1000, 10)
    assert options.max_trigger_delay_ms == 3000
    assert options.include_headers
    assert options.client.read_committed
    assert options.client.fetch_max_bytes == 1000
    assert options.fetch_retries == 0


def test_a_timestamp_goes_before_timestamps_and_these_before_offsets() -> None:
    given = {**BASE, "startingOffsets": '{"t":{"0":5}}'}
    assert batch_options(given).starting == AtOffsets({P0: 5})
    given["startingOffsetsByTimestamp"] = '{"t":{"0":1000}}'
    assert batch_options(given).starting == AtTimestamps({P0: 1000})
    given["startingTimestamp"] = " 77 "
    assert batch_options(given).starting == AtTimestamp(77)
    assert batch_options({**given, "endingTimestamp": "99"}).ending == AtTimestamp(99)
    assert batch_options(
        {**given, "startingOffsetsByTimestampStrategy": "LATEST"}
    ).no_match_is_latest


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("startingOffset", "startingOffsets"),
        ("STARTINGOFFSET", "startingOffsets"),
        ("kafka.max.poll.recrds", "kafka.max.poll.records"),
        ("max.poll.records", "kafka.max.poll.records"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("kafka.subscribe", "subscribe"),
        ("kafka.fetch.max.byte", "kafka.fetch.max.bytes"),
        ("failondataloss.", "failOnDataLoss"),
        ("kafkaConsumer.pollTimeout", "kafkaConsumer.pollTimeoutMs"),
        ("sink.ids", "sink.id"),
        ("count", None),
        ("xyzzy", None),
    ],
)
def test_unknown_options_are_refused_with_the_nearest_name(name: str, near: str | None) -> None:
    given = {**BASE, "topic": "t", name: "1"}
    for options in (batch_options, stream_options, lambda it: write_options(it, {"value": "x"})):
        with pytest.raises(OptionError, match=re.escape(f"option '{name.lower()}'")) as refusal:
            options(given)
        cased = "" if near and near.islower() else " (Spark passes names of options in lower case)"
        hint = f": did you mean '{near}'?" if near else ""
        assert str(refusal.value).endswith(f"option '{name.lower()}'{cased}{hint}")


def test_a_misspelt_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(OptionError) as refusal:
        stream_options({**BASE, "startingOffset": "earliest"})
    assert str(refusal.value) == (
        "unknown option 'startingoffset' (Spark passes names of options in lower case): "
        "did you mean 'startingOffsets'?"
    )
    with pytest.raises(OptionError) as refusal:
        stream_options({**BASE, "kafka.max.poll.recrds": "5"})
    assert str(refusal.value) == (
        "unknown Kafka client option 'kafka.max.poll.recrds': "
        "did you mean 'kafka.max.poll.records'?"
    )


def test_options_of_spark_and_of_the_java_client_are_known() -> None:
    given = {
        **BASE,
        "topic": "t",
        "CheckpointLocation": "/c",
        "queryName": "q",
        "groupIdPrefix": "g",
        "kafka.group.id": "g",
        "Kafka.Linger.MS": "5",
        "kafka.retries": "3",
    }
    batch_options(given)
    stream_options(given)
    write_options(given, {"value": "binary"}, streaming=True)


def test_options_of_streams_are_noted_and_ignored_in_a_batch() -> None:
    assert batch_options({**BASE, "maxOffsetsPerTrigger": "5"}).notes == (
        "maxOffsetsPerTrigger option ignored in batch queries",
    )


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"subscribe": None}, "One of the following options must be specified"),
        ({"assign": '{"t":[0]}'}, "Only one of the following options can be specified"),
        ({"subscribe": " , "}, "No topics to subscribe to"),
        ({"subscribe": None, "assign": "t"}, "option assign: expected e.g."),
        ({"subscribe": None, "assign": "{}"}, "No topicpartitions to assign"),
        ({"subscribe": None, "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribe": None, "subscribePattern": "["}, "is not a regular expression"),
        ({"kafka.bootstrap.servers": None}, "'kafka.bootstrap.servers' must be specified"),
        ({"kafka.bootstrap.servers": "host"}, "'host' is not host:port"),
        ({"kafka.auto.offset.reset": "latest"}, "'auto.offset.reset' is not supported"),
        ({"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported"),
        ({"kafka.value.deserializer": "x"}, "'value.deserializer' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
        ({"kafka.interceptor.classes": "x"}, "'interceptor.classes' is not supported"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"minPartitions": "many"}, "minPartitions must be a number"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss must be true or false"),
        ({"includeHeaders": "1"}, "includeHeaders must be true or false"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "(9) is higher than"),
        ({"maxTriggerDelay": "soon"}, "expected a duration"),
        ({"startingTimestamp": "now"}, "expected milliseconds since 1970, got now"),
        ({"startingTimestamp": "-1"}, "expected milliseconds since 1970, got -1"),
        ({"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger must be positive"),
        ({"startingOffsets": "first"}, "option startingOffsets: expected e.g."),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "option startingOffsets: expected e.g."),
        ({"startingOffsetsByTimestamp": '{"t":7}'}, "option startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "maybe"}, "must be error or latest"),
        ({"kafka.isolation.level": "strict"}, "kafka.isolation.level must be"),
    ],
)
def test_refused(more: dict[str, str | None], complaint: str) -> None:
    options = {k: v for k, v in {**BASE, **more}.items() if v is not None}
    for reader in (batch_options, stream_options):
        with pytest.raises(OptionError, match=re.escape(complaint)):
            reader(options)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
        (
            {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"1":2}}'},
            "must name the same partitions",
        ),
        (
            {"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":2}}'},
            "t-0: start offset 3 is greater than end offset 2",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"t":{"0":3}}',
                "endingOffsetsByTimestamp": '{"t":{"0":2}}',
            },
            "start timestamp 3 is greater",
        ),
    ],
)
def test_refused_in_a_batch(more: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=re.escape(complaint)):
        batch_options({**BASE, **more})


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("endingOffsets", "ending offset not valid in streaming queries"),
        ("endingOffsetsByTimestamp", "ending timestamp not valid in streaming queries"),
        ("endingTimestamp", "ending timestamp not valid in streaming queries"),
    ],
)
def test_refused_in_a_stream(name: str, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        stream_options({**BASE, name: "1"})


def test_offset_json_both_ways() -> None:
    text = '{"b":{"10":4,"2":-2},"a":{"0":-1}}'
    offsets = parse_offsets(text)
    assert list(offsets) == [("a", 0), ("b", 2), ("b", 10)]
    assert offsets_json(offsets) == {"a": {"0": -1}, "b": {"2": -2, "10": 4}}
    assert parse_partitions('{"b":[1,0,1]}') == [("b", 0), ("b", 1)]


@pytest.mark.parametrize("bad", ["", "[]", '{"t":[-1]}', '{"t":["0"]}', '{"t":0}', '{"t":[true]}'])
def test_bad_partition_json(bad: str) -> None:
    with pytest.raises(ValueError, match="expected e"):
        parse_partitions(bad)


@pytest.mark.parametrize("bad", ["", '{"t":[0]}', '{"t":{"x":1}}', '{"t":{"0":"1"}}'])
def test_bad_offset_json(bad: str) -> None:
    with pytest.raises(ValueError, match="expected e"):
        parse_offsets(bad)


def test_durations() -> None:
    texts = {"15m": 900_000, "500ms": 500, "2 h": 7_200_000, "1d": 86_400_000, "7": 7}
    assert {text: duration_ms(text) for text in texts} == texts


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingTimestamp", str(1 << 63)),
        ("startingOffsets", '{"t":{"0":9223372036854775808}}'),
        ("endingOffsetsByTimestamp", '{"t":{"0":9223372036854775808}}'),
    ],
)
def test_numbers_of_more_than_64_bits_are_refused(name: str, value: str) -> None:
    """A request could not carry them."""
    with pytest.raises(OptionError, match=name):
        batch_options({**BASE, name: value})
