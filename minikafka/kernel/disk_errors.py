"""Which errors of ``Files`` mean that a disk is broken: the one place that decides it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Final

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
