"""The error that ends a pipeline, and Spark's errors turned into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minikafka.spark.failure_text import cause_of


class PipelineError(RuntimeError):
    """A pipeline that cannot be run, or has failed; the message is one line for a person."""


@contextmanager
def spark_told_in_a_line(log: Path) -> Iterator[None]:
    """Within the block what Spark raises becomes a PipelineError: a master that is none, a catalog
    that another process has, a JVM that did not start. ``log`` has more of it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{cause_of(error)} (log: {log})") from error
