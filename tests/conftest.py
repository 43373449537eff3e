"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.support.cluster.migration_matrix import matrix_lines, recorded_rows

# No test asserts a duration: a busy machine may need longer than the default of 200 ms.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of migrations and kills beside Kafka. It is here and not in tests/kafka, as
    the process that prints does not read that folder when others run the tests."""
    rows = recorded_rows(terminalreporter.getreports("passed"))
    if rows:
        terminalreporter.section("migrations and kills under load", sep="-")
        for line in matrix_lines(rows):
            terminalreporter.write_line(line)
