"""What every Network keeps to."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from minikafka.kernel.ports import World
from tests.support.network.wire_end import WireEnd

if TYPE_CHECKING:
    from tests.contract.conftest import Play

HOST = "127.0.0.1"


class Pair:
    """A listener, and one connection to it from both sides."""

    def __init__(self, world: World, make_server: Callable[[], WireEnd] = WireEnd) -> None:
        self._world = world
        self._make_server = make_server
        self._accepted: asyncio.Queue[WireEnd] = asyncio.Queue()

    async def open(self, client: WireEnd | None = None) -> tuple[WireEnd, WireEnd]:
        self.listener = await self._world.network.listen(self._accept, HOST, 0)
        _, connected = await self._world.network.connect(
            lambda: client or WireEnd(), HOST, self.listener.port
        )
        assert isinstance(connected, WireEnd)
        return connected, await self._accepted.get()

    def _accept(self) -> WireEnd:
        end = self._make_server()
        self._accepted.put_nowait(end)
        return end


def test_bytes_arrive_in_order_both_ways(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world).open()
        sent = bytes(i * 11 % 256 for i in range(256)) * 8000  # 2 MB
        for start in range(0, len(sent), 70_001):
            client.transport.write(sent[start : start + 70_001])
        server.transport.write(b"answer")
        assert await server.received(len(sent)) == sent
        assert await client.received(6) == b"answer"

    play(body)


def test_connections_know_both_addresses(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        pair = Pair(world)
        client, server = await pair.open()
        client_address = client.transport.get_extra_info("sockname")
        assert server.transport.get_extra_info("peername")[:2] == client_address[:2]
        assert client.transport.get_extra_info("peername")[1] == pair.listener.port
        assert server.transport.get_extra_info("nothing", "default") == "default"

    play(body)


def test_a_port_has_one_listener(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        listener = await world.network.listen(WireEnd, HOST, 0)
        assert listener.port > 0
        with pytest.raises(OSError) as caught:
            await world.network.listen(WireEnd, HOST, listener.port)
        assert caught.value.errno == errno.EADDRINUSE

    play(body)


def test_connecting_to_a_closed_port_is_refused(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        listener = await world.network.listen(WireEnd, HOST, 0)
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await world.network.connect(WireEnd, HOST, listener.port)

    play(body)


def test_accepted_connections_outlive_their_listener(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        pair = Pair(world)
        client, server = await pair.open()
        pair.listener.close()
        client.transport.write(b"still here?")
        assert await server.received(11) == b"still here?"

    play(body)


def test_close_sends_buffered_bytes_first(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world).open()
        sent = b"x" * 1_500_000
        client.transport.write(sent)
        client.transport.close()
        assert client.transport.is_closing()
        client.transport.write(b"too late")
        assert await server.received(len(sent)) == sent
        assert await client.lost() is None
        assert await server.lost() is None
        assert server.seen == sent
        assert server.at_eof

    play(body)


def test_abort_tells_the_other_end(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world).open()
        client.transport.abort()
        assert client.transport.is_closing()
        assert await client.lost() is None
        await server.lost()

    play(body)


def test_an_end_may_go_on_writing_after_the_other_is_done(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world, lambda: WireEnd(half_open=True)).open()
        assert client.transport.can_write_eof()
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")
        assert await server.received(8) == b"question"
        await server.eof.wait()
        server.transport.write(b"answer")
        server.transport.close()
        assert await client.lost() is None
        assert client.seen == b"answer"

    play(body)


def test_a_slow_reader_slows_the_writer(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world).open()
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        sent = 0
        piece = bytes(range(256)) * 256
        while not client.paused:
            client.transport.write(piece)
            sent += len(piece)
            await asyncio.sleep(0)
            assert sent < 64 << 20, "never told to pause"
        assert client.transport.get_write_buffer_size() > 0
        server.transport.resume_reading()
        await client.resumed.wait()
        assert await server.received(sent) == piece * (sent // len(piece))
        assert client.transport.get_write_buffer_size() == 0

    play(body)


def test_reading_stops_while_paused(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world).open()
        client.transport.write(b"1")
        await server.received(1)
        server.transport.pause_reading()
        server.transport.pause_reading()
        client.transport.write(b"2")
        server.transport.write(b"pong")
        await client.received(4)  # the wire works, but nothing was read
        assert server.seen == b"1"
        server.transport.resume_reading()
        server.transport.resume_reading()
        assert await server.received(2) == b"12"

    play(body)


def test_small_buffers_are_filled_again_and_again(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world, lambda: WireEnd(buffer_bytes=3)).open()
        client.transport.write(b"abcdefgh")
        assert await server.received(8) == b"abcdefgh"

    play(body)


def test_writelines_takes_every_kind_of_bytes(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        client, server = await Pair(world).open()
        client.transport.write(b"")
        client.transport.writelines([b"ab", bytearray(b"cd"), memoryview(b"ef")])
        assert await server.received(6) == b"abcdef"

    play(body)


def test_a_protocol_may_close_in_its_callbacks(play: Play) -> None:
    class ClosesAtOnce(WireEnd):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"bye")
            self.transport.close()

    async def body(world: World, _: str) -> None:
        client, server = await Pair(world, ClosesAtOnce).open()
        assert await server.lost() is None
        await client.lost()
        assert client.seen == b"bye"
        assert client.at_eof

    play(body)


def test_unknown_hosts_are_os_errors(play: Play) -> None:
    async def body(world: World, _: str) -> None:
        with pytest.raises(OSError):
            await world.network.connect(WireEnd, "no-such-host.invalid", 9092)

    play(body)


@pytest.mark.parametrize(
    ("host", "known"),
    [("localhost", True), ("127.0.0.1", True), ("10.1.2.3", True), ("10.0.0.300", False)],
)
def test_which_hosts_have_an_address(play: Play, host: str, known: bool) -> None:
    async def body(world: World, _: str) -> None:
        assert await world.network.resolves(host) is known
        if known:
            assert await world.network.addresses(host)
        else:
            with pytest.raises(OSError):
                await world.network.addresses(host)

    play(body)
