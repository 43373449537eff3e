"""Whether a broker forwards a request, and what it makes of the envelope's response."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.principals import Principal
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, encode_response
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.envelope import EnvelopeResponse
from minikafka.server.broker.apis import forwarding
from minikafka.server.broker.apis.forwarding import NOT_FORWARDED, Forwarding, ForwardingHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.node_to_controller import NodeToController
from minikafka.server.broker.quotas import ClientQuotas, Quota, RequestThrottle
from minikafka.world.real.world import RealClock
from minikafka.world.sim.entropy import SimEntropy

REQUEST = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
VERSION = 7
CREATED = CreateTopicsResponse(topics=[CreatableTopicResult("t", num_partitions=3)])
HERE = CreateTopicsResponse(
    topics=[CreatableTopicResult("t", error_code=ErrorCode.NOT_CONTROLLER, error_message=None)]
)


def response(message: CreateTopicsResponse = CREATED) -> EnvelopeResponse:
    return EnvelopeResponse(encode_response(1, message, VERSION)[4:])


class Clock:
    """Sleeping is what makes time pass."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    async def sleep(self, delay_ms: int) -> None:
        self.now_ms += max(1, delay_ms)


class Workers:
    def __init__(self) -> None:
        self.runs = 0

    async def run(self, work: Any, *arguments: Any) -> Any:
        self.runs += 1
        return work(*arguments)


class Link:
    """Gives the responses of ``script`` one after the other, and then the last one for ever."""

    def __init__(self, *script: Any, waiting: int = 0) -> None:
        self.script = list(script)
        self.waiting = waiting
        self.sent: list[Any] = []

    async def request_if(self, suits: Any, message: Any, version: int, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        self.sent.append(message)
        found = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(found, Exception):
            raise found
        return found


class Stage:
    def __init__(self, *links: Link) -> None:
        self.clock, self.workers, self.is_controller = Clock(), Workers(), False
        world = SimpleNamespace(clock=self.clock, entropy=SimEntropy("test"), workers=self.workers)
        self.forwarding = Forwarding(
            cast(Any, world), cast(list[NodeToController], links), lambda: self.is_controller
        )
        self.handler: ForwardingHandler = self.forwarding.before(self.here)
        none: Any = None
        self.throttle = RequestThrottle(
            ClientQuotas(RealClock()),
            Quota.REQUESTS,
            0,
            0,
            none,
            none,
            none,
            none,
        )

    async def here(self, context: RequestContext, request: Any) -> CreateTopicsResponse:
        return HERE

    async def ask(self, request: Any = REQUEST) -> Any:
        context = RequestContext(
            RequestHeader(ApiKey.CREATE_TOPICS, VERSION, 5, "me"),
            "PLAINTEXT",
            "10.0.0.1",
            principal=Principal("al"),
        )
        context.throttle = self.throttle
        return await self.handler(context, request)


@pytest.mark.mission("FWD-1", "FWD-5")
async def test_the_response_is_that_of_the_controller() -> None:
    link = Link(response(CreateTopicsResponse(throttle_time_ms=70, topics=CREATED.topics)))
    stage = Stage(Link(response(), waiting=2), link, Link(response(), waiting=1))
    found = await stage.ask()
    assert found.topics == CREATED.topics
    assert stage.throttle._controller_ms == 70
    (envelope,) = link.sent
    assert envelope.client_host_address == b"\x0a\0\0\1"
    assert envelope.request_principal == b"\0\0\x05User\x03al\0\0"
    assert envelope.request_data.startswith(b"\0\x13\0\x07\0\0\0\x05\0\x02me")
    assert stage.workers.runs == 0


@pytest.mark.mission("FWD-4")
@pytest.mark.parametrize("failure", [TimeoutError("late"), ConnectionError("stopping"), None])
async def test_this_broker_responds_if_no_controller_does(failure: Any) -> None:
    stage = Stage(Link(failure))
    (row,) = (await stage.ask()).topics
    assert (row.error_code, row.error_message) == (ErrorCode.NOT_CONTROLLER, NOT_FORWARDED)
    assert stage.throttle._controller_ms == 0


@pytest.mark.mission("FWD-4")
async def test_a_controller_that_has_resigned_is_tried_again() -> None:
    moved = EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    link = Link(moved, moved, response())
    stage = Stage(link)
    assert (await stage.ask()).topics == CREATED.topics
    assert len(link.sent) == 3
    for_ever = Stage(Link(moved))
    assert await for_ever.ask() is HERE
    assert for_ever.clock.now_ms >= forwarding.FORWARDING_TIMEOUT_MS


@pytest.mark.mission("FWD-4")
async def test_a_broker_that_becomes_the_controller_serves_the_request() -> None:
    stage = Stage()
    stage.is_controller = True
    assert await stage.ask() is HERE

    class Elected(Link):
        async def request_if(self, *arguments: Any) -> Any:
            stage.is_controller = True
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

    stage = Stage(Elected())
    assert await stage.ask() is HERE


@pytest.mark.parametrize(
    "refused",
    [
        EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        EnvelopeResponse(None),
        EnvelopeResponse(b"\0\0\0\1\0"),
    ],
)
async def test_a_refused_envelope_is_an_unexpected_error(refused: EnvelopeResponse) -> None:
    with pytest.raises(KafkaError) as raised:
        await Stage(Link(refused)).ask()
    assert raised.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_large_messages_are_left_to_workers() -> None:
    many = [CreatableTopicResult(f"t{number}") for number in range(10_000)]
    stage = Stage(Link(response(CreateTopicsResponse(topics=many))))
    topics = [CreatableTopic(f"t{number}", 1, 1) for number in range(10_000)]
    assert len((await stage.ask(CreateTopicsRequest(topics))).topics) == 10_000
    assert stage.workers.runs == 2
