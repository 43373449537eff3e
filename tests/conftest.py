"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings
from xdist.remote import Producer

from minikafka.kernel.compiled import build_name
from tests.support.cluster.migration_matrix import matrix_lines, recorded_rows
from tests.support.compiled import skip_replacements
from tests.support.distribution import FileScheduling, long_ones_first

LONGEST_ID = 200  # characters of an argument in the name of a test

# No test asserts a duration: a busy machine may need longer than the default of 200 ms.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    if build_name() == "compiled":
        skip_replacements(pytest.MonkeyPatch)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without the garbage collector: each of some ten passes over what the modules and
    tests consist of finds nothing, then and later. Together they take a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A test of a record of a megabyte does not bear all of it in its name, which a worker sends
    with each report."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname}_of_{len(val)}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long_ones_first(items, Path(__file__).parent)
    if build_name() == "compiled":
        for item in items:
            if item.get_closest_marker("interpreted"):
                item.add_marker(pytest.mark.skip("the build is compiled"))


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody calls it
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """A verb that a test runs in its process decides what the process logs: not for later tests."""
    before = structlog.get_config()
    try:
        return (yield)
    finally:
        structlog.configure(**before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of migrations and kills beside Kafka. It is here and not in tests/kafka, as
    the process that prints does not read that folder when others run the tests."""
    rows = recorded_rows(terminalreporter.getreports("passed"))
    if rows:
        terminalreporter.section("migrations and kills under load", sep="-")
        for line in matrix_lines(rows):
            terminalreporter.write_line(line)
