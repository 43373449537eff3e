"""Faults in the request path: carries out what the rules of ``core/faults`` decide.

``InjectedFaults`` holds the rules of a cluster and notes its requests; each broker has a
``FaultSeam``, which ``Apis`` calls with every decoded request. In a proxy each listener has one. A
request that a rule strikes is served by a task, and later requests of its connection wait for the
reply. A broker without a seam pays one attribute test.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from minikafka.core.faults import requests as named
from minikafka.core.faults.responses import (
    is_done_all_the_same,
    joined,
    metadata_with_error,
    refusal,
    served_of_refused,
    with_wrong_crc,
)
from minikafka.core.faults.rules import (
    Answer,
    Corrupt,
    Delay,
    DisconnectClient,
    FaultDecision,
    Hold,
    Moment,
    RequestFacts,
    Row,
    Rule,
    RuleBook,
    Strike,
    Swallow,
    ThrottleClient,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.schema import Message

MAX_SEEN = 10_000
REASON = "fault_injected"
NO_SESSION, FULL_FETCH = 0, -1
NO_ACKS = 0


class SeamContext(Protocol):
    """Which version a request has, and whose it is."""

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class SeamReply(Protocol):
    """Takes the reply to one request. ``refuse`` and ``abandon`` close the connection instead, and
    ``mute`` lets nothing more of it be served for so long."""

    def __call__(self, response: Any) -> None: ...

    def refuse(self, reason: str, **facts: object) -> None: ...

    def abandon(self, reason: str, **facts: object) -> None: ...

    def mute(self, delay_ms: int) -> None: ...


class SeenRequest(NamedTuple):
    """A request that a broker has begun to serve, at ``monotonic_ms``."""

    monotonic_ms: int
    broker: int
    api: str
    version: int
    client_id: str
    client_host: str
    rows: Sequence[Row] = ()

    @property
    def topics(self) -> list[str]:
        """The topics that the request names."""
        return list(dict.fromkeys(row.topic for row in self.rows if row.topic is not None))

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions that the request names, with their topics."""
        return [
            (row.topic, row.partition)
            for row in self.rows
            if row.topic is not None and row.partition is not None
        ]

    @property
    def groups(self) -> list[str]:
        """The groups that the request names."""
        return list(dict.fromkeys(row.group for row in self.rows if row.group is not None))


class InjectedFaults:
    """The rules of a cluster, and the last requests that its brokers have received."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.book = RuleBook()
        self.seen: deque[SeenRequest] = deque(maxlen=MAX_SEEN)
        self.now_ms = now_ms
        self._released: set[Rule] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self, rule: Rule) -> None:
        self.book.add(rule)

    def remove(self, rule: Rule) -> None:
        """Remove a rule. What it holds goes on."""
        self.book.remove(rule)
        self._released.discard(rule)
        self.changed()

    def release(self, rule: Rule) -> None:
        """Let go on what the rule holds, and whatever it would hold later."""
        if rule in self.book:
            self._released.add(rule)
        self.changed()

    def lets_go(self, rule: Rule) -> bool:
        """Whether what the rule holds may go on."""
        return rule not in self.book or rule in self._released

    def changed(self) -> None:
        """Wake those who wait for a condition."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition is true; it is looked at when a rule strikes or changes."""
        while not condition():
            changed = asyncio.get_running_loop().create_future()
            self._waiting.add(changed)
            await changed


# Serves a request as if there were no faults, and gives its reply to the argument.
ServeRequest: TypeAlias = Callable[[Any, SeamReply], Awaitable[None]]


