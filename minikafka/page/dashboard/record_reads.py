"""What a reader of records asks for, where reading begins, and records as JSON and CSV. Pure."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from minikafka.core.client.consumer.fetched import ConsumerRecord

MOST_RECORDS: Final = 1_000  # of one response
DEFAULT_RECORDS: Final = 100
MOST_EXPORTED: Final = 100_000
LONGEST_WAIT_MS: Final = 20_000
MOST_SHOWN_BYTES: Final = 64 * 1024  # of a value in a list
MOST_BYTES: Final = 16 * 1024 * 1024  # of a single value
CSV_COLUMNS: Final = (
    *("partition", "offset", "timestamp", "key", "value", "headers"),
    *("key_encoding", "value_encoding"),
)
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NEXT: Final = re.compile(r"\d{1,10}:\d{1,19}(?:,\d{1,10}:\d{1,19})*")
_FROM: Final = re.compile(r"(earliest|latest)|(last|offset|time):(\d{1,18})")
_LONGEST_CHARACTER: Final = 4
_OF_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class ReadQuery(NamedTuple):
    """Which records to read.

    ``start`` and ``number``: earliest, latest, last N of each partition, offset N, or time in ms.
    ``positions`` continues an earlier read at these offsets. ``full``: one value whole.
    """

    topic: str
    partition: int | None = None
    start: str = "earliest"
    number: int = 0
    positions: Mapping[int, int] | None = None
    limit: int = DEFAULT_RECORDS
    contains: bytes = b""
    wait_ms: int = 0
    uncommitted: bool = False
    full: bool = False

    @property
    def most_bytes(self) -> int:
        """The bytes of a key or a value that are shown."""
        return MOST_BYTES if self.full else MOST_SHOWN_BYTES

    def matches(self, record: ConsumerRecord) -> bool:
        wanted = self.contains
        return not wanted or any(
            part is not None and wanted in part for part in (record.value, record.key)
        )


class LogBounds(NamedTuple):
    """The offsets of a partition: the first, the one after the last that can be read, and the one
    that was looked up by time, if any."""

    begin: int
    end: int
    at_time: int | None = None


def parse_query(words: Mapping[str, str], most: int = MOST_RECORDS) -> ReadQuery:
    """Parse the parameters of a request; empty ones count as missing. Raises ValueError, with a
    sentence for the user."""
    given = {name: text for name, text in words.items() if text != ""}
    topic = given.get("topic", "")
    if not _TOPIC.fullmatch(topic):
        raise ValueError("topic needs the name of a topic")
    found = _FROM.fullmatch(given.get("from", "earliest"))
    if found is None:
        raise ValueError("from needs earliest, latest, last:N, offset:N or time:MS")
    next_text = given.get("next")
    if next_text is not None and not _NEXT.fullmatch(next_text):
        raise ValueError("next needs PARTITION:OFFSET,...")
    full = _flag(given, "full")
    return ReadQuery(
        topic=topic,
        partition=_number(given, "partition", None, 2**31 - 1),
        start=found[1] or found[2],
        number=int(found[3] or 0),
        positions=None if next_text is None else _positions(next_text),
        limit=1 if full else _number(given, "limit", min(DEFAULT_RECORDS, most), most) or 1,
        contains=given.get("contains", "").encode(errors="replace"),
        wait_ms=_number(given, "wait", 0, LONGEST_WAIT_MS) or 0,
        uncommitted=_flag(given, "uncommitted"),
        full=full,
    )


def _number(given: Mapping[str, str], name: str, default: int | None, most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"{name} needs a number")
    return min(int(text), most)


def _flag(given: Mapping[str, str], name: str) -> bool:
    return given.get(name, "0") not in ("0", "false")


def _positions(text: str) -> dict[int, int]:
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(partition): int(offset) for partition, offset in pairs}


def first_offsets(query: ReadQuery, logs: Mapping[int, LogBounds]) -> dict[int, int]:
    """Return where to begin in each partition; within the log, whatever was asked for."""
    return {
        partition: max(log.begin, min(log.end, _wanted(query, partition, log)))
        for partition, log in logs.items()
    }


def _wanted(query: ReadQuery, partition: int, log: LogBounds) -> int:
    if query.positions is not None and partition in query.positions:
        return query.positions[partition]
    match query.start:
        case "latest":
            return log.end
        case "last":
            return log.end - query.number
        case "offset":
            return query.number
        case "time":
            return log.end if log.at_time is None else log.at_time
        case _:
            return log.begin


def share(limit: int, taken: Mapping[int, int], partitions: Sequence[int]) -> list[int]:
    """Return the partitions to read from next: those that have given the fewest records, so that
    the first page is not of one partition only."""
    if not partitions:
        return []
    least = min(taken.get(partition, 0) for partition in partitions)
    step = max(1, limit // len(partitions))
    return [partition for partition in partitions if taken.get(partition, 0) < least + step]


# ------------------------------------------------------------------------------- records as text


class ShownBytes(NamedTuple):
    """Bytes as JSON can carry them. ``encoding``: utf8, base64 or null."""

    text: str | None
    encoding: str
    truncated: bool = False


def shown(data: bytes | None, most_bytes: int) -> ShownBytes:
    """Return the first ``most_bytes`` as text, or as base64 if they are no UTF-8."""
    if data is None:
        return ShownBytes(None, "null")
    part = bytes(data[:most_bytes])
    truncated = len(part) < len(data)
    try:
        return ShownBytes(part.decode(), "utf8", truncated)
    except UnicodeDecodeError as error:
        if truncated and error.start > 0 and error.start > len(part) - _LONGEST_CHARACTER:
            return ShownBytes(part[: error.start].decode(), "utf8", True)
    return ShownBytes(base64.b64encode(part).decode(), "base64", truncated)


def record_facts(record: ConsumerRecord, most_bytes: int) -> dict[str, Any]:
    """Return a record as JSON. A header whose value is no UTF-8 has a third word, base64."""
    key, value = shown(record.key, most_bytes), shown(record.value, most_bytes)
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key.text,
        "value": value.text,
        "headers": [header(name, data, most_bytes) for name, data in record.headers],
        "key_size": len(record.key or b""),
        "value_size": len(record.value or b""),
        "encoding": {"key": key.encoding, "value": value.encoding},
        "truncated": key.truncated or value.truncated,
    }


def header(name: str, data: bytes | None, most_bytes: int) -> list[str | None]:
    found = shown(data, most_bytes)
    return [name, found.text, *(["base64"] if found.encoding == "base64" else [])]


def in_order(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """Order the records of all partitions by time; those of one partition keep their order."""
    latest: dict[int, int] = {}
    rows: list[tuple[int, int, int, ConsumerRecord]] = []
    for record in records:
        at = latest[record.partition] = max(latest.get(record.partition, -1), record.timestamp)
        rows.append((at, record.partition, record.offset, record))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:3])]


def json_line(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False) + "\n"


def csv_line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    # A carriage return in a cell is quoted only if it is a part of the terminator.
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n") + "\n"


def csv_row(facts: Mapping[str, Any]) -> str:
    headers = json.dumps(facts["headers"], separators=(",", ":"), ensure_ascii=False)
    encoding = facts["encoding"]
    cells = [_harmless(facts[name]) for name in CSV_COLUMNS[:5]]
    return csv_line([*cells, headers if facts["headers"] else "", *map(encoding.get, _PARTS)])


_PARTS: Final = ("key", "value")


def _harmless(cell: Any) -> Any:
    """Return a cell that a spreadsheet does not run: an apostrophe makes it a text. Records are
    written by others, and ``=HYPERLINK(...)`` could send away what stands beside it."""
    if isinstance(cell, str) and cell.startswith(_OF_FORMULAS) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


# ------------------------------------------------------------------------------ records to write


class NewRecord(NamedTuple):
    """A record to write, several ``times``."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    times: int


