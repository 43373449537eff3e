"""The one line that tells a person why a pipeline failed, out of what Spark says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# What a traceback of Python ends with: package.module.SomeError: text
_RAISED: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<said>[A-Za-z_]\w*(?:Error|Exception): .+)")
# What Py4J says before it comes to the point.
_CALLING: Final = "An error occurred while calling "
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_LONGEST: Final = 500


class PipelineError(RuntimeError):
    """A pipeline that cannot be run, or has failed; the message is one line for a person."""


def cause_of(error: BaseException | str) -> str:
    """The last exception of a Python traceback if there is one in the text, else its first line,
    or of an error in Java that Py4J brings the second."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        raised = [match["said"] for line in lines if (match := _RAISED.fullmatch(line))]
        lines = raised[-1:] or lines
    elif len(lines) > 1 and lines[0].startswith(_CALLING):
        in_java = lines[1].removeprefix(": ")
        match = _RAISED.fullmatch(in_java)
        lines = [match["said"] if match else in_java]
    first = lines[0] if lines else type(error).__name__
    return _STATE.sub("", first)[:_LONGEST]


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
