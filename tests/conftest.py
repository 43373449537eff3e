"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import structlog
from hypothesis import settings

from tests.support.cluster.migration_matrix import matrix_lines, recorded_rows

# No test asserts a duration: a busy machine may need longer than the default of 200 ms.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


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
