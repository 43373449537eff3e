"""What reaches the log: no forged lines, no control characters, no flood by one client."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator

import pytest
import structlog

from minikafka.kernel import events
from minikafka.world.real.loop import run
from minikafka.world.real.world import RealClock

# ESC, newlines, DEL, C1 controls, line separators, bidirectional controls, a lone surrogate.
NASTY = "\x00\x07\x08\x1b[2J\r\n\x0b\x0c\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200f\ufeff\ud800"
PLAIN_NAME = "topic-é-日本.a_b"


@pytest.fixture(autouse=True)
def configuration() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClientError(Exception):
    """An error whose text and repr are what a client sent."""

    def __repr__(self) -> str:
        return f"ClientError({self.args[0]})"


class Now:
    ms = 0

    def __call__(self) -> int:
        return self.ms


def log_nasty_values(stream: io.StringIO, json: bool) -> None:
    events.configure("INFO", json=json, stream=stream)
    log = events.event_log("network")
    log.warning("connection_refused", client_id=NASTY, name=PLAIN_NAME)
    log.warning("connection_refused", topics=[NASTY], error=ClientError(NASTY))
    for character in NASTY:
        log.warning("connection_refused", client_id=character)
    try:
        raise ClientError(f"x\n2026-01-01 [info] stopped{NASTY}")
    except ClientError:
        log.error("failed", exc_info=True)


@pytest.mark.mission("SAFE-23")
@pytest.mark.parametrize("as_json", [False, True])
def test_every_unprintable_character_is_escaped(as_json: bool) -> None:
    stream = io.StringIO()
    log_nasty_values(stream, as_json)
    written = stream.getvalue()
    assert {c for c in written if not c.isprintable()} == {"\n"}
    starts = [line for line in written.split("\n") if line and not line.startswith(" ")]
    assert len(starts) == 3 + len(NASTY)  # one for each event
    if as_json:
        first = json.loads(written.split("\n")[0])
        assert (first["client_id"], first["name"]) == (NASTY, PLAIN_NAME)
    else:
        assert f"name={PLAIN_NAME}" in written
        assert r"\x1b[2J\r\n" in written


@pytest.mark.mission("SAFE-23")
def test_on_a_terminal_only_the_colours_are_control_sequences() -> None:
    stream = Terminal()
    log_nasty_values(stream, json=False)
    written = re.sub(r"\x1b\[\d*m", "", stream.getvalue())
    assert {c for c in written if not c.isprintable()} == {"\n"}
    assert PLAIN_NAME in written


def logged(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.mission("SAFE-24")
def test_events_of_one_client_and_cause_are_bounded() -> None:
    stream, now = io.StringIO(), Now()
    events.configure("INFO", json=True, stream=stream, monotonic_ms=now)
    log = events.event_log("network")
    for _ in range(1000):
        log.warning("connection_refused", client="10.0.0.1", reason="bad_frame")
    assert len(logged(stream)) == 100
    log.warning("connection_refused", client="10.0.0.1", reason="bad_header")
    log.warning("connection_refused", client="10.0.0.2", reason="bad_frame")
    assert len(logged(stream)) == 102
    now.ms = 1000
    log.warning("connection_refused", client="10.0.0.1", reason="bad_frame")
    assert logged(stream)[-1]["suppressed"] == 900


@pytest.mark.mission("SAFE-24")
def test_events_of_a_request_carry_its_client_and_are_bounded() -> None:
    stream = io.StringIO()
    events.configure("INFO", json=True, stream=stream, monotonic_ms=Now())
    log = events.event_log("topic-admin")
    with events.serving_client("10.0.0.1"):
        for _ in range(200):
            log.info("topic_not_created", topic="x" * 32_000)
    assert {row["client"] for row in logged(stream)} == {"10.0.0.1"}
    assert len(logged(stream)) == 100
    assert logged(stream)[0]["topic"] == "x" * 1000 + "... (32000 characters)"


def test_a_timer_is_not_part_of_the_request_that_sets_it() -> None:
    stream = io.StringIO()
    events.configure("INFO", json=True, stream=stream)

    async def main() -> None:
        called = asyncio.Event()

        def on_timer() -> None:
            events.event_log("isr").info("isr_shrunk")
            called.set()

        with events.serving_client("10.0.0.1"):
            RealClock().call_later(0, on_timer)
        await called.wait()

    run(main())
    assert "client" not in logged(stream)[0]


def test_events_of_the_broker_itself_are_not_bounded() -> None:
    stream = io.StringIO()
    events.configure("INFO", json=True, stream=stream, monotonic_ms=Now())
    log = events.event_log("state-change")
    for _ in range(1000):
        log.info("leader_elected")
    assert len(logged(stream)) == 1000
    assert "client" not in logged(stream)[0]


def test_events_are_printed_from_a_level_on(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    with events.printed("ERROR"):
        log = events.event_log("channel")
        log.warning("connection_failed")
        assert not structlog.is_configured()
        log.bind(host="h").error("login_failed", port=1)
        log.error("login_failed", port=2)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("]", 1)[1].split() for line in lines] == [
        ["login_failed", "component=channel", "host=h", "port=1"],
        ["login_failed", "component=channel", "port=2"],
    ]
