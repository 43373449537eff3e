"""A handler that is made at its first request."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import diverted
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


@pytest.mark.mission("SCALE-11")
@pytest.mark.parametrize(
    "lack", [OSError(errno.EMFILE, "no descriptor"), MemoryError(), ImportError("dlopen")], ids=repr
)
def test_a_handler_that_could_not_be_made_fails_one_request_and_is_made_at_the_next(
    lack: Exception,
) -> None:
    lacks = [lack]
    events: list[str] = []

    def make() -> Callable[..., Any]:
        if lacks:
            raise lacks.pop()
        return lambda *request: request

    with diverted(lambda level, event, facts: events.append(event)):
        handler = LateHandler(make)
        with pytest.raises(KafkaError) as failed:
            handler("context", 1)
        assert failed.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert handler("context", 2) == ("context", 2)
    assert events == ["handler_import_failed"]
