"""Errors in events carry the names of error numbers, which are equal on every platform."""

from __future__ import annotations

import errno
import io
import json
from typing import Any

import pytest
import structlog

from minikafka.kernel import events
from minikafka.kernel.disk_errors import name_errnos, with_errno_names

pytestmark = pytest.mark.mission("LEARN-1")

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
RESET = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


def test_a_number_becomes_a_name() -> None:
    assert with_errno_names(f"cannot connect to a:1: {REFUSED}") == (
        "cannot connect to a:1: [ECONNREFUSED] Connection refused"
    )
    assert with_errno_names(f"{REFUSED}; {RESET}") == (
        "[ECONNREFUSED] Connection refused; [ECONNRESET] Connection reset by peer"
    )


@pytest.mark.parametrize("text", ["", "Errno 104", "[Errno 99999] x", "[Errno -2] x", "[Errno ]"])
def test_a_number_without_a_name_stays(text: str) -> None:
    assert with_errno_names(text) == text


def test_exceptions_become_their_messages() -> None:
    wrapped = ConnectionError(f"cannot connect: {REFUSED}")
    other = ValueError("no number")
    facts = {"error": RESET, "cause": wrapped, "other": other, "exc_info": RESET, "count": 3}
    assert name_errnos(facts) == {
        "error": "[ECONNRESET] Connection reset by peer",
        "cause": "cannot connect: [ECONNREFUSED] Connection refused",
        "other": other,
        "exc_info": RESET,
        "count": 3,
    }


def test_every_way_of_an_event_has_names() -> None:
    seen: list[Any] = []

    def sink(level: str, name: str, facts: dict[str, Any]) -> None:
        seen.append(facts["error"])

    def log() -> None:
        with events.kept(sink):
            events.event_log("network").warning("lost", error=str(RESET))
        with events.diverted(sink):
            events.event_log("network").warning("lost", error=RESET)
            with events.tapped(sink):
                events.event_log("network").error("lost", error=RESET)

    log()
    assert seen == ["[ECONNRESET] Connection reset by peer"] * 4


def test_log_lines_have_names() -> None:
    before = structlog.get_config()
    plain, lines = io.StringIO(), io.StringIO()
    try:
        events.configure(stream=plain)
        events.event_log("network").warning("lost", error=RESET)
        events.configure(stream=lines, json=True)
        events.event_log("network").warning("lost", error=str(RESET))
    finally:
        structlog.configure(**before)
    assert "error='[ECONNRESET] Connection reset by peer'" in plain.getvalue()
    assert json.loads(lines.getvalue())["error"] == "[ECONNRESET] Connection reset by peer"
