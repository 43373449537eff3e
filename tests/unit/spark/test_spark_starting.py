"""Queries whose Python process was too slow for Spark are started again, and the user sees why."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.spark.starting import start_query

pytestmark = pytest.mark.mission("SPK-2")

SLOW = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."


class Query:
    """A query as ``start`` returns it: running, or failed with a text."""

    def __init__(self, failure: str | None) -> None:
        self.isActive = failure is None
        self.lastProgress = {"batchId": 0}
        self.status = {"message": ""}
        self._failure = failure

    def exception(self) -> str | None:
        return self._failure


@pytest.mark.parametrize(
    ("failures", "starts"),
    [
        ([None], 1),
        ([SLOW, SLOW, None], 3),
        (["topic t: does not exist", None], 1),
        ([SLOW, "topic t: does not exist", None], 2),
        ([SLOW] * 9, 4),
    ],
)
def test_a_query_is_started_again_only_if_its_python_was_slow(
    failures: list[str | None], starts: int
) -> None:
    made: list[Any] = []
    lines: list[str] = []

    def start() -> Any:
        made.append(Query(failures[len(made)]))
        return made[-1]

    query = start_query(start, lines.append, "orders", attempts=4)
    assert query is made[-1]
    assert len(made) == starts
    assert [line.partition(": ")[0] for line in lines] == [
        f"query=orders started again attempt={attempt} of=4" for attempt in range(2, starts + 1)
    ]
    assert all("not up within the 10 s" in line for line in lines)
