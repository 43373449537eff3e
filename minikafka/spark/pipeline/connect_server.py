"""Run a command beside a Spark Connect server that lives as long as the command: a program.

Spark's script ``spark-pipelines`` starts such a server too, but always on port 15002, so that two
runs on one machine collide. This one listens on a port of 127.0.0.1 that the system chooses."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
SERVER_SETTINGS: Final = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}


def main() -> int:
    """Run the command that this program's arguments are, with the server's URL in ``SPARK_REMOTE``.
    Returns the command's exit status.

    The server takes its settings from ``PYSPARK_SUBMIT_ARGS``; ``SERVER_SETTINGS`` must be among
    them."""
    # Without the token the server refuses a client: only the command has it.
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = secrets.token_hex(16)
    with _server() as url:
        command = subprocess.run(sys.argv[1:], env={**os.environ, "SPARK_REMOTE": url}, check=False)
    return command.returncode


@contextmanager
def _server() -> Iterator[str]:
    """Start a Spark session whose JVM is a Spark Connect server too. Yields the server's URL."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    try:
        service = getattr(session.sparkContext._jvm, _SERVICE)
        # PySpark sends the token without TLS to this name only.
        yield f"sc://localhost:{getattr(service, 'MODULE$').localPort()}"
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())
