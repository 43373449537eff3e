"""A record to write, from the body of a request. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

from minikafka.page.dashboard.records.query import MOST_RECORDS, is_topic


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
    if not isinstance(topic, str) or not is_topic(topic):
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
