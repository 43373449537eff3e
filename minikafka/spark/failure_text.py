"""The one line that tells a person why Spark failed, out of the pages that Spark says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_OURS: Final = "minikafka."
_MODULE: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*(?::|$))")
_ERROR: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception): .+")
# What Py4J says before it comes to the point.
_CALLING: Final = "An error occurred while calling "
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_LONGEST: Final = 500


def cause_of(error: BaseException | str) -> str:
    """Reduce an error to one line.

    From a text with a Python traceback, return the last exception of minikafka, or the last
    exception of all if none is ours: what PySpark raises after ours does not explain anything.
    From other texts return the first line, or the second if Py4J puts a line before the error."""
    text = str(error)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if _TRACEBACK in text:
        raised = list(_raised(lines))
        ours = [line for line in raised if line.startswith(_OURS)]
        found = ours or raised
        lines = [_MODULE.sub("", found[-1])] if found else lines
    elif len(lines) > 1 and lines[0].startswith(_CALLING):
        in_java = lines[1].removeprefix(": ")
        lines = [_MODULE.sub("", in_java) if _ERROR.fullmatch(in_java) else in_java]
    first = lines[0].strip() if lines else type(error).__name__
    return _STATE.sub("", first)[:_LONGEST]


def _raised(lines: list[str]) -> Iterator[str]:
    """Yield the exceptions of all tracebacks in the text, in order, with their modules.

    The line of an exception is the first one below its traceback that is not indented. A log may
    indent the traceback as a whole; then only names that end in Error or Exception are found."""
    inside = False
    for line in lines:
        if line.endswith(_TRACEBACK):
            inside = True
        elif (inside and not line[0].isspace()) or _ERROR.fullmatch(line.strip()):
            inside = False
            yield line.strip()
