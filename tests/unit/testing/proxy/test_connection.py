"""Frames of one client and one broker: bytes, order, and the end of either."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.core.faults.rules import (
    Answer,
    Delay,
    Hold,
    Observe,
    Rule,
    Selector,
    Swallow,
    ThrottleClient,
)
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import event_log, kept
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode
from minikafka.protocol.frames import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.server.faults.injected import FaultSeam, InjectedFaults
from minikafka.testing.proxy.connection import ProxiedConnection
from minikafka.testing.proxy.frame_stream import FrameStream
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock

HOST = "127.0.0.1"
MAX_BYTES = 10 * 1024 * 1024
SIZE = 4  # bytes in front of a frame


class Lab:
    """A client, the proxy's connection, and a broker that a test plays."""

    def __init__(self) -> None:
        self.faults = InjectedFaults(RealClock().monotonic_ms)
        self.client = FrameStream(MAX_BYTES)
        self.broker: FrameStream
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.running: asyncio.Task[None]

    async def send(self, *requests: bytes) -> None:
        """Send requests that have their sizes."""
        self.client.write(requests)
        await self.client.drain()

    async def received(self, stream: FrameStream) -> bytes:
        frame = await stream.read()
        assert frame is not None
        return bytes(frame)


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[Lab]:
    lab, network, clock = Lab(), RealNetwork(), RealClock()
    loop = asyncio.get_running_loop()
    brokers: asyncio.Future[FrameStream] = loop.create_future()
    clients: asyncio.Future[FrameStream] = loop.create_future()
    behind = await network.listen(lambda: FrameStream(MAX_BYTES, brokers.set_result), HOST, 0)
    before = await network.listen(lambda: FrameStream(MAX_BYTES, clients.set_result), HOST, 0)
    await network.connect(lambda: lab.client, HOST, before.port)
    seam = FaultSeam(lab.faults, 1, clock, lambda _: None)
    upstream: Any = SimpleNamespace(host=HOST, port=behind.port, seam=seam)
    with kept(lambda level, name, facts: lab.events.append((name, facts))):
        log = event_log("proxy")
    connection = ProxiedConnection(await clients, upstream, network, clock, log)
    lab.running = asyncio.create_task(connection.run())
    lab.broker = await brokers
    try:
        yield lab
    finally:
        lab.running.cancel()
        await asyncio.gather(lab.running, return_exceptions=True)
        lab.client.abort()
        lab.broker.abort()
        behind.close()
        before.close()


async def until_nothing_moves(writer: FrameStream) -> None:
    """Return when what a side could not send stays the same, or all is sent for two seconds."""
    transport = writer._transport
    assert transport is not None
    held = [-1, -2]
    for _ in range(40):
        if held[-1] == held[-2] > 0:
            return
        await asyncio.sleep(0.05)
        held.append(transport.get_write_buffer_size())


def heartbeat(correlation_id: int, version: int = 4) -> bytes:
    header = RequestHeader(ApiKey.HEARTBEAT, version, correlation_id, "c")
    return encode_request(header, HeartbeatRequest(f"group-{correlation_id}"))


def response(correlation_id: int, version: int = 4) -> bytes:
    return encode_response(correlation_id, HeartbeatResponse(), version)


@pytest.mark.mission("IN-85")
async def test_frames_pass_as_the_bytes_that_they_are() -> None:
    """Also fields that our codec does not know."""
    tags = b"\x01\x63\x02ok"  # one tagged field, 99, of two bytes
    async with connected() as lab:
        request = heartbeat(1)[SIZE:-1] + tags
        lab.client.write_frame(request)
        assert await lab.received(lab.broker) == request
        answer = response(1)[SIZE:-1] + tags
        lab.broker.write_frame(answer)
        assert await lab.received(lab.client) == answer


