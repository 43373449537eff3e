"""Starts streaming queries on a machine that may be too busy for Spark's time limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ATTEMPTS: Final = 6
SETTLE_MS: Final = 30_000
_LOOK_S: Final = 0.05
# Spark waits 10 s for the Python process of a streaming source. No setting changes that.
_TOO_SLOW: Final = "Python worker failed to connect back"


def start_query(
    start: Callable[[], StreamingQuery],
    show: Callable[[str], object],
    name: str,
    attempts: int = ATTEMPTS,
) -> StreamingQuery:
    """Start a query and return it when it has done a batch or has none to do. Call this for one
    query after the other: queries that start at once compete for the processor.

    If Spark gave up on the query's Python process because it was not up within 10 s, start the
    query again, at most ``attempts`` times in all, and call ``show`` with a line that says why.
    Nothing is read or written before that process is up, so another start repeats nothing.

    Raises StreamingQueryException if the query failed for another reason or in the last attempt. A
    query that takes longer than 30 s for its first batch is returned and may fail later."""
    for attempt in range(1, attempts + 1):
        query = start()
        _let_settle(query)
        failure = None if query.isActive else query.exception()
        if failure is None:
            return query
        if _TOO_SLOW not in str(failure) or attempt == attempts:
            raise failure
        show(
            f"query={name} started again attempt={attempt + 1} of={attempts}: its Python process "
            "was not up within the 10 s that Spark waits (the machine is busy)"
        )
    raise AssertionError("at least one attempt")


def _let_settle(query: StreamingQuery) -> None:
    """Return when the query has ended, has done a batch or waits for records, or after 30 s."""
    clock = WallClock()
    deadline_ms = clock.monotonic_ms() + SETTLE_MS
    while (
        query.isActive
        and query.lastProgress is None
        and not query.status["message"].startswith("Waiting")
        and clock.monotonic_ms() < deadline_ms
    ):
        threading.Event().wait(_LOOK_S)
