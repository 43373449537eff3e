"""Starts streaming queries, and repeats a start that a busy machine was too slow for.

Spark gives the Python process of a streaming source 10 s to connect, and no setting changes that.

Streams that start at the same time can break each other, which ``fill_shared_environment``
prevents. Spark has one Python function for each data source of a JVM. All queries share it, and
with it the environment variables of its workers, a map that is not made for several threads. Each
stream puts four variables into it when it starts. If two streams do so for the first time at once,
the map may lose one and keep counting it. From then on no task can be serialized: ``Illegal size 5
of collection, expected 6`` (seen with Spark 4.3.0). To put a variable that is there already is
safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from minikafka.world.real.wall_clock import WallClock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


ATTEMPTS: Final = 6
SETTLE_MS: Final = 30_000
_POLL_INTERVAL_S: Final = 0.05
_TOO_SLOW: Final = "Python worker failed to connect back"  # in the text of Spark's exception


def start_query(
    start: Callable[[], StreamingQuery],
    show: Callable[[str], object],
    name: str,
    attempts: int = ATTEMPTS,
) -> StreamingQuery:
    """Start a query, and return it after its first batch or when it waits for new records.

    ``start`` starts the query. If the query fails because its Python process did not connect within
    Spark's 10 s, call ``start`` again, at most ``attempts`` times in all, and call ``show`` with
    one line that says so. A query reads and writes nothing before that process connects, so a
    repeated start does not duplicate records. Start several queries one after the other: starting
    together, they compete for the CPU and miss the 10 s.

    Raises StreamingQueryException if the query fails for another reason, or in the last attempt.
    A query whose first batch takes more than 30 s is returned while the batch runs."""
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
            "did not connect within the 10 s that Spark allows (the machine is busy)"
        )
    raise AssertionError(f"attempts must be positive: {attempts}")


def _let_settle(query: StreamingQuery) -> None:
    """Block until the query has completed a batch, waits for new records, or has ended; at most
    30 s."""
    clock = WallClock()
    deadline_ms = clock.monotonic_ms() + SETTLE_MS
    while (
        query.isActive
        and query.lastProgress is None
        and not query.status["message"].startswith("Waiting")
        and clock.monotonic_ms() < deadline_ms
    ):
        threading.Event().wait(_POLL_INTERVAL_S)


# What PythonStreamingSourceRunner.init puts. It overwrites the values, as every other user does.
_PUT_BY_STREAMS: Final = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)


def fill_shared_environment(session: Any) -> None:
    """Put the variables that streams put into the map that they share, before any stream starts.

    A session of Spark Connect, whose JVM is out of reach, is left as it is."""
    java_session = getattr(session, "_jsparkSession", None)
    if java_session is None:
        return
    source = java_session.sessionState().dataSourceManager().lookupDataSource("minikafka")
    environment = source.dataSourceCls().envVars()
    for name in _PUT_BY_STREAMS:
        environment.putIfAbsent(name, "")
