"""Handlers of the APIs that few clients use: each is made, and its module imported, at the first
request."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import event_log


class LateHandler:
    """A handler of either kind (``requests.routes``) that ``make`` returns at its first request.

    It is made in the context in which this object is made, so that its events reach the same
    sinks. If it cannot be made, because the process has no descriptor or memory left for the
    import, the request fails with UNKNOWN_SERVER_ERROR, and the next one tries again: nothing has
    changed, so that this is no reason to stop the broker."""

    __slots__ = ("_context", "_handler", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._context = copy_context()
        self._make = make
        self._handler: Callable[..., Any] | None = None

    def __call__(self, *request: Any) -> Any:
        if self._handler is None:
            self._handler = self._context.run(self._made)
        return self._handler(*request)

    def _made(self) -> Callable[..., Any]:
        try:
            return self._make()
        except (ImportError, MemoryError, OSError) as error:
            event_log("late-handler").error("handler_import_failed", error=repr(error))
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the handler was not made") from error