@pytest.mark.mission("IN-85")
async def test_requests_behind_a_fault_wait_and_responses_keep_their_order() -> None:
    async with connected() as lab:
        hold = Rule(Hold(), Selector(group="group-2"))
        lab.faults.add(hold)
        lab.faults.add(Rule(Delay(1), Selector(group="group-3")))
        await lab.send(*(heartbeat(number) for number in (1, 2, 3, 4)))
        assert await lab.received(lab.broker) == heartbeat(1)[SIZE:]
        lab.broker.write([response(1)])
        assert await lab.received(lab.client) == response(1)[SIZE:]
        await lab.faults.until(lambda: hold.hits == 1)
        assert lab.broker.waiting_bytes == 0
        lab.faults.release(hold)
        for number in (2, 3, 4):
            assert await lab.received(lab.broker) == heartbeat(number)[SIZE:]
            if number < 4:
                assert lab.broker.waiting_bytes == 0
            lab.broker.write([response(number)])
            assert await lab.received(lab.client) == response(number)[SIZE:]


@pytest.mark.mission("IN-100")
async def test_an_error_follows_the_responses_before_it() -> None:
    async with connected() as lab:
        refused = Rule(Answer(ErrorCode.REBALANCE_IN_PROGRESS), Selector(group="group-2"))
        lab.faults.add(refused)
        await lab.send(heartbeat(1), heartbeat(2))
        await lab.received(lab.broker)
        await lab.faults.until(lambda: refused.hits == 1)
        lab.broker.write([response(1)])
        assert await lab.received(lab.client) == response(1)[SIZE:]
        number, error = decode_response(HeartbeatResponse, 4, await lab.received(lab.client))
        assert (number, error.error_code) == (2, ErrorCode.REBALANCE_IN_PROGRESS)


@pytest.mark.mission("IN-101")
async def test_nothing_behind_a_swallowed_request_is_passed_on() -> None:
    async with connected() as lab:
        swallowed = Rule(Swallow(), Selector(group="group-1"))
        lab.faults.add(swallowed)
        await lab.send(heartbeat(1), heartbeat(2))
        await lab.faults.until(lambda: swallowed.hits == 1)
        lab.client.close()
        assert await lab.broker.read() is None
        await lab.running


@pytest.mark.mission("IN-102")
async def test_nothing_of_a_throttled_client_is_passed_on() -> None:
    async with connected() as lab:
        lab.faults.add(Rule(ThrottleClient(3_600_000)))
        await lab.send(heartbeat(1), heartbeat(2))
        await lab.received(lab.broker)
        lab.broker.write([response(1)])
        _, throttled = decode_response(HeartbeatResponse, 4, await lab.received(lab.client))
        assert throttled.throttle_time_ms == 3_600_000
        lab.client.close()
        assert await lab.broker.read() is None
        await lab.running


@pytest.mark.mission("IN-102")
@pytest.mark.parametrize("rules", [0, 1])
async def test_a_fetch_that_a_rule_may_concern_opens_no_session(rules: int) -> None:
    """In a session, a request names only what has changed: rules could not select partitions."""
    async with connected() as lab:
        for _ in range(rules):
            lab.faults.add(Rule(Observe(), Selector(api_key=ApiKey.FETCH, topic="t"), times=None))
        header = RequestHeader(ApiKey.FETCH, 12, 1, "c")
        request = encode_request(header, FetchRequest(session_id=0, session_epoch=0))
        await lab.send(request)
        frame = await lab.broker.read()
        assert frame is not None
        _, position = decode_request_header(frame)
        assert decode(FetchRequest, 12, frame, position).session_epoch == (-1 if rules else 0)
        assert (bytes(frame) == request[SIZE:]) == (not rules)


@pytest.mark.mission("IN-84")
async def test_an_older_broker_refuses_a_version_of_api_versions() -> None:
    """Its response is in version 0, whatever the version of the request (KIP-511)."""
    async with connected() as lab:
        header = RequestHeader(ApiKey.API_VERSIONS, 4, 1, "c")
        await lab.send(encode_request(header, ApiVersionsRequest("name", "1")))
        await lab.received(lab.broker)
        refusal = ApiVersionsResponse(35, [ApiVersion(18, 0, 2), ApiVersion(1_000, 0, 1)])
        lab.broker.write([encode_response(1, refusal, 0)])
        _, passed = decode_response(ApiVersionsResponse, 0, await lab.received(lab.client))
        assert passed == ApiVersionsResponse(35, [ApiVersion(18, 0, 2)])


