"""The one line that tells a person why a pipeline failed, out of what Spark says of it."""

from __future__ import annotations

import re
from typing import Final

# What a traceback of Python ends with: package.module.SomeError: text
_RAISED: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<said>[A-Za-z_]\w*(?:Error|Exception): .+)")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_LONGEST: Final = 500


class PipelineError(RuntimeError):
    """A pipeline that cannot be run, or has failed; the message is one line for a person."""


def cause_of(error: BaseException | str) -> str:
    """The last exception of a Python traceback if there is one in the text, else its first line."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        raised = [match["said"] for line in lines if (match := _RAISED.fullmatch(line))]
        lines = raised[-1:] or lines
    first = lines[0] if lines else type(error).__name__
    return _STATE.sub("", first)[:_LONGEST]
