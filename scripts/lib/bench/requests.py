"""Requests of benchmarks, built by the schema from plain values, and checks of their responses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import error_codes
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.plain_values import built
from minikafka.protocol.records.builder import build_batch

# The versions that benchmarks use; any other API in its newest one.
VERSIONS = {
    ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.METADATA: 8, ApiKey.OFFSET_COMMIT: 8,
    ApiKey.FIND_COORDINATOR: 3, ApiKey.INIT_PRODUCER_ID: 4, ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 3, ApiKey.API_VERSIONS: 0, ApiKey.SASL_AUTHENTICATE: 2, ApiKey.CREATE_ACLS: 2,
    ApiKey.LEADER_AND_ISR: 4, ApiKey.STOP_REPLICA: 3, ApiKey.UPDATE_METADATA: 7,
    ApiKey.LIST_OFFSETS: 7, ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
}  # fmt: skip
SIZE = struct.Struct(">i")
CHUNK = 1 << 20
LIMIT_S = 5
Check = Callable[[bytes], object]


def version_of(key: ApiKey) -> int:
    return VERSIONS.get(key, key.max_version)


def frame(key: ApiKey, version: int | None = None, /, **values: Any) -> bytes:
    """Encode a request, size included. ``values`` are its fields; a nested struct is a dict."""
    header = RequestHeader(key, version_of(key) if version is None else version, 1, "bench")
    return encode_request(header, built(REQUESTS[key], values))


def decoded(key: ApiKey, answer: bytes, version: int | None = None) -> Any:
    version = version_of(key) if version is None else version
    return decode_response(RESPONSES[key], version, memoryview(answer))[1]


def accepted(key: ApiKey, answer: bytes) -> Any:
    """Return the decoded response. Raises RuntimeError if it has an error: refusing is quick."""
    response = decoded(key, answer)
    for code in error_codes(response):
        raise RuntimeError(f"{key.api_name} was answered with {ErrorCode(code).name}")
    return response


def check_of(key: ApiKey) -> Check:
    return partial(accepted, key)


# ------------------------------------------------------------------------------- produce and fetch


def batch_of(record_bytes: int, count: int = 1, **fields: Any) -> bytes:
    record = (int(time.time() * 1000), None, bytes(record_bytes), ())
    return bytes(build_batch([record] * count, **fields))


def produce_frame(
    topic: str, record_bytes: int, acks: int, partition: int = 0, records_per_batch: int = 1
) -> bytes:
    """A request with one batch of records of so many bytes."""
    data = {"index": partition, "records": batch_of(record_bytes, records_per_batch)}
    topics = [{"name": topic, "partition_data": [data]}]
    return frame(ApiKey.PRODUCE, acks=acks, timeout_ms=30_000, topic_data=topics)


def fetch_frame(
    topic: str, offset: int, max_bytes: int, partition: int = 0, **values: Any
) -> bytes:
    """A request of one partition; ``values`` are further fields of it."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    values = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": max_bytes, **values}
    return frame(ApiKey.FETCH, topics=[{"topic": topic, "partitions": [wanted]}], **values)


def produced_offset(answer: bytes) -> int:
    """Return the offset that the records of a Produce got."""
    partition = accepted(ApiKey.PRODUCE, answer).responses[0].partition_responses[0]
    return int(partition.base_offset)


def fetched_bytes(answer: bytes) -> int:
    """Return how many bytes of records a response of one partition has, which must be some."""
    partition = accepted(ApiKey.FETCH, answer).responses[0].partitions[0]
    if not partition.records:
        raise RuntimeError("a fetch was answered without records")
    return len(partition.records)


# ------------------------------------------------------------------------------------- connections


def receive(connection: socket.socket) -> bytes | None:
    """Return one response without its size; None if the connection is closed before its end."""
    head = _receive_exactly(connection, SIZE.size)
    return _receive_exactly(connection, *SIZE.unpack(head)) if head else None


def _receive_exactly(connection: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        chunk = connection.recv(min(CHUNK, count - len(received)))
        if not chunk:
            return None
        received += chunk
    return bytes(received)


def exchange(port: int, request: bytes, limit_s: float = LIMIT_S) -> bytes | None:
    """Return the response to a frame; None if the connection is closed instead, or it is late."""
    address = ("127.0.0.1", port)
    with contextlib.suppress(OSError), socket.create_connection(address, limit_s) as connection:
        connection.sendall(request)
        return receive(connection)
    return None


def metadata(port: int, topics: Sequence[str] | None = ()) -> Any:
    """Return what the broker at a port knows of brokers and topics, of all topics if ``topics`` is
    None; None if it does not respond."""
    named = None if topics is None else [{"name": topic} for topic in topics]
    answer = exchange(port, frame(ApiKey.METADATA, topics=named, allow_auto_topic_creation=False))
    return None if answer is None else decoded(ApiKey.METADATA, answer)


class Connection:
    """A connection of asyncio with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def exchange(self, request: bytes) -> bytes:
        self._writer.write(request)
        return await self._reader.readexactly(*SIZE.unpack(await self._reader.readexactly(4)))

    async def request(self, key: ApiKey, /, **values: Any) -> Any:
        """Return the decoded response, with its errors."""
        return decoded(key, await self.exchange(frame(key, **values)))

    async def is_closed_by_server(self) -> bool:
        return not await self._reader.read(1)

    def close(self) -> None:
        self._writer.close()
