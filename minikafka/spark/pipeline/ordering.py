"""In which order the flows of a pipeline are resolved: by trying, as they read by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E")


def resolve_all(items: Iterable[T], attempt: Callable[[T], E | None]) -> tuple[list[T], list[E]]:
    """The items in the order in which they succeeded, and what the others lack, which is none if
    all have. ``attempt`` returns None if the item has succeeded, else what is missing yet: the
    item is tried again once others have succeeded."""
    pending = list(items)
    done: list[T] = []
    while pending:
        results = [(item, attempt(item)) for item in pending]
        done += [item for item, missing in results if missing is None]
        left = [(item, missing) for item, missing in results if missing is not None]
        if len(left) == len(pending):
            return done, [missing for _, missing in left]
        pending = [item for item, _ in left]
    return done, []
