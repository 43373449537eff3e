"""Translates exceptions of the libraries below the ports into OSError."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# What Python raises, besides OSError, for arguments that a system call cannot have: NUL and lone
# surrogates in names (ValueError, UnicodeError), numbers beyond C's types (OverflowError), and more
# bytes than there is memory for.
LIBRARY_ERRORS = (ValueError, OverflowError, MemoryError, RecursionError)


def as_os_error(error: Exception, subject: object) -> OSError:
    """Return the OSError for one of ``LIBRARY_ERRORS``. ``subject`` is a path or an address."""
    code = errno.ENOMEM if isinstance(error, MemoryError) else errno.EINVAL
    return OSError(code, f"{os.strerror(code)}: {error}", ascii(subject)[:300])


def raising_os_errors(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that it raises OSError instead of ``LIBRARY_ERRORS``. The error names its
    first argument that is a string, the path."""

    @wraps(call)
    def wrapped(*args: P.args, **options: P.kwargs) -> T:
        try:
            return call(*args, **options)
        except LIBRARY_ERRORS as error:
            path = next((argument for argument in args if isinstance(argument, str)), "")
            raise as_os_error(error, path) from error

    return wrapped
