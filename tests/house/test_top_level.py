"""The agreed top level, and its tools: structlog for events, pytest-asyncio for tests."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import tomllib

import pytest
import structlog

from minikafka.kernel import events
from tests.support.sources import ROOT, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

AGREED = ("pyproject.toml", "minikafka", "config", "scripts", "tests", "docker-compose.yml")


@pytest.mark.mission("CRD-5")
@pytest.mark.parametrize("name", AGREED)
def test_the_top_level_has(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.mission("CRD-5")
def test_events_are_structlogs() -> None:
    """One line of JSON an event, made by structlog with the facts that were bound."""
    before = structlog.get_config()
    stream = io.StringIO()
    try:
        events.configure("INFO", json=True, stream=stream)
        log = events.event_log("controller", broker=1)
        log.debug("not_shown")
        log.bind(topic="t").info("leader_elected", epoch=3)
    finally:
        structlog.configure(**before)
    (line,) = stream.getvalue().splitlines()
    facts = json.loads(line)
    assert facts.pop("timestamp")
    assert facts == {
        "event": "leader_elected", "level": "info", "component": "controller",
        "broker": 1, "topic": "t", "epoch": 3,
    }  # fmt: skip


@pytest.mark.mission("CRD-5")
def test_nothing_else_logs() -> None:
    importing = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "logging" in (getattr(node, "module", None), *(alias.name for alias in node.names))
    }
    # kazoo wants a logger of the standard library: it gets one that is silent below errors.
    assert importing == {"minikafka/world/real/zookeeper.py"}


@pytest.mark.mission("CRD-5")
async def test_coroutines_are_tests(request: pytest.FixtureRequest) -> None:
    """Without a mark: pytest-asyncio in its mode "auto" runs them on a loop."""
    assert asyncio.get_running_loop().is_running()
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["asyncio_mode"] == "auto"
    assert request.config.pluginmanager.has_plugin("asyncio")
