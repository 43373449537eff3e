"""What only real sockets have."""

from __future__ import annotations

import asyncio
import socket

import uvloop

from minikafka.world.real.network import RealNetwork


class End(asyncio.BufferedProtocol):
    def __init__(self, made: asyncio.Future[asyncio.BaseTransport]) -> None:
        self._made = made
        self._buffer = bytearray(1024)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.set_result(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None: ...


def test_both_ends_notice_a_peer_that_is_gone_without_a_word() -> None:
    async def play() -> list[int]:
        loop, network = asyncio.get_running_loop(), RealNetwork()
        accepted, connected = loop.create_future(), loop.create_future()
        listener = await network.listen(lambda: End(accepted), "127.0.0.1", 0)
        await network.connect(lambda: End(connected), "127.0.0.1", listener.port)
        transports = [await accepted, await connected]
        options = [
            transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            for transport in transports
        ]
        for transport in transports:
            transport.close()
        listener.close()
        return options

    for run in (asyncio.run, uvloop.run):
        assert all(run(play()))
