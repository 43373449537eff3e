"""Guards: how an API asks the authorizer, before its handler or around its response.

``needs`` and ``needs_or`` are for one operation on the cluster, ``TopicRows`` for
rows of topics, ``before`` for any other check, and ``around`` if the response must be changed, too.
``knowing`` gives a guard the state of the broker.

Guards are coroutine functions. They begin without a task, and need one only if they pause, which
they do for requests of hundreds of names.

A guard takes from the request what the principal may not do, asks the authorizer for at most 100
names at once, and puts the refused rows into the response. Handlers know nothing of it, except
those that are ``BY_HANDLER``. Without an authorizer nothing is wrapped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.slices import Slices, in_slices
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.request import Handler, Reply, RequestContext
from minikafka.server.broker.apis.services import Services


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


class ApiGuard(Protocol):
    """Puts a guard around the handler of an API. ``task`` says of which kind the handler is."""

    def __call__(self, broker: Services, handler: Handler, task: bool) -> Handler: ...


def OPEN(broker: Services, handler: Handler, task: bool) -> Handler:
    """The guard of an API that everybody may use: it comes before the login, is the login, or is
    for every client, as client metrics are in Kafka."""
    return handler


def BY_HANDLER(broker: Services, handler: Handler, task: bool) -> Handler:
    """No guard: the handler asks the authorizer itself, or refuses every request anyway."""
    return handler


def before(gate: Gate, on_pause: Callable[[Any], object] = lambda _: None) -> ApiGuard:
    """Return the guard that applies ``gate`` to the requests of an API.

    ``on_pause`` is called with a request that is not served at once, before the next frame is read:
    it copies what lies in the connection's receive buffer."""

    def guard(broker: Services, handler: Handler, task: bool) -> Handler:
        authorization = _authorization(broker)
        if task:
            return _GatedTask(authorization, gate, handler)
        return _GatedReply(authorization, gate, handler, on_pause)

    return guard


def around(response_filter: Filter) -> ApiGuard:
    """Return the guard that applies ``response_filter`` to the requests of an API."""

    def guard(broker: Services, handler: Handler, task: bool) -> Handler:
        kind = _FilteredTask if task else _FilteredReply
        return kind(_authorization(broker), response_filter, handler)

    return guard


def knowing(make: Callable[[Services], ApiGuard]) -> ApiGuard:
    """Return the guard that ``make`` makes. It reads the state of the broker: some errors come
    before authorization, and some after it."""

    def guard(broker: Services, handler: Handler, task: bool) -> Handler:
        return make(broker)(broker, handler, task)

    return guard


def _authorization(broker: Services) -> Authorization:
    assert broker.authorization is not None, "guards are for brokers with an authorizer"
    return broker.authorization


def needs(operation: AclOperation) -> ApiGuard:
    """Return the guard of an API that needs ``operation`` on the cluster. The error is at the top
    of the response."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        authorization.require_on_cluster(context, operation)
        return Admitted(request)

    return before(admit)


def needs_or(
    operation: AclOperation,
    refusal: Callable[[RequestContext, Any], Any],
    check: Callable[[Any], None] = lambda request: None,
) -> ApiGuard:
    """Return the guard of an API that needs ``operation`` on the cluster, and is refused by the
    response that ``refusal`` makes. ``check`` raises for a request that cannot be read."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        check(request)
        if authorization.on_cluster(context, operation):
            return Admitted(request)
        return Admitted(None, response=refusal(context, request))

    return before(admit)


