"""BROKER_LOGGER (KIP-412): levels of loggers described and altered, and what that changes."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from minikafka.core.config_resources import AlterOperation, ConfigSource
from minikafka.kernel import events
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.broker.admin.broker_loggers import VALID_LEVELS, BrokerLoggers
from minikafka.server.broker.admin.config_alterations import Change

SET, DELETE, APPEND, SUBTRACT = AlterOperation
PACKAGE = Path(events.__file__).parents[1]
BAD_REQUEST, BAD_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What the process logs at INFO, as a broker is started."""
    before = structlog.get_config()
    written = io.StringIO()
    events.configure("INFO", stream=written)
    yield written
    structlog.configure(**before)


def said(stream: io.StringIO) -> list[str]:
    """The events logged since the last look."""
    lines = [line.split("] ")[1].split()[0] for line in stream.getvalue().splitlines()]
    stream.seek(0)
    stream.truncate()
    return lines


def levels(loggers: BrokerLoggers) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in loggers.entries("1")}


def test_every_component_that_logs_is_a_logger_and_no_other() -> None:
    named = {
        node.args[0].value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("event_log")
        and isinstance(node.args[0], ast.Constant)
    }
    # The processes of the proxy and of the page have no broker.
    assert named - {"proxy", "page"} == set(events.LOGGERS)
    assert list(events.LOGGERS) == sorted(events.LOGGERS)


@pytest.mark.mission("CFG-6")
def test_all_are_described_with_the_level_of_the_root(stream: io.StringIO) -> None:
    entries = BrokerLoggers(1).entries("1")
    assert [entry.name for entry in entries] == ["root", *events.LOGGERS]
    assert {entry.value for entry in entries} == {"INFO"}
    assert {entry.source for entry in entries} == {ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG}
    assert not any(entry.read_only or entry.sensitive or entry.synonyms for entry in entries)


@pytest.mark.mission("CFG-6")
def test_a_level_counts_from_the_next_event_on_for_loggers_that_exist(stream: io.StringIO) -> None:
    loggers = BrokerLoggers(1)
    controller, network = events.event_log("controller", broker=1), events.event_log("network")
    bound = controller.bind(epoch=3)
    for log in (controller, bound, network):
        log.debug("before")
    assert said(stream) == []
    loggers.alter("1", [Change("controller", "DEBUG")], False)
    assert said(stream) == ["log_level_altered"]
    for log in (controller, bound, network):
        log.debug("now")
    assert said(stream) == ["now", "now"]
    assert {k: v for k, v in levels(loggers).items() if v != "INFO"} == {"controller": "DEBUG"}
    loggers.alter("1", [Change("controller", None, DELETE)], False)
    said(stream)
    controller.debug("off_again")
    controller.info("still_on")
    assert said(stream) == ["still_on"]


@pytest.mark.mission("CFG-6")
def test_the_root_counts_for_loggers_without_a_level(stream: io.StringIO) -> None:
    loggers = BrokerLoggers(1)
    changes = [Change("root", "ERROR"), Change("network", "TRACE")]
    loggers.alter("1", changes, False)
    assert levels(loggers)["root"] == levels(loggers)["controller"] == "ERROR"
    assert levels(loggers)["network"] == "TRACE"
    said(stream)
    events.event_log("controller").warning("off")
    events.event_log("network").debug("on")
    events.event_log("controller").error("error")
    assert said(stream) == ["on", "error"]


@pytest.mark.parametrize("level", VALID_LEVELS)
def test_each_level_passes_events_of_at_least_its_severity(stream: io.StringIO, level: str) -> None:
    BrokerLoggers(1).alter("1", [Change("network", level)], False)
    said(stream)
    log = events.event_log("network")
    log.debug("debug")
    log.info("info")
    log.warning("warn")
    log.error("error")
    order = ["debug", "info", "warn", "error", "fatal"]
    least = "debug" if level == "TRACE" else level.lower()
    assert said(stream) == [each for each in order[order.index(least) :] if each != "fatal"]


def test_only_validated_changes_nothing(stream: io.StringIO) -> None:
    loggers = BrokerLoggers(1)
    loggers.alter("1", [Change("network", "DEBUG")], True)
    assert levels(loggers)["network"] == "INFO"
    assert said(stream) == []


@pytest.mark.mission("CFG-6")
@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (Change("nobody", "INFO"), BAD_CONFIG, "Logger nobody does not exist!"),
        (Change("nobody", None, DELETE), BAD_CONFIG, "Logger nobody does not exist!"),
        *(
            (
                Change("network", level),
                BAD_CONFIG,
                (
                    f"Cannot set the log level of network to {level} as it is not a supported log "
                    "level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
                ),
            )
            for level in ("debug", "OFF", "")
        ),
        (
            Change("root", None, DELETE),
            BAD_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            Change("network", "INFO", APPEND),
            BAD_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            Change("network", "INFO", SUBTRACT),
            BAD_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            Change("network", "INFO", 9),
            BAD_REQUEST,
            "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_refused_with_kafkas_words_and_nothing_altered(
    stream: io.StringIO, change: Change, code: ErrorCode, message: str
) -> None:
    loggers = BrokerLoggers(1)
    with pytest.raises(KafkaError) as raised:
        loggers.alter("1", [Change("controller", "DEBUG"), change], False)
    assert (raised.value.code, raised.value.message) == (code, message)
    assert set(levels(loggers).values()) == {"INFO"}


@pytest.mark.parametrize(
    ("name", "described", "altered"),
    [
        ("", "Broker id must not be empty", "Node id must be an integer, but it is: "),
        (
            "one",
            "Broker id must be an integer, but it is: one",
            "Node id must be an integer, but it is: one",
        ),
        (
            "2",
            "Unexpected broker id, expected 1 but received 2",
            "Unexpected node id. Expected 1, but received 2",
        ),
    ],
)
def test_only_the_addressed_broker_responds(name: str, described: str, altered: str) -> None:
    loggers = BrokerLoggers(1)
    with pytest.raises(KafkaError) as raised:
        loggers.entries(name)
    assert (raised.value.code, raised.value.message) == (BAD_REQUEST, described)
    with pytest.raises(KafkaError) as raised:
        loggers.alter(name, [Change("network", "INFO")], False)
    assert (raised.value.code, raised.value.message) == (BAD_REQUEST, altered)