def parse_new_record(body: Mapping[str, Any]) -> NewRecord:
    """Parse the body of a request to write. Raises ValueError, with a sentence for the user."""
    known = {"topic", "partition", "key", "value", "headers", "encoding", "count"}
    unknown = sorted(set(body) - known)
    if unknown:
        raise ValueError(f"there is no field {unknown[0]}")
    topic, partition, count = body.get("topic"), body.get("partition"), body.get("count", 1)
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise ValueError("topic needs the name of a topic")
    if partition is not None and not _is_number(partition, 0, 2**31 - 1):
        raise ValueError("partition needs a number, or null")
    if not _is_number(count, 1, MOST_RECORDS):
        raise ValueError(f"count needs a number from 1 to {MOST_RECORDS}")
    encoding = body.get("encoding", "utf8")
    if encoding not in ("utf8", "base64"):
        raise ValueError("encoding needs utf8 or base64")
    return NewRecord(
        topic,
        partition,
        _data("key", body.get("key"), encoding),
        _data("value", body.get("value"), encoding),
        tuple(_header(row, encoding) for row in _headers(body.get("headers", []))),
        count,
    )


def _is_number(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _headers(given: Any) -> list[Any]:
    if not isinstance(given, list) or len(given) > MOST_RECORDS:
        raise ValueError("headers needs a list of pairs")
    return given


def _header(row: Any, encoding: str) -> tuple[str, bytes | None]:
    """Turn a row of ``record_facts`` into a header: its third word is its encoding."""
    match row:
        case [str(name), value]:
            return name, _data(f"header {name}", value, encoding)
        case [str(name), value, "base64"]:
            return name, _data(f"header {name}", value, "base64")
    raise ValueError("headers needs a list of pairs")


def _data(what: str, text: Any, encoding: str) -> bytes | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{what} needs a text, or null")
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode()
    except ValueError:
        raise ValueError(f"{what} is not {encoding}") from None
