"""Records as lines and as JSON; client settings on the command line; figures of `perf`."""

from __future__ import annotations

from typing import Any, cast

import pytest

from minikafka.cli.connect import with_properties
from minikafka.cli.records.perf import Measurement, percentile
from minikafka.cli.records.record_text import (
    READER_PROPERTIES,
    OutgoingRecord,
    check_properties,
    json_line,
    parse_json_line,
    parse_line,
    record_line,
)
from minikafka.client import ClientConfig, ConsumerConfig, ProducerConfig
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.config import ConfigError
from minikafka.protocol.records.compression import Compression


def test_lines_become_records() -> None:
    assert parse_line(b"value\r\n", {}) == OutgoingRecord(b"value")
    keyed = {"parse.key": "true", "null.marker": "NULL"}
    assert parse_line(b"k\tv\tw\n", keyed) == OutgoingRecord(b"v\tw", b"k")
    assert parse_line(b"k\tNULL\n", keyed) == OutgoingRecord(None, b"k")
    assert parse_line(b"NULL\tv\n", keyed) == OutgoingRecord(b"v", None)
    with pytest.raises(ConfigError, match="no key separator"):
        parse_line(b"value\n", keyed)
    assert parse_line(b"value\n", keyed | {"ignore.error": "true"}) == OutgoingRecord(b"value")


def test_headers_stand_before_the_key() -> None:
    whole = {"parse.key": "true", "parse.headers": "true", "key.separator": "|"}
    line = b"a:1,b:x:y,c:\tkey|value\n"
    headers = [("a", b"1"), ("b", b"x:y"), ("c", b"")]
    assert parse_line(line, whole) == OutgoingRecord(b"value", b"key", cast(Any, headers))
    other = {
        "parse.headers": "true",
        "headers.delimiter": " ",
        "headers.separator": ";",
        "headers.key.separator": "=",
        "null.marker": "-",
    }
    assert parse_line(b"a=1;b=- v", other).headers == [("a", b"1"), ("b", None)]
    assert parse_line(b"- v", other) == OutgoingRecord(b"v")
    for wrong in (b"a=1", b"a v"):
        with pytest.raises(ConfigError, match="separator"):
            parse_line(wrong, other)
    with pytest.raises(ConfigError, match="unknown --property nope"):
        check_properties({"nope": "1"}, READER_PROPERTIES)


RECORD = ConsumerRecord("t", 1, 7, 123, None, b"v", [("h", b"x"), ("i", None)], 0)


def test_records_become_lines() -> None:
    assert record_line(RECORD, {}) == b"v\n"
    everything = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "key")}
    assert record_line(RECORD, everything) == b"CreateTime:123\tPartition:1\tOffset:7\tnull\tv\n"
    headers = {"print.headers": "true", "key.separator": "|", "headers.separator": ";"}
    assert record_line(RECORD, headers) == b"h:x;i:null|v\n"
    bare = RECORD._replace(headers=[], timestamp=-1)
    properties = {"print.headers": "true", "print.timestamp": "true", "print.value": "false"}
    assert record_line(bare, properties) == b"NO_TIMESTAMP\tNO_HEADERS\n"


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        RECORD._replace(key=b"\xff\x00", value=None, headers=[]),
        RECORD._replace(key="ключ".encode(), value=b'{"a": 1}'),
    ],
)
def test_json_goes_there_and_back(record: ConsumerRecord) -> None:
    line = json_line(record)
    assert line.endswith(b"}\n")
    assert parse_json_line(line) == OutgoingRecord(
        record.value, record.key, cast(Any, record.headers), record.partition, record.timestamp
    )


def test_json_lines_by_hand() -> None:
    assert parse_json_line(b'{"value": {"a": [1, 2]}}').value == b'{"a":[1,2]}'
    assert parse_json_line(b"{}") == OutgoingRecord(None)
    for wrong in (b"nothing", b"[1]", b'{"partition": "x"}', b'{"key_base64": "?"}', b"\xff"):
        with pytest.raises(ConfigError, match="not a record"):
            parse_json_line(wrong)


def test_client_settings_find_their_place() -> None:
    given = {"linger.ms": "7", "acks": "all", "compression.type": "zstd", "client.id": "me"}
    client, producer = with_properties(given, ClientConfig(), ProducerConfig())
    assert client.client_id == "me"
    assert (producer.linger_ms, producer.acks) == (7, -1)
    assert producer.compression is Compression.ZSTD
    strategy = {
        "partition.assignment.strategy": "sticky, org.example.range",
        "enable.auto.commit": "FALSE",
    }
    (consumer,) = with_properties(strategy, ConsumerConfig())
    assert consumer.partition_assignment_strategy == ("sticky", "range")
    assert consumer.enable_auto_commit is False
    (idempotent,) = with_properties({"enable.idempotence": "true"}, ProducerConfig())
    assert idempotent.enable_idempotence is True
    for wrong in ({"linger.ms": "x"}, {"acks": "2"}, {"nope": "1"}, {"compression.type": "rar"}):
        with pytest.raises(ConfigError):
            with_properties(wrong, ClientConfig(), ProducerConfig())


def test_client_settings_that_cannot_be_are_one_line() -> None:
    for wrong in (
        {"isolation.level": "foo"},
        {"isolation.level": "READ_COMMITTED"},  # Kafka takes small letters only
        {"auto.offset.reset": "smallest"},
        {"max.poll.records": "0"},
        {"group.id": ""},
        {"group.id": "g", "session.timeout.ms": "2000"},
        {"group.id": "g", "partition.assignment.strategy": "first-come"},
    ):
        with pytest.raises(ConfigError):
            with_properties(wrong, ConsumerConfig())
    # Neither goes without the other.
    together = {"group.id": "g", "session.timeout.ms": "2000", "heartbeat.interval.ms": "500"}
    (consumer,) = with_properties(together, ConsumerConfig())
    assert (consumer.session_timeout_ms, consumer.heartbeat_interval_ms) == (2_000, 500)


def test_figures() -> None:
    assert percentile([], 99) == 0
    ordered = [float(number) for number in range(100)]
    assert [percentile(ordered, share) for share in (50, 99, 100)] == [50, 99, 99]
    measurement = Measurement(10.0, "sent")
    for latency in (1.0, 2.0, 6.0, 3.0):
        measurement.add(1024 * 1024, latency)
    assert measurement.report(12.0) == (
        "4 records sent, 2.0 records/sec (2.00 MB/sec), 3.00 ms avg latency, 6.00 ms max latency."
    )
    assert measurement.report(13.0) == "0 records sent, 0.0 records/sec (0.00 MB/sec)."
    assert measurement.summary(14.0).endswith(
        "3.00 ms 50th, 6.00 ms 95th, 6.00 ms 99th, 6.00 ms 99.9th."
    )
    facts = measurement.facts(14.0)
    assert (facts["records_per_second"], facts["latency_p99_ms"]) == (1.0, 6.0)
