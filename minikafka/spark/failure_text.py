"""Extracts the cause from Spark's error texts, which may be pages long, as one line, and names the
ACL whose lack an error means."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final

from minikafka.kernel.errors import ErrorCode

_TRACEBACK: Final = "Traceback (most recent call last):"
_OURS: Final = "minikafka."
_MODULE: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*(?::|$))")
_ERROR: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception): .+")
# The line that Py4J puts before the exception of the JVM.
_CALLING: Final = "An error occurred while calling "
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_LONGEST: Final = 500


def cause_of(error: BaseException | str) -> str:
    """Return the line of an error's text that explains the failure, at most 500 characters.

    If the text has a Python traceback, this is the last exception that minikafka raised, because
    those that PySpark raises afterwards do not explain anything; or the last exception if
    minikafka raised none. Otherwise it is the first line, or the second if the first is Py4J's."""
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


def print_to_stderr(line: str) -> None:
    """Print a line to the log of the driver or executor, for the user of a query that goes on."""
    sys.stderr.write(f"minikafka: {line}\n")
    sys.stderr.flush()


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


READ: Final = "Read"
WRITE: Final = "Write"
SEEN: Final = "Read, or for a sink Write,"  # each of them lets a client see the topic


def missing_acl(code: ErrorCode, on_topics: str) -> str:
    """Return what to append to the message of an error: the ACL that the principal lacks.

    ``on_topics`` is the operation that the failed request needs on its topics. The result is empty
    if the error does not mean that an ACL is missing."""
    needed = {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: f"{on_topics} on the topic",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Read on the group",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Write on the transactional id",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Write on a topic, or IdempotentWrite on the "
        "cluster",
    }.get(code)
    return f" (missing ACL: {needed})" if needed else ""
