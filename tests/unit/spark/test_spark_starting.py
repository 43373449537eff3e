"""Queries are started again if their Python process was too slow, and raise any other failure."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

from minikafka.spark.starting import start_query

pytestmark = pytest.mark.mission("SPK-2")

SLOW = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."
OTHER = "[STREAM_FAILED] Query terminated with exception: topic t: does not exist"


class Query:
    """A query as ``start`` returns it: running, or failed with a text."""

    def __init__(self, failure: str | None) -> None:
        self.isActive = failure is None
        self.lastProgress = {"batchId": 0}
        self.status = {"message": ""}
        self._failure = failure

    def exception(self) -> StreamingQueryException | None:
        return None if self._failure is None else StreamingQueryException(self._failure)


class Starts:
    """Starts queries that fail in turn with ``failures``, and keeps them."""

    def __init__(self, failures: list[str | None]) -> None:
        self.failures = failures
        self.made: list[Query] = []

    def __call__(self) -> Any:
        self.made.append(Query(self.failures[len(self.made)]))
        return self.made[-1]


def announced(starts: int) -> list[str]:
    """The lines that a query's later starts are announced by, without their reason."""
    return [f"query=orders started again attempt={number} of=4" for number in range(2, starts + 1)]


@pytest.mark.parametrize("failures", [[None], [SLOW, SLOW, None]])
def test_a_query_is_started_again_if_its_python_was_slow(failures: list[str | None]) -> None:
    lines: list[str] = []
    starts = Starts(failures)
    query = start_query(starts, lines.append, "orders", attempts=4)
    assert query is starts.made[-1]  # type: ignore[comparison-overlap]
    assert len(starts.made) == len(failures)
    assert [line.partition(": ")[0] for line in lines] == announced(len(failures))
    assert all("did not connect within the 10 s" in line for line in lines)


@pytest.mark.parametrize(
    ("failures", "starts"),
    [([OTHER, None], 1), ([SLOW, OTHER, None], 2), ([SLOW] * 9, 4)],
)
def test_a_query_that_fails_raises_its_exception(failures: list[str | None], starts: int) -> None:
    """For another reason, or because it was too slow each time."""
    lines: list[str] = []
    start = Starts(failures)
    with pytest.raises(StreamingQueryException) as raised:
        start_query(start, lines.append, "orders", attempts=4)
    assert str(failures[starts - 1]) in str(raised.value)
    assert len(start.made) == starts
    assert [line.partition(": ")[0] for line in lines] == announced(starts)


def test_a_query_that_has_ended_without_failing_is_returned() -> None:
    """With the trigger availableNow, say."""
    ended = Query(None)
    ended.isActive = False
    assert start_query(lambda: ended, print, "orders") is ended  # type: ignore[arg-type, return-value, comparison-overlap]  # a fake query
