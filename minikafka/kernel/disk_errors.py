"""Which errors of ``Files`` mean that a disk is broken: the one place that decides it.

And the names of error numbers in events: numbers differ between platforms, names do not.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, MutableMapping
from typing import Any, Final, TypeVar

_FULL: Final = {errno.ENOSPC, errno.EDQUOT}
# The process or the system has no descriptor, thread or memory left. This concerns no disk.
_OUT_OF_DESCRIPTORS: Final = {errno.EMFILE, errno.ENFILE}
_OUT_OF_RESOURCES: Final = {*_OUT_OF_DESCRIPTORS, errno.ENOMEM, errno.EAGAIN}


class NotWritten(OSError):
    """A file could not be written before a flush, so that nothing was flushed."""


@contextlib.contextmanager
def before_flush() -> Iterator[None]:
    """Raise NotWritten for an OSError."""
    try:
        yield
    except OSError as error:
        raise NotWritten(error.errno, error.strerror, error.filename) from error


def is_disk_full(error: OSError) -> bool:
    return error.errno in _FULL


def is_out_of_descriptors(error: OSError) -> bool:
    """Return whether a file could not be opened for lack of descriptors: nothing was done."""
    return error.errno in _OUT_OF_DESCRIPTORS


def was_not_flushed(error: OSError) -> bool:
    """Return whether a flush has ended before it began, and may be repeated: a file could not be
    opened for lack of descriptors, or not be written since the disk is full. After any other error
    the kernel may have dropped what was not on disk."""
    return is_out_of_descriptors(error) or (isinstance(error, NotWritten) and is_disk_full(error))


def is_out_of_resources(error: OSError) -> bool:
    """Return whether the process, and not a disk, lacks something: descriptors, threads, memory."""
    return error.errno in _OUT_OF_RESOURCES


def is_disk_broken(error: OSError) -> bool:
    """Return whether the error takes a log directory offline while the broker runs.

    Kafka takes the directory offline for every error. Here it stays online if the disk is full, or
    if the process lacks something: that passes."""
    return not is_disk_full(error) and not is_out_of_resources(error)


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