@pytest.mark.mission("IN-85")
async def test_a_client_that_does_not_read_holds_the_broker_up() -> None:
    async with connected() as lab:
        transport = lab.client._transport
        assert transport is not None
        transport.pause_reading()
        body = bytes(1_000_000)
        count = 100

        async def respond() -> None:
            for number in range(count):
                await lab.send(heartbeat(number))
                await lab.received(lab.broker)
                lab.broker.write_frame(number.to_bytes(4, "big") + body)
                await lab.broker.drain()

        responding = asyncio.create_task(respond())
        await until_nothing_moves(lab.broker)
        assert not responding.done()
        transport.resume_reading()
        for _ in range(count):
            await lab.received(lab.client)
        await responding


@pytest.mark.mission("IN-85")
async def test_a_broker_that_does_not_read_holds_the_client_up() -> None:
    async with connected() as lab:
        transport = lab.broker._transport
        assert transport is not None
        transport.pause_reading()
        header = RequestHeader(ApiKey.PRODUCE, 9, 1, "c")
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(1_000_000))])]
        request = encode_request(header, ProduceRequest(acks=0, topic_data=data))
        count = 100

        async def produce() -> None:
            for _ in range(count):
                await lab.send(request)

        producing = asyncio.create_task(produce())
        await until_nothing_moves(lab.client)
        assert not producing.done()
        transport.resume_reading()
        for _ in range(count):
            await lab.received(lab.broker)
        await producing


@pytest.mark.mission("IN-103")
async def test_responses_before_the_death_of_a_broker_reach_the_client() -> None:
    async with connected() as lab:
        await lab.send(heartbeat(1), heartbeat(2))
        await lab.received(lab.broker)
        lab.broker.write([response(1)])
        lab.broker.close()
        assert await lab.received(lab.client) == response(1)[SIZE:]
        assert await lab.client.read() is None
        await lab.running
        assert lab.events == [
            ("upstream_lost", {"client": HOST, "component": "proxy", "in_flight": 1})
        ]


@pytest.mark.mission("IN-103")
async def test_requests_before_the_end_of_a_client_reach_the_broker() -> None:
    async with connected() as lab:
        header = RequestHeader(ApiKey.PRODUCE, 9, 1, "c")
        requests = [encode_request(header, ProduceRequest(acks=0)) for _ in range(200)]
        await lab.send(*requests)
        lab.client.close()
        for request in requests:
            assert await lab.received(lab.broker) == request[SIZE:]
        assert await lab.broker.read() is None
        await lab.running


@pytest.mark.mission("IN-84")
@pytest.mark.parametrize(
    ("request_bytes", "answer", "reason"),
    [
        (heartbeat(1), response(2), "a response to another request"),
        (b"", response(2), "a response to no request"),
        (b"\0\0\0\x03abc", b"", "request header: "),
        (heartbeat(1)[:SIZE] + heartbeat(1)[SIZE:-3] + b"\xff\xff\xff", b"", "HeartbeatRequest v4"),
        (b"\x7f\0\0\0", b"", "frame of 2130706432 bytes"),
        (
            encode_request(
                RequestHeader(ApiKey.METADATA, 12, 1, "c"), MetadataRequest(topics=None)
            ),
            b"\0\0\0\x06\0\0\0\x01\0\0",
            "MetadataResponse v12",
        ),
    ],
)
async def test_a_side_that_breaks_the_protocol_ends_both_connections(
    request_bytes: bytes, answer: bytes, reason: str
) -> None:
    async with connected() as lab:
        if request_bytes:
            await lab.send(request_bytes)
        if answer:
            if request_bytes:
                await lab.received(lab.broker)
            lab.broker.write([answer])
        assert await lab.client.read() is None
        await lab.running
        ((name, facts),) = lab.events
        assert name == "connection_refused"
        assert reason in facts["reason"]
