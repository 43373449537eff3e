"""The error that ends a pipeline, and the translation of Spark's errors into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minikafka.spark.failure_text import cause_of


class PipelineError(RuntimeError):
    """A pipeline cannot run, or it failed. The message is one line for the user."""


@contextmanager
def spark_errors_in_one_line(log: Path) -> Iterator[None]:
    """Turn the errors that Spark raises within the block into a PipelineError.

    Examples are an invalid master URL, a catalog that another process has locked, and a JVM that
    did not start. The message names ``log``, which has the whole of Spark's text."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{cause_of(error)} (log: {log})") from error
