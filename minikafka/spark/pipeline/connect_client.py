"""A program that imports PySpark's program for pipelines while its server starts, and then runs it.

The imports take about as long as the start of the server's JVM."""

from __future__ import annotations

import os
import sys
from importlib import import_module

# What the program for pipelines imports when it uses the session.
_NEEDED_LATER = ("grpc", "pandas", "pyarrow", "pyspark.sql.connect.session")


def main() -> None:
    """Run the command in this program's arguments when the server's URL is on standard input.

    The program ends without an error if the input ends before that: the server did not start, and
    has said why."""
    from pyspark.pipelines import cli

    for name in _NEEDED_LATER:
        import_module(name)
    url = sys.stdin.readline().strip()
    if url:
        os.environ["SPARK_REMOTE"] = url
        cli.main()


if __name__ == "__main__":
    main()
