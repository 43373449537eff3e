"""The names of error numbers in events: numbers differ between platforms, names do not."""

from __future__ import annotations

import errno
import re
from collections.abc import MutableMapping
from typing import Any, TypeVar

Facts = TypeVar("Facts", bound=MutableMapping[str, Any])

_NUMBER = re.compile(r"\[Errno (\d+)\]")
_MARK = "[Errno "


def with_errno_names(text: str) -> str:
    """Replace ``[Errno 104]``, as ``str(OSError)`` writes it, by ``[ECONNRESET]``. A number without
    a name stays."""
    return _NUMBER.sub(_name, text) if _MARK in text else text


def name_errnos(facts: Facts) -> Facts:
    """Replace the error numbers in the facts of an event, and return the same mapping.

    An exception whose message has a number is replaced by that message. ``exc_info``, of which
    structlog makes a traceback, stays.
    """
    for key, value in facts.items():
        if isinstance(value, str):
            if _MARK in value:
                facts[key] = with_errno_names(value)
        elif isinstance(value, BaseException) and key != "exc_info" and _MARK in str(value):
            facts[key] = with_errno_names(str(value))
    return facts


def _name(match: re.Match[str]) -> str:
    name = errno.errorcode.get(int(match[1]))
    return match[0] if name is None else f"[{name}]"
