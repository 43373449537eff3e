"""Handlers of the APIs that few clients use: each is made, and its module imported, at the first
request."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class LateHandler:
    """A handler of either kind (``requests.apis``) that ``make`` returns at its first request.

    It is made in the context in which this object is made, so that its events reach the same
    sinks."""

    __slots__ = ("_context", "_handler", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._context = copy_context()
        self._make = make
        self._handler: Callable[..., Any] | None = None

    def __call__(self, *request: Any) -> Any:
        if self._handler is None:
            self._handler = self._context.run(self._make)
        return self._handler(*request)
