"""Outgoing connections: pipelining, bounds, time-outs, and what becomes of the pending."""

import asyncio
import struct
from functools import partial
from typing import Any, cast

import pytest

from minikafka.network.channel import CLOSE_GRACE_MS, Channel, ChannelConfig
from minikafka.protocol.codec import EncodeError
from minikafka.protocol.frames import (
    decode_request_header,
    encode_response,
)
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.server.listeners.server_connection import ServerConnection
from tests.support.network.network_lab import Lab


class Broker:
    """Notes requests; answers on demand, or at once with the correlation id as node id."""

    def __init__(self, at_once: bool = True) -> None:
        self.at_once = at_once
        self.headers: list[Any] = []
        self.slots: list[Any] = []

    def __call__(self, connection: ServerConnection, frame: memoryview) -> None:
        header, _ = decode_request_header(frame)
        self.headers.append(header)
        self.slots.append(connection.open_slot(len(frame)))
        if self.at_once:
            self.answer(len(self.headers) - 1)

    def answer(self, number: int, correlation_id: int | None = None) -> None:
        header = self.headers[number]
        response = FindCoordinatorResponse(node_id=header.correlation_id)
        if correlation_id is None:
            correlation_id = header.correlation_id
        self.slots[number].send(encode_response(correlation_id, response, header.api_version))


async def open_channel(lab: Lab, server: Any, **config: Any) -> Channel:
    return await Channel.open(
        lab.network, lab.clock, "127.0.0.1", server.port, "me", ChannelConfig(**config), lab.log
    )


def ask(channel: Channel, key: str = "k") -> asyncio.Future[Any]:
    return asyncio.ensure_future(channel.request(FindCoordinatorRequest(key=key), 3, 1000))


async def test_requests_are_pipelined_and_matched(lab: Lab) -> None:
    broker = Broker()
    channel = await open_channel(lab, await lab.serve(broker))
    replies = await asyncio.gather(*(ask(channel) for _ in range(20)))
    assert [r.node_id for r in replies] == list(range(20))
    assert {h.client_id for h in broker.headers} == {"me"}
    assert channel.in_flight == 0
    assert [t.due_ms for t in lab.clock.timers if t.due_ms == 1000] == [1000]  # one for all
    lab.clock.advance(1000)
    assert channel.is_open
    channel.close()


async def test_no_more_than_max_in_flight_are_sent(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker), max_in_flight=2)
    asks = [ask(channel) for _ in range(4)]
    await lab.until(lambda: len(broker.headers) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(broker.headers) == 2
    for number in range(4):
        await lab.until(partial(lambda n: len(broker.headers) > n, number))
        broker.answer(number)
        assert (await asks[number]).node_id == number
    channel.close()


async def test_a_request_without_reply(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    await channel.send(ProduceRequest(acks=0), 9, 1000)
    reply = ask(channel)
    await lab.until(lambda: len(broker.headers) == 2)
    broker.slots[0].send(None)
    broker.answer(1)
    assert (await reply).node_id == 1
    channel.close()


def produce_of(size: int) -> ProduceRequest:
    data = PartitionProduceData(0, b"x" * size)
    return ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[data])])


BIG = produce_of(1_000_000)
PIECE = produce_of(30_000)  # a transport takes several before it is full, by default


class Slow(Broker):
    """Takes nothing once it has seen a request, until told to."""

    transport: asyncio.Transport | None = None
    is_slow = True

    def __call__(self, connection: ServerConnection, frame: memoryview) -> None:
        super().__call__(connection, frame)
        self.slots[-1].send(None)
        self.transport = connection._transport
        assert self.transport is not None
        if self.is_slow:
            self.transport.pause_reading()


