"""A connection to a SASL listener, on any Network."""

from __future__ import annotations

import asyncio
import struct

from minikafka.core.security.sasl.client_login import ClientLoggedIn, ClientLogin, LoginFailed
from minikafka.core.security.sasl.exchange import ClientExchange, Send
from minikafka.core.security.sasl.scram import ScramClient
from minikafka.core.security.scram_credentials import Mechanism
from minikafka.kernel.ports import World
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.protocol.schema import Message
from tests.support.network.wire_end import WireEnd


class Closed(Exception):
    """The broker closed the connection without a response."""


class SaslConnection:
    """Sends frames, logs in, and sends requests. The connection is open after ``open``."""

    def __init__(self, world: World, end: WireEnd) -> None:
        self._world = world
        self._end = end
        self._taken = 0  # bytes that were read as frames
        self._login = ClientLogin("test")

    @classmethod
    async def open(cls, world: World, host: str, port: int) -> SaslConnection:
        _, end = await world.network.connect(WireEnd, host, port)
        assert isinstance(end, WireEnd)
        return cls(world, end)

    async def log_in(self, exchange: ClientExchange) -> ClientLoggedIn:
        """Log in, or log in again. Raises KafkaError, or Closed."""
        actions = self._login.begin(exchange, 0.5)
        while True:
            (action,) = actions
            if isinstance(action, ClientLoggedIn):
                return action
            if isinstance(action, LoginFailed):
                raise action.error
            assert isinstance(action, Send)
            self._end.transport.write(action.frame)
            actions = self._login.receive(await self.frame(), self._world.clock.monotonic_ms())

    async def request(self, message: Message, version: int) -> Message:
        """Send a request and return its response. Raises Closed."""
        api_key = message.SPEC.api_key
        assert api_key is not None
        self._end.transport.write(
            encode_request(RequestHeader(api_key, version, 1, "test"), message)
        )
        return decode_response(RESPONSES[api_key], version, await self.frame())[1]

    async def frame(self) -> memoryview:
        """Return the next frame, without its size. Raises Closed."""
        (size,) = struct.unpack(">i", await self._next(4))
        return memoryview(await self._next(size))

    async def _next(self, count: int) -> bytes:
        start, self._taken = self._taken, self._taken + count
        arrival = asyncio.ensure_future(self._end.received(self._taken))
        loss = asyncio.ensure_future(self._end.lost())
        await asyncio.wait([arrival, loss], return_when=asyncio.FIRST_COMPLETED)
        loss.cancel()
        if not arrival.done():
            arrival.cancel()
            raise Closed
        return arrival.result()[start : self._taken]

    def close(self) -> None:
        self._end.transport.close()


def scram(world: World, mechanism: Mechanism, user: str, password: str) -> ScramClient:
    nonce = world.entropy.random_bytes(9).hex()
    return ScramClient(mechanism, user, password, nonce)
