"""A program that starts a Spark Connect server and a client, and stops the server at its end.

Spark's script ``spark-pipelines`` starts such a server too, but always on port 15002, so that two
runs on one machine collide. This server listens on a port of 127.0.0.1 that the system chooses."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from minikafka.spark.starting import fill_shared_environment

_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
SERVER_SETTINGS: Final = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}


def main() -> int:
    """Run the command in this program's arguments, a client that reads the server's URL from its
    standard input. It starts at once, together with the server.

    Returns the command's exit status. The server takes its settings from ``PYSPARK_SUBMIT_ARGS``,
    which must have ``SERVER_SETTINGS`` among them."""
    # The server rejects clients without this token. Only the command gets it.
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = secrets.token_hex(16)
    # The input of the command ends if the server does not start.
    with (
        subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, text=True) as command,
        _server() as url,
    ):
        command.communicate(f"{url}\n")
    return command.returncode


@contextmanager
def _server() -> Iterator[str]:
    """Run a Spark session whose JVM is also a Spark Connect server. Yields the server's URL."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    try:
        fill_shared_environment(session)
        service = getattr(session.sparkContext._jvm, _SERVICE)
        # Without TLS, PySpark sends the token to the host name localhost only.
        yield f"sc://localhost:{getattr(service, 'MODULE$').localPort()}"
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())
