"""History of a group: its events in the brokers' logs, and the last eviction of a member."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from minikafka.cli.cluster.debug import eviction_text, fetch
from minikafka.cli.output import MISSING, kafka_table
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.groups import GroupDescription
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.listeners import DEBUG_LISTENER, debug_listener

COMPONENT = "group-coordinator"
STDIN = "-"

_LINE = re.compile(r"(\S+) \[(\w+) *\] (.*)")
_PAIR = re.compile(r"(?<= )(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\[[^\]]*\]|\S*)")


class Event(NamedTuple):
    """One line of an event log."""

    at: str
    name: str
    facts: dict[str, Any]


def show_timeline(group_id: str, names: Sequence[str]) -> int:
    """Print the events of a group in the logs ``names``, ordered by time; return the exit status.

    The status is 1 if the logs hold no event of the group. Raises OSError if a log cannot be read.
    """
    events = [event for name in names for event in read_log(name)]
    found = timeline(group_id, events)
    if not found:
        print(f"\nError: nothing about group '{group_id}'.", file=sys.stderr)
        return 1
    rows = [
        (event.at, event.facts.get("broker"), event.name.strip(), details(event)) for event in found
    ]
    print(kafka_table((("TIME", 10), ("BROKER", 6), ("EVENT", 20), ("DETAILS", 0)), rows))
    return 0


def timeline(group_id: str, events: Iterable[Event]) -> list[Event]:
    """Return the events of a group, and those of its whole offsets partition, ordered by time.

    Events without a group concern all groups of a partition: its coordinator has loaded it or
    resigned from it.
    """
    ours = [event for event in events if event.facts.get("component") == COMPONENT]
    partitions = {
        event.facts.get("partition") for event in ours if event.facts.get("group") == group_id
    }
    found = [
        event
        for event in ours
        if event.facts.get("group") == group_id
        or ("group" not in event.facts and event.facts.get("partition", MISSING) in partitions)
    ]
    return sorted(found, key=lambda event: when(event.at))


def when(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def details(event: Event) -> str:
    hidden = ("component", "broker", "group", "partition")
    return " ".join(f"{key}={value}" for key, value in event.facts.items() if key not in hidden)


def read_log(name: str) -> list[Event]:
    """Return the group coordinator's events in a log file, or in standard input for ``-``.

    The log may be plain or JSON; other lines are skipped. Raises OSError.
    """
    if name == STDIN:
        lines: Iterable[str] = sys.stdin
    else:
        lines = Path(name).read_text(errors="replace").splitlines()
    return [event for line in lines if COMPONENT in line and (event := parse(line))]


def parse(line: str) -> Event | None:
    """Parse an event in a plain or a JSON log line; return None for any other line."""
    if line.startswith("{"):
        try:
            facts = json.loads(line)
        except ValueError:
            return None
        at, name = str(facts.pop("timestamp", "")), str(facts.pop("event", ""))
        facts.pop("level", None)
        return Event(at, name, facts)
    found = _LINE.match(line)
    if found is None:
        return None
    at, _, rest = found.groups()
    pairs = list(_PAIR.finditer(rest))
    name = rest[: pairs[0].start()] if pairs else rest
    return Event(at, name.strip(), {pair[1]: value_of(pair[2]) for pair in pairs})


def value_of(text: str) -> Any:
    """Parse a value of a plain log line: a Python literal, or else an unquoted text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


# -- evictions


async def last_evictions(admin: Admin, groups: Iterable[GroupDescription]) -> dict[str, str]:
    """Return the last eviction of each group, from the debug listener of its coordinator.

    ``(unknown)`` stands for a coordinator that has no debug listener or runs on another machine.
    """
    found: dict[str, str] = {}
    for group in groups:
        broker_id = group.coordinator.id
        try:
            configs = await admin.broker_configs(broker_id, [DEBUG_LISTENER])
            endpoint = debug_listener(configs.get(DEBUG_LISTENER))
            if endpoint is None:
                raise ConfigError("no debug listener")
            path = f"/groups.json?group={quote(group.group_id, safe='')}"
            (shown,) = fetch(endpoint, broker_id, path)["groups"] or [{"last_eviction": None}]
            found[group.group_id] = eviction_text(shown["last_eviction"]) or MISSING
        except (ConfigError, KafkaError):
            found[group.group_id] = "(unknown)"
    return found