async def test_requests_without_reply_stop_at_a_peer_that_does_not_read(lab: Lab) -> None:
    broker = Slow(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    await channel.send(ProduceRequest(acks=0), 9, 1000)
    await lab.until(lambda: len(broker.headers) == 1)
    sent = 0

    async def pour() -> None:
        nonlocal sent
        while sent < 100:
            await channel.send(BIG, 9, 1000)
            sent += 1

    pouring = [asyncio.ensure_future(pour()) for _ in range(3)]
    await lab.until(lambda: not channel._room.is_set())
    for _ in range(100):
        await asyncio.sleep(0)
    assert sent < 50
    assert channel._transport is not None
    assert channel._transport.get_write_buffer_size() < 3_000_000
    assert broker.transport is not None
    broker.transport.resume_reading()
    pouring[0].cancel()
    lab.clock.advance(1000)
    for pending in pouring:
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await pending
    assert not channel.is_open
    assert channel._free_turns == 5


async def test_a_request_that_waits_for_buffer_room_continues_or_fails(lab: Lab) -> None:
    broker = Slow(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    channel.pause_writing()
    waiting = asyncio.ensure_future(channel.send(ProduceRequest(acks=0), 9, 1000))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    channel.resume_writing()
    await waiting
    await lab.until(lambda: len(broker.headers) == 1)
    channel.pause_writing()
    waiting = asyncio.ensure_future(channel.send(ProduceRequest(acks=0), 9, 1000))
    await asyncio.sleep(0)
    channel.close()
    with pytest.raises(ConnectionError):
        await waiting


async def test_a_request_without_reply_is_sent_when_the_system_has_all_of_it(lab: Lab) -> None:
    """What a transport still holds would be lost when the connection is closed."""
    broker = Slow(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    await channel.send(ProduceRequest(acks=0), 9, 1000)
    await lab.until(lambda: broker.transport is not None)
    transport, sent = channel._transport, 1
    assert transport is not None

    async def pour_and_close() -> None:
        nonlocal sent
        held = False
        while not held:
            sending = asyncio.ensure_future(channel.send(PIECE, 9, 1000))
            await asyncio.sleep(0)
            held = transport.get_write_buffer_size() > 0
            await sending
            assert transport.get_write_buffer_size() == 0
            sent += 1
        channel.close()

    pouring = asyncio.ensure_future(pour_and_close())
    await lab.until(lambda: transport.get_write_buffer_size() > 0 or pouring.done())
    broker.is_slow = False
    assert broker.transport is not None
    broker.transport.resume_reading()
    await pouring
    await channel.wait_closed()
    assert len(broker.headers) == sent > 1


async def test_a_peer_that_does_not_close_is_left_after_a_while(lab: Lab) -> None:
    broker = Slow(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    await channel.send(ProduceRequest(acks=0), 9, 1000)
    await lab.until(lambda: broker.transport is not None)
    channel.close()
    closing = asyncio.ensure_future(channel.wait_closed())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not closing.done()
    lab.clock.advance(CLOSE_GRACE_MS)
    await closing


async def test_a_request_without_reply_fails_on_a_connection_that_is_lost(lab: Lab) -> None:
    """The transport knows it before the channel, and drops what is written."""
    channel = await open_channel(lab, await lab.serve(Broker(at_once=False)))
    assert channel._transport is not None
    channel._transport.abort()
    with pytest.raises(ConnectionError, match="connection lost"):
        await channel.send(ProduceRequest(acks=0), 9, 1000)


async def test_a_request_time_out_closes_the_channel(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    first, second = ask(channel), ask(channel)
    await lab.until(lambda: len(broker.headers) == 2)
    lab.clock.advance(1000)
    with pytest.raises(TimeoutError):
        await first
    with pytest.raises((ConnectionError, TimeoutError)):
        await second
    assert not channel.is_open
    with pytest.raises(ConnectionError):
        await ask(channel)


async def test_everything_pending_fails_when_the_connection_is_lost(lab: Lab) -> None:
    broker = Broker(at_once=False)
    server = await lab.serve(broker)
    channel = await open_channel(lab, server, max_in_flight=2)
    asks = [ask(channel) for _ in range(4)]
    await lab.until(lambda: len(broker.headers) == 2)
    await server.close()
    for pending in asks:
        with pytest.raises(ConnectionError):
            await pending
    assert channel.in_flight == 0


async def test_a_reply_whose_caller_is_gone_is_dropped(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    first, second = ask(channel), ask(channel)
    await lab.until(lambda: len(broker.headers) == 2)
    first.cancel()
    broker.answer(0)
    broker.answer(1)
    assert (await second).node_id == 1
    channel.close()


async def test_a_wrong_correlation_id_ends_the_channel(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    reply = ask(channel)
    await lab.until(lambda: len(broker.headers) == 1)
    broker.answer(0, correlation_id=77)
    with pytest.raises(ConnectionError):
        await reply
    assert [e for _, e, _ in lab.log.events if e == "channel_failed"] == ["channel_failed"]


@pytest.mark.parametrize("garbage", [struct.pack(">i", -5), struct.pack(">iii", 8, 0, 1)])
async def test_garbage_from_the_server_ends_the_channel(lab: Lab, garbage: bytes) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    reply = ask(channel)
    await lab.until(lambda: len(broker.headers) == 1)
    broker.slots[0].send(garbage)
    with pytest.raises(ConnectionError):
        await reply
    assert not channel.is_open


async def test_an_unexpected_response_closes_the_channel(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    await channel.send(ProduceRequest(acks=0), 9, 1000)
    await lab.until(lambda: len(broker.headers) == 1)
    broker.slots[0].send(struct.pack(">ii", 4, 0))
    await lab.until(lambda: not channel.is_open)


async def test_an_encode_error_is_raised_to_the_caller(lab: Lab) -> None:
    channel = await open_channel(lab, await lab.serve(Broker()), max_in_flight=1)
    for _ in range(3):  # and gives its turn back
        with pytest.raises(EncodeError):
            await channel.request(FindCoordinatorRequest(key="k"), 4, 1000)
    assert (await ask(channel)).error_code == 0
    channel.close()


async def test_connecting_to_a_closed_port_fails(lab: Lab) -> None:
    server = await lab.serve(Broker())
    port = server.port
    await server.close()
    with pytest.raises(ConnectionError):
        await Channel.open(lab.network, lab.clock, "127.0.0.1", port)


async def test_a_connection_that_does_not_come_about_times_out(lab: Lab) -> None:
    class Nowhere:
        def new_login(self) -> None:
            return None

        async def connect(self, factory: Any, host: str, port: int) -> None:
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await Channel.open(
            cast(Any, Nowhere()),
            lab.clock,
            "h",
            1,
            None,
            ChannelConfig(connection_setup_timeout_ms=1),
        )


async def test_begin_sends_the_request_synchronously(lab: Lab) -> None:
    broker = Broker()
    channel = await open_channel(lab, await lab.serve(broker), max_in_flight=1)
    nodes: list[int] = []

    def receive(response: Any, error: OSError | None) -> None:
        assert error is None
        nodes.append(response.node_id)
        if len(nodes) < 3:
            begin()

    def begin() -> None:
        channel.begin(FindCoordinatorRequest(key="k"), 3, 1000, receive)
        assert channel.in_flight == 1

    begin()
    await lab.until(lambda: len(nodes) == 3)
    assert nodes == [0, 1, 2]
    channel.close()
    with pytest.raises(ConnectionError):
        begin()
    assert channel.in_flight == 0


async def test_the_receiver_of_a_begun_request_is_called_with_the_loss_of_the_connection(
    lab: Lab,
) -> None:
    channel = await open_channel(lab, await lab.serve(Broker(at_once=False)))
    seen: list[tuple[Any, OSError | None]] = []
    channel.begin(FindCoordinatorRequest(key="k"), 3, 1000, lambda *outcome: seen.append(outcome))
    channel.close()
    ((response, error),) = seen
    assert response is None
    assert isinstance(error, ConnectionError)


async def test_each_request_has_its_own_time(lab: Lab) -> None:
    """The timer of an answered request goes on, and is no time-out of the next one."""
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker))
    first = ask(channel)
    await lab.until(lambda: len(broker.headers) == 1)
    lab.clock.advance(700)
    broker.answer(0)
    assert (await first).node_id == 0
    second = ask(channel)
    await lab.until(lambda: len(broker.headers) == 2)
    lab.clock.advance(700)
    broker.answer(1)
    assert (await second).node_id == 1
    channel.close()


async def test_a_cancelled_request_frees_its_turn_for_the_next(lab: Lab) -> None:
    broker = Broker(at_once=False)
    channel = await open_channel(lab, await lab.serve(broker), max_in_flight=1)
    first, second, third = (ask(channel) for _ in range(3))
    await lab.until(lambda: len(broker.headers) == 1)
    second.cancel()
    broker.answer(0)
    await first
    await lab.until(lambda: len(broker.headers) == 2)
    broker.answer(1)
    assert (await third).node_id == 1
    assert second.cancelled()
    channel.close()


async def test_a_request_whose_timer_is_refused_is_not_in_flight(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulated process that was killed has no timers any more. Nobody waits for the reply."""
    channel = await open_channel(lab, await lab.serve(Broker(at_once=False)))

    def refuse(*_: Any) -> Any:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(lab.clock, "call_later", refuse)
        with pytest.raises(asyncio.CancelledError):
            await channel.request(FindCoordinatorRequest(key="k"), 3, 1000)
    assert channel.in_flight == 0
    channel.close()