class FaultSeam:
    """The faults of one broker."""

    def __init__(
        self, faults: InjectedFaults, broker_id: int, clock: Clock, topic_name: named.TopicName
    ) -> None:
        self._faults = faults
        self._broker_id = broker_id
        self._clock = clock
        self._topic_name = topic_name

    def begin(
        self,
        api_key: ApiKey,
        context: SeamContext,
        request: Any,
        reply: SeamReply,
        serve: ServeRequest,
    ) -> Coroutine[Any, Any, None] | None:
        """Note a request. Return what serves it, as a task, if a fault strikes it."""
        faults, version = self._faults, context.version
        facts = named.facts(
            self._broker_id, api_key, version, context.client_id, request, self._topic_name
        )
        faults.seen.append(
            SeenRequest(
                faults.now_ms(),
                self._broker_id,
                api_key.api_name,
                version,
                context.client_id,
                context.client_host,
                facts.rows,
            )
        )
        if not faults.book.may_concern(api_key):
            return None
        if api_key is ApiKey.FETCH and not facts.of_broker and not _leave_session(request):
            return _reply(reply, KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        decision = faults.book.decide(facts)
        if decision is None:
            return None
        faults.changed()
        if api_key is ApiKey.PRODUCE:
            request.copy_records()
        return _StruckRequest(faults, self._clock, self._topic_name, facts, decision).run(
            request, reply, serve
        )


def _leave_session(request: Any) -> bool:
    """Make a Fetch name its partitions: within a session a request names what has changed. False if
    it relies on a session; with the error, the client sends a full one."""
    if request.session_id != NO_SESSION and request.session_epoch > NO_SESSION:
        return False
    request.session_id, request.session_epoch = NO_SESSION, FULL_FETCH
    return True


async def _reply(reply: SeamReply, response: Message | KafkaError) -> None:
    reply(response)


class _Closed:
    """Stands for the response of a request whose connection was closed instead."""


class _CollectedReply:
    """Takes the reply of a handler."""

    def __init__(self, reply: SeamReply) -> None:
        self._reply = reply
        self.response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __call__(self, response: Message | KafkaError | None) -> None:
        if not self.response.done():  # cancelled when the node stops
            self.response.set_result(response)

    def refuse(self, reason: str, **facts: object) -> None:
        self._reply.refuse(reason, **facts)
        self(cast(Any, _Closed()))

    def abandon(self, reason: str, **facts: object) -> None:
        self._reply.abandon(reason, **facts)
        self(cast(Any, _Closed()))

    def mute(self, delay_ms: int) -> None:
        self._reply.mute(delay_ms)


class _StruckRequest:
    """One request that faults strike."""

    def __init__(
        self,
        faults: InjectedFaults,
        clock: Clock,
        topic_name: named.TopicName,
        facts: RequestFacts,
        decision: FaultDecision,
    ) -> None:
        self._faults = faults
        self._clock = clock
        self._topic_name = topic_name
        self._facts = facts
        self._decision = decision

    async def run(self, request: Any, reply: SeamReply, serve: ServeRequest) -> None:
        await self._pass(Moment.BEFORE)
        final = self._decision.final
        effect = None if final is None else final.rule.effect
        if isinstance(effect, Swallow):
            return  # without a reply, nothing later on this connection is served
        if isinstance(effect, DisconnectClient) and effect.moment is Moment.BEFORE:
            reply.abandon(REASON)
            return
        response = await self._response(request, reply, serve)
        if isinstance(response, _Closed):
            return
        await self._pass(Moment.AFTER)
        if isinstance(effect, DisconnectClient):
            reply.abandon(REASON)
            return
        if isinstance(effect, ThrottleClient):
            self._throttle(response, reply, effect.throttle_ms)
        elif isinstance(effect, Corrupt) and final is not None:
            self._corrupt(response, final)
        if isinstance(response, _Refused):
            reply.abandon(REASON)
        else:
            reply(response)

    async def _pass(self, moment: Moment) -> None:
        """Wait as long as delays and holds of a moment say."""
        for strike in self._decision.passing:
            effect, rule = strike.rule.effect, strike.rule
            if isinstance(effect, Delay) and effect.moment is moment:
                await self._clock.sleep(effect.delay_ms)
            elif isinstance(effect, Hold) and effect.moment is moment:
                await self._faults.until(partial(self._faults.lets_go, rule))

    async def _response(self, request: Any, reply: SeamReply, serve: ServeRequest) -> Any:
        """Return the response, with the errors that a fault puts into it."""
        final = self._decision.final
        if final is None or not isinstance(final.rule.effect, Answer):
            return await self._served(request, reply, serve)
        api_key, version = self._facts.api_key, self._facts.version
        error = final.rule.effect.error
        chosen = named.only(api_key, version, request, final.rows, self._topic_name)
        rest = request
        if api_key is ApiKey.FETCH:
            request.max_wait_ms = 0  # an error completes a delayed fetch
        if not self._is_done(final):
            rest = named.without(api_key, version, request, final.rows, self._topic_name)
        is_whole = all(row in final.rows for row in self._facts.rows)
        refused = refusal(api_key, version, chosen, error, is_whole)
        if api_key is ApiKey.PRODUCE and request.acks == NO_ACKS:
            refused = None  # there is no response: as in Kafka, the connection is closed
        if rest is None:
            rest = served_of_refused(api_key, request, refused)
        if rest is None:
            return _Refused() if refused is None else refused
        response = await self._served(rest, reply, serve)
        if isinstance(response, _Closed):
            return response
        if api_key is ApiKey.METADATA and rest is request:
            named_by = self._topic_name
            return metadata_with_error(version, request, response, final.rows, error, named_by)
        if refused is None:
            return _Refused()
        if is_whole and api_key is not ApiKey.METADATA:
            return refused
        return joined(api_key, version, response, refused)

    def _is_done(self, strike: Strike) -> bool:
        """Whether the rows are served all the same."""
        effect = strike.rule.effect
        assert isinstance(effect, Answer)
        done = is_done_all_the_same(self._facts.api_key, effect.error)
        return done or effect.moment is Moment.AFTER

    async def _served(self, request: Any, reply: SeamReply, serve: ServeRequest) -> Any:
        collected = _CollectedReply(reply)
        await serve(request, collected)
        return await collected.response

    def _throttle(self, response: Any, reply: SeamReply, throttle_ms: int) -> None:
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        reply.mute(throttle_ms)

    def _corrupt(self, response: Any, strike: Strike) -> None:
        """Damage the batches of a Fetch response, if there are any and the rule still stands."""
        concerned = {(row.topic, row.partition) for row in strike.rows}
        found = [
            data
            for topic in getattr(response, "responses", ())
            for data in topic.partitions
            if data.records
            and (topic.topic or self._topic_name(topic.topic_id), data.partition_index) in concerned
        ]
        if found and strike.rule in self._faults.book and strike.rule.count():
            for data in found:
                data.records = with_wrong_crc(data.records)
            self._faults.changed()


class _Refused:
    """Stands for a response that has no place for its error: the connection is closed."""
