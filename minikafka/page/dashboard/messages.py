"""The messages that the page reduces: their shapes, and their text as JSON.

A message is a JSON object with a ``type``. Server-sent events, recordings and the simulator carry
the same ones. ``broker`` is the broker whose inside is described, or None for facts of the whole
cluster, which the protocol gives for any Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

VERSION: Final = 1  # of the messages

Facts: TypeAlias = Mapping[str, Any]
EntityKey: TypeAlias = tuple[str, str]  # kind and name, such as ("partition", "orders-0")
Source: TypeAlias = int | None  # a broker id, or None for the whole cluster
Message: TypeAlias = dict[str, Any]


class LoggedEvent(NamedTuple):
    """An event of a broker's log. ``number`` counts since the broker's start, ``at_ms`` is
    wall-clock time."""

    number: int
    at_ms: int
    level: str
    name: str
    facts: Facts


class Hello(NamedTuple):
    """What the page must know before it shows anything."""

    cluster_id: str | None = None
    bootstrap: str = ""
    minikafka: bool = False  # whether a broker is one of ours
    live: bool = True  # False: a recording
    read_only: bool = False
    supervised: tuple[str, ...] = ()  # what may be done to the processes of brokers
    brokers_supervised: tuple[int, ...] = ()
    name: str = ""  # of the cluster, if the page shows several
    clusters: tuple[str, ...] = ()  # the names of all of them
    brokers_paused: tuple[int, ...] = ()
    brokers_isolated: tuple[int, ...] = ()


def hello_message(hello: Hello, at_ms: int) -> Message:
    """Build the first message of a snapshot; a reader forgets everything that it knew."""
    return {"type": "hello", "version": VERSION, "at": at_ms, **hello._asdict()}


def state_message(
    source: Source,
    at_ms: int,
    changed: Iterable[tuple[EntityKey, Facts]],
    removed: Iterable[EntityKey] = (),
    reset: bool = False,
) -> Message:
    """Build the message for entities of one source. With ``reset`` the reader forgets the others
    of that source."""
    return {
        "type": "state",
        "at": at_ms,
        "broker": source,
        "reset": reset,
        "changed": [
            {"kind": kind, "name": name, "facts": facts} for (kind, name), facts in changed
        ],
        "removed": [{"kind": kind, "name": name} for kind, name in removed],
    }


def event_message(broker: int, event: LoggedEvent) -> Message:
    return {
        "type": "event",
        "at": event.at_ms,
        "broker": broker,
        "number": event.number,
        "level": event.level,
        "name": event.name,
        "facts": event.facts,
    }


def missed_message(broker: int, count: int, at_ms: int) -> Message:
    """Build the message for events that the broker dropped before they were read."""
    return {"type": "missed", "at": at_ms, "broker": broker, "count": count}


def json_text(value: object) -> str:
    """Return ``value`` as JSON in one line, which a browser can parse. Raises ValueError for
    numbers that JSON does not have."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
