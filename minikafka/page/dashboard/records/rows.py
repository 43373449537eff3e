"""Records as JSON, and as lines of JSON and CSV. Pure."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.page.dashboard.records.decoder import Decoder
from minikafka.page.dashboard.records.decoding import HEX, has_controls, text_of

CSV_COLUMNS: Final = (
    *("partition", "offset", "timestamp", "key", "value", "headers"),
    *("key_encoding", "value_encoding"),
)
_OF_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


class ShownBytes(NamedTuple):
    """Bytes as JSON can carry them. ``encoding``: utf8, base64 or null."""

    text: str | None
    encoding: str
    truncated: bool = False


def shown(data: bytes | None, most_bytes: int) -> ShownBytes:
    """Return the first ``most_bytes`` as text, or as base64 if they are no UTF-8."""
    if data is None:
        return ShownBytes(None, "null")
    text, truncated = text_of(data, most_bytes), len(data) > most_bytes
    if text is None:
        return ShownBytes(base64.b64encode(data[:most_bytes]).decode(), "base64", truncated)
    return ShownBytes(text, "utf8", truncated)


def record_facts(record: ConsumerRecord, decoder: Decoder, most_bytes: int) -> dict[str, Any]:
    """Return a record as JSON: key and value as they are, to be written again, and decoded. A
    header whose value is no UTF-8 has a third word, base64."""
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
        "key_decoded": decoder.key(record, most_bytes).facts(),
        "value_decoded": decoder.value(record, most_bytes).facts(),
    }


def header(name: str, data: bytes | None, most_bytes: int) -> list[str | None]:
    found = shown(data, most_bytes)
    return [name, found.text, *(["base64"] if found.encoding == "base64" else [])]


def json_line(record: ConsumerRecord, decoder: Decoder, most_bytes: int) -> str:
    facts = record_facts(record, decoder, most_bytes)
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False) + "\n"


def csv_line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    # A carriage return in a cell is quoted only if it is a part of the terminator.
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n") + "\n"


def csv_row(record: ConsumerRecord, decoder: Decoder, most_bytes: int) -> str:
    """Return a record as a line of CSV: key and value as they were decoded, and how. What would
    have control characters is in hex."""
    key = _cell(record.key, decoder.key(record, most_bytes).facts())
    value = _cell(record.value, decoder.value(record, most_bytes).facts())
    headers = [_csv_header(name, data) for name, data in record.headers]
    text = json.dumps(headers, separators=(",", ":"), ensure_ascii=False) if headers else ""
    cells = [record.partition, record.offset, record.timestamp, key[0], value[0], text]
    return csv_line([*map(_harmless, cells), key[1], value[1]])


def _cell(data: bytes | None, decoded: Mapping[str, Any]) -> tuple[str | None, str]:
    text = decoded["text"]
    if data is None or text is None:
        return None, "null"
    if decoded["as"] == HEX or has_controls(text):
        return data.hex(), HEX
    return text, decoded["as"]


def _csv_header(name: str, data: bytes | None) -> list[str | None]:
    name = json.dumps(name)[1:-1] if has_controls(name) else name
    if data is None:
        return [name, None]
    text = text_of(data, len(data))
    return [name, data.hex(), HEX] if text is None or has_controls(text) else [name, text]


def _harmless(cell: Any) -> Any:
    """Return a cell that a spreadsheet does not run: an apostrophe makes it a text. Records are
    written by others, and ``=HYPERLINK(...)`` could send away what stands beside it."""
    if isinstance(cell, str) and cell.startswith(_OF_FORMULAS) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
