"""A handler that is made at its first request."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from minikafka.node.late_handler import LateHandler

SINK: ContextVar[str] = ContextVar("sink")


@pytest.mark.mission("SCALE-11")
def test_a_handler_is_made_once_at_its_first_request_in_the_context_of_its_route() -> None:
    made: list[str] = []

    def make() -> Callable[..., Any]:
        made.append(SINK.get())
        return lambda *request: request

    SINK.set("of the node")
    handler = LateHandler(make)
    SINK.set("of a connection")
    assert made == []
    assert handler("context", 1) == ("context", 1)
    assert handler("context", 2, "reply") == ("context", 2, "reply")
    assert made == ["of the node"]
