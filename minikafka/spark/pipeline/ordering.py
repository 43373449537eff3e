"""In which order the flows of a pipeline are resolved: by trying, as they read by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def resolve_all(items: Iterable[T], attempt: Callable[[T], Exception | None]) -> list[T]:
    """The items in the order in which they succeeded. ``attempt`` returns None then, and else the
    error that says what is missing yet: such an item is tried again once others have succeeded.

    Raises the first error of those that never succeed."""
    pending = list(items)
    done: list[T] = []
    while pending:
        errors = [(item, attempt(item)) for item in pending]
        done += [item for item, error in errors if error is None]
        left = [(item, error) for item, error in errors if error is not None]
        if len(left) == len(pending):
            raise left[0][1]
        pending = [item for item, _ in left]
    return done