class _GatedReply:
    """An ``ImmediateHandler`` behind a gate. A request that the handler parks stays parked without
    a task."""

    __slots__ = ("_authorization", "_gate", "_handler", "_on_pause")

    def __init__(
        self,
        authorization: Authorization,
        gate: Gate,
        handler: Any,
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

    def __init__(self, authorization: Authorization, gate: Gate, handler: Any) -> None:
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

    def __init__(self, authorization: Authorization, response_filter: Filter, handler: Any) -> None:
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

    def __init__(self, authorization: Authorization, response_filter: Filter, handler: Any) -> None:
        self._authorization = authorization
        self._filter = response_filter
        self._handler = handler

    async def __call__(self, context: RequestContext, request: Any) -> Any:
        serve = partial(self._handler, context)
        return await self._filter(self._authorization, context, request, serve)


class Verdict(Enum):
    """What is decided about a request before its topics are looked at."""

    TOPICS_DECIDE = auto()
    ALL_ALLOWED = auto()


# Returns the verdict, or the error of all rows. Raises KafkaError for the whole request.
Precheck: TypeAlias = Callable[[Authorization, RequestContext, Any], Awaitable[Verdict | ErrorCode]]


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Where a request names topics, and how its response refuses them. ``new_topic`` makes the row
    of a topic from its name and its partitions' rows; ``new_partition`` makes the row of a
    partition from that of the request (or its number) and the error.

    From version ``ids_since`` on, the request has ids of topics, whose names were looked up before.
    A topic whose id is unknown has no name: it is left to the handler."""

    new_response: Callable[[], Any]
    new_topic: Callable[[str, list[Any]], Any]
    new_partition: Callable[[Any, ErrorCode], Any]
    requested: str = "topics"
    name: str = "name"
    partitions: str = "partitions"
    responded: str = "topics"
    ids_since: int | None = None

    async def refused(self, topics: Sequence[Any], error: ErrorCode) -> list[Any]:
        """Return the rows that refuse these topics of a request, made in slices."""
        rows: list[Any] = []
        slices = Slices()
        async for topic in slices.over(topics):
            partitions = [
                self.new_partition(partition, error)
                async for partition in slices.over(getattr(topic, self.partitions))
            ]
            row = self.new_topic(getattr(topic, self.name), partitions)
            if self.ids_since is not None:
                row.topic_id = topic.topic_id
            rows.append(row)
        return rows

    async def split(
        self,
        authorization: Authorization,
        context: RequestContext,
        operation: AclOperation,
        topics: Sequence[Any],
    ) -> tuple[list[Any], list[Any]]:
        """Return the topics on which ``operation`` is allowed, and the others."""
        names = [getattr(topic, self.name) for topic in topics]
        has_ids = self.ids_since is not None and context.version >= self.ids_since
        if has_ids:
            names = [name for name in names if name]
        allowed = await authorization.allowed(context, operation, AclResourceType.TOPIC, names)
        return await split(topics, self.name, {*allowed, ""} if has_ids else allowed)

    async def refuse_all(self, request: Any, error: ErrorCode) -> Any:
        response = self.new_response()
        rows = await self.refused(getattr(request, self.requested) or (), error)
        setattr(response, self.responded, rows)
        return response

    def gate(
        self,
        operation: AclOperation,
        precheck: Precheck | None = None,
        answers_alone: bool = True,
    ) -> Gate:
        """Return the gate of an API in which ``operation`` is needed on each topic. If nothing is
        allowed the handler is not called, unless ``answers_alone`` is false."""

        async def admit(
            authorization: Authorization, context: RequestContext, request: Any
        ) -> Admitted:
            if precheck is not None:
                verdict = await precheck(authorization, context, request)
                if isinstance(verdict, ErrorCode):
                    return Admitted(None, response=await self.refuse_all(request, verdict))
                if verdict is Verdict.ALL_ALLOWED:
                    return Admitted(request)
            topics = getattr(request, self.requested)
            kept, refused = await self.split(authorization, context, operation, topics)
            if not refused:
                return Admitted(request)
            rows = await self.refused(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            setattr(request, self.requested, kept)
            if not kept and answers_alone:
                response = self.new_response()
                setattr(response, self.responded, rows)
                return Admitted(None, response=response)
            return Admitted(request, self._joining(rows))

        return admit

    def _joining(self, rows: list[Any]) -> Callable[[Any], Any]:
        def join(response: Any) -> Any:
            if isinstance(response, self._response_type):
                setattr(response, self.responded, getattr(response, self.responded) + rows)
            return response

        return join

    @property
    def _response_type(self) -> type:
        return type(self.new_response())


async def split(
    rows: Sequence[Any], name: str, allowed: Collection[str]
) -> tuple[list[Any], list[Any]]:
    """Return the rows whose names are allowed, and the others."""
    if len(rows) == 1:
        return (list(rows), []) if getattr(rows[0], name) in allowed else ([], list(rows))
    kept: list[Any] = []
    refused: list[Any] = []
    async for row in in_slices(rows):
        (kept if getattr(row, name) in allowed else refused).append(row)
    return kept, refused
