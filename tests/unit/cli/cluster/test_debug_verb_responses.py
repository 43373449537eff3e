"""The verb `debug`: what it makes of answers, and of what is no answer."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from minikafka.cli.cluster.debug import (
    fetch,
    keys_text,
    metric_tables,
    purgatory_tables,
    share_partition_tables,
    task_tables,
)
from minikafka.kernel.cluster import Endpoint
from minikafka.kernel.config import ConfigError

WHEEL = {
    "level": 1,
    "tick_ms": 1,
    "wheel_size": 20,
    "interval_ms": 20,
    "current_time_ms": 7,
    "buckets": [
        {"slot": 3, "tasks": 1, "more": False},
        {"slot": 17, "tasks": 100, "more": True},
    ],
}
OPERATION = {
    "kind": "DelayedFetch",
    "keys": ["t-0", "t-1"],
    "more_keys": False,
    "delay_ms": 500,
    "age_ms": 100,
    "remaining_ms": 400,
}
PURGATORY = {
    "name": "Fetch",
    "reaper": "ExpirationReaper-1-Fetch",
    "wake_ups": 5,
    "next_wake_up_in_ms": None,
    "purgatory_size": 2,
    "num_delayed_operations": 1,
    "watched_keys": 2,
    "operations": [OPERATION],
    "wheels": [WHEEL],
}


def test_purgatories_become_three_tables() -> None:
    summary, operations, wheels = purgatory_tables({"broker": 1, "purgatories": [PURGATORY]})
    assert summary[1] == [("Fetch", "ExpirationReaper-1-Fetch", 2, 1, 2, 5, None)]
    assert operations[1] == [("Fetch", "DelayedFetch", "t-0,t-1", 100, 400)]
    assert wheels[1] == [("Fetch", 1, 1, 20, 20, 7, "3:1 17:100+")]
    for columns, rows in (summary, operations, wheels):
        assert all(len(row) == len(columns) for row in rows)


def test_keys_that_are_left_out_show_as_dots() -> None:
    assert keys_text(OPERATION | {"more_keys": True}) == "t-0,t-1,..."


def test_tasks_and_metrics_become_tables() -> None:
    tasks, reapers = task_tables(
        {"tasks": [{"name": "a", "count": 2}], "reapers": [{"name": "r", "wake_ups": 3}]}
    )
    assert (tasks[1], reapers[1]) == ([("a", 2)], [("r", 3)])
    ((_, rows),) = metric_tables({"metrics": {"kafka.server:X": 1}})
    assert rows == [("kafka.server:X", 1)]


class Canned(http.server.BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, bytes]]] = {
        "/fine": (200, json.dumps({"broker": 1, "x": "y"}).encode()),
        "/other-broker": (200, json.dumps({"broker": 2}).encode()),
        "/list": (200, b"[1]"),
        "/garbage": (200, b"<html>\xff"),
        "/ours": (400, json.dumps({"error": "limit must be a number"}).encode()),
        "/theirs": (503, b"<html>"),
    }

    def do_GET(self) -> None:
        status, body = self.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with http.server.HTTPServer(("127.0.0.1", 0), Canned) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Endpoint("127.0.0.1", server.server_port)
        server.shutdown()
        thread.join()


def test_a_response_is_parsed(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # not for the loopback
    assert fetch(endpoint, 1, "/fine") == {"broker": 1, "x": "y"}


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/other-broker", "is not broker 1's"),
        ("/list", "is not broker 1's"),
        ("/garbage", "no answer from"),
        ("/ours", "/ours: limit must be a number"),
        ("/theirs", "HTTP status 503"),
    ],
)
def test_an_invalid_response_is_refused(endpoint: Endpoint, path: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        fetch(endpoint, 1, path)


def test_a_refused_connection_is_reported() -> None:
    with pytest.raises(ConfigError, match="is broker 4 on this machine"):
        fetch(Endpoint("127.0.0.1", 1), 4, "/fine")


@pytest.mark.mission("SHR-20")
def test_share_partitions_become_two_tables() -> None:
    run = {"first": 3, "last": 5, "state": "acquired", "member": "m", "deliveries": 2}
    name = {"group": "g", "topic": "t", "partition": 0, "state_epoch": 1}
    read = {"start_offset": 3, "end_offset": 5, "lag": 7, "runs": [run]}
    records = {"available": 0, "acquired": 3, "acknowledged": 0, "archived": 0}
    shown = [{**name, **read, "records": records}, {**name, "partition": 1}]
    summary, runs = share_partition_tables({"broker": 1, "share_partitions": shown})
    assert summary[1] == [
        ("g", "t", 0, 1, 3, 5, 7, 0, 3, 0, 0),
        ("g", "t", 1, 1, *[None] * 7),
    ]
    assert runs[1] == [("g", "t", 0, 3, 5, "acquired", "m", 2)]
    assert all(len(columns) == len(row) for columns, rows in (summary, runs) for row in rows)
