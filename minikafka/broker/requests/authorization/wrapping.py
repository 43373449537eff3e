"""How a guard is put around a handler: before it, or around its response.

Guards are coroutine functions. They run up to their first pause without a task, so that a request
that is decided about at once is served at once, as without a guard; a guard pauses only for a
request of hundreds of names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from minikafka.broker.requests.authorization.authorization import Authorization
from minikafka.broker.requests.eager_start import begun
from minikafka.broker.requests.routes import (
    ImmediateHandler,
    Reply,
    RequestContext,
    Route,
    TaskHandler,
)
from minikafka.kernel.errors import KafkaError


class Admitted(NamedTuple):
    """What a guard lets through: the rest of the request, and ``join``, which puts the refused rows
    into what the handler replies. Or, with ``request`` None, the ``response``: then the handler is
    not called."""

    request: Any
    join: Callable[[Any], Any] | None = None
    response: Any = None


# Decides before the handler is called. Raises KafkaError for the whole request.
Gate: TypeAlias = Callable[[Authorization, RequestContext, Any], Awaitable[Admitted]]
# Calls the handler, and returns its response after changes. Raises what the handler raises.
Serve: TypeAlias = Callable[[Any], Awaitable[Any]]
Filter: TypeAlias = Callable[[Authorization, RequestContext, Any, Serve], Awaitable[Any]]
# Puts a guard around the handler of a route.
Guard: TypeAlias = Callable[[Authorization, Route], Route]


def before(gate: Gate, on_pause: Callable[[Any], object] = lambda _: None) -> Guard:
    """Return the guard that applies ``gate`` to the requests of a route.

    ``on_pause`` is called with a request that is not served at once, before the next frame is read:
    it copies what lies in the connection's receive buffer."""

    def guard(authorization: Authorization, route: Route) -> Route:
        handler: Any = route.handler
        if route.task:
            return replace(route, handler=_GatedTask(authorization, gate, handler))
        return replace(route, handler=_GatedReply(authorization, gate, handler, on_pause))

    return guard


def around(response_filter: Filter) -> Guard:
    """Return the guard that applies ``response_filter`` to the requests of a route."""

    def guard(authorization: Authorization, route: Route) -> Route:
        handler: Any = route.handler
        kind = _FilteredTask if route.task else _FilteredReply
        return replace(route, handler=kind(authorization, response_filter, handler))

    return guard


class _GatedReply:
    """An ``ImmediateHandler`` behind a gate. A request that the handler parks stays parked without
    a task."""

    __slots__ = ("_authorization", "_gate", "_handler", "_on_pause")

    def __init__(
        self,
        authorization: Authorization,
        gate: Gate,
        handler: ImmediateHandler,
        on_pause: Callable[[Any], object],
    ) -> None:
        self._authorization = authorization
        self._gate = gate
        self._handler = handler
        self._on_pause = on_pause

    def __call__(
        self, context: RequestContext, request: Any, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        rest = begun(self._serve(context, request, reply), reply)
        if rest is not None:
            self._on_pause(request)
        return rest

    async def _serve(self, context: RequestContext, request: Any, reply: Reply) -> None:
        admitted = await self._gate(self._authorization, context, request)
        if admitted.request is None:
            reply(admitted.response)
            return
        join = admitted.join
        if join is not None:
            answer = reply

            def reply(response: Any) -> None:
                answer(join(response))

        rest = self._handler(context, admitted.request, reply)
        if rest is not None:
            await asyncio.sleep(0)  # the rest runs in a task
            await rest


class _GatedTask:
    """A ``TaskHandler`` behind a gate."""

    __slots__ = ("_authorization", "_gate", "_handler")

    def __init__(self, authorization: Authorization, gate: Gate, handler: TaskHandler) -> None:
        self._authorization = authorization
        self._gate = gate
        self._handler = handler

    async def __call__(self, context: RequestContext, request: Any) -> Any:
        admitted = await self._gate(self._authorization, context, request)
        if admitted.request is None:
            return admitted.response
        response = await self._handler(context, admitted.request)
        return response if admitted.join is None else admitted.join(response)


class _FilteredReply:
    """An ``ImmediateHandler`` whose response a filter changes."""

    __slots__ = ("_authorization", "_filter", "_handler")

    def __init__(
        self, authorization: Authorization, response_filter: Filter, handler: ImmediateHandler
    ) -> None:
        self._authorization = authorization
        self._filter = response_filter
        self._handler = handler

    def __call__(
        self, context: RequestContext, request: Any, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        return begun(self._serve(context, request, reply), reply)

    async def _serve(self, context: RequestContext, request: Any, reply: Reply) -> None:
        serve = partial(self._ask, context)
        reply(await self._filter(self._authorization, context, request, serve))

    async def _ask(self, context: RequestContext, request: Any) -> Any:
        """Return the response of the handler. Raises KafkaError if that is its reply."""
        replied: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(response: Any) -> None:
            if not replied.done():  # cancelled when the node stops
                replied.set_result(response)

        rest = self._handler(context, request, reply)
        if rest is not None:
            await asyncio.sleep(0)
            await rest
        response = await replied
        if isinstance(response, KafkaError):
            raise response
        return response


class _FilteredTask:
    """A ``TaskHandler`` whose response a filter changes."""

    __slots__ = ("_authorization", "_filter", "_handler")

    def __init__(
        self, authorization: Authorization, response_filter: Filter, handler: TaskHandler
    ) -> None:
        self._authorization = authorization
        self._filter = response_filter
        self._handler = handler

    async def __call__(self, context: RequestContext, request: Any) -> Any:
        serve = partial(self._handler, context)
        return await self._filter(self._authorization, context, request, serve)
