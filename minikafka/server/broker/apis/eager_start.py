"""Coroutines of handlers that begin without a task."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from minikafka.kernel.errors import KafkaError
from minikafka.server.broker.apis.request import Reply


def begun(work: Coroutine[Any, Any, None], reply: Reply) -> Coroutine[Any, Any, None] | None:
    """Run a coroutine up to its first pause. Return what is left, to be run as a task; None if
    nothing is. Raises what it raises before the pause; a KafkaError after it goes to ``reply``."""
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return _rest(work, awaited, reply)


async def _rest(work: Coroutine[Any, Any, None], awaited: Any, reply: Reply) -> None:
    try:
        await _resumed(work, awaited)
    except KafkaError as error:
        reply(error)


@types.coroutine
def _resumed(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Run a coroutine that waits for ``awaited`` to its end."""
    resume: Callable[[], Any]
    while True:
        try:
            sent = yield awaited
        except BaseException as error:
            resume = partial(work.throw, error)
        else:
            resume = partial(work.send, sent)
        try:
            awaited = resume()
        except StopIteration:
            return
