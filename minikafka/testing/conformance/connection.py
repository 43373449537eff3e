"""One TCP connection of a check: frames as bytes, and requests from plain values."""

from __future__ import annotations

import asyncio
import itertools
import struct
from typing import Any, Self

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.plain_values import built
from minikafka.testing.conformance.expectations import Broken, expect

CLIENT_ID = "conformance"
LARGEST_RESPONSE_BYTES = 64 << 20
CLOSE_LIMIT_S = 5
_SIZE = struct.Struct(">i")


class Connection:
    """A plain connection without login. Only one caller may wait for a response at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids = itertools.count(1)

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        """Raises OSError."""
        return cls(*await asyncio.open_connection(host, port))

    def close(self) -> None:
        self._writer.close()

    async def send(self, data: bytes) -> None:
        """Send bytes as they are. Raises Broken if the connection is lost."""
        if self._writer.is_closing():
            raise Broken("the broker closed the connection")
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            raise Broken("the broker closed the connection") from None

    async def receive(self) -> bytes:
        """Return the next frame without its size. Raises Broken if the connection is closed."""
        try:
            (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
            if not 4 <= size <= LARGEST_RESPONSE_BYTES:
                raise Broken(f"the size of a response is {size}")
            return await self._reader.readexactly(size)
        except (ConnectionError, asyncio.IncompleteReadError):
            raise Broken("the broker closed the connection") from None

    async def exchange(self, data: bytes) -> bytes:
        await self.send(data)
        return await self.receive()

    async def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request and return its response. Raises Broken without one."""
        correlation_id = next(self._ids)
        try:
            answer = await self.exchange(frame(key, version, correlation_id, **fields))
        except Broken as broken:
            raise Broken(f"{broken} at {key.api_name} version {version}") from None
        found, response = decode_response(RESPONSES[key], version, answer)
        expect("the correlation id of the response", found, correlation_id)
        return response

    async def is_closed_by_broker(self) -> bool:
        """Whether the broker closes the connection, within a limit, without a response."""
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                return not await self._reader.read(1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def frame(
    key: ApiKey,
    version: int,
    correlation_id: int = 1,
    /,
    client_id: str | None = CLIENT_ID,
    **fields: Any,
) -> bytes:
    """Return a request with its size. Raises EncodeError for a field that the version lacks."""
    header = RequestHeader(key, version, correlation_id, client_id)
    return encode_request(header, built(REQUESTS[key], fields))
