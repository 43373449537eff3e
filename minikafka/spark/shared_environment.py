"""Keeps Spark from breaking streams that start at the same time.

Spark has one Python function for each data source of a JVM. All queries share it, and with it the
environment variables of its workers, a map that is not made for several threads. Each stream puts
four variables into it when it starts. If two streams do so for the first time at once, the map may
lose one and keep counting it. From then on no task can be serialized: ``Illegal size 5 of
collection, expected 6`` (seen with Spark 4.3.0). To put a variable that is there already is safe.
"""

from __future__ import annotations

from typing import Any, Final

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
