"""Benchmarks send what they say, and refuse to measure error responses."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode
from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from scripts.lib.bench.load import Client, Result, middle
from scripts.lib.bench.loads import TABLES
from scripts.lib.bench.requests import accepted, check_of, frame, produce_frame

HEADER_BYTES = 4 + 8 + 7 + 1  # size; key, version, correlation id; "bench"; no tags


def test_dicts_become_the_structs_of_the_schema() -> None:
    topics = [{"name": "t", "num_partitions": 3, "assignments": []}]

    sent = frame(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=5)

    request = decode(CreateTopicsRequest, 7, memoryview(sent)[HEADER_BYTES:])
    assert (request.timeout_ms, len(request.topics)) == (5, 1)
    assert (request.topics[0].name, request.topics[0].num_partitions) == ("t", 3)


def produce_response(code: int) -> bytes:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=7)
    response = ProduceResponse(
        responses=[TopicProduceResponse("t", partition_responses=[partition])]
    )
    return bytes(encode_response(1, response, 9))[4:]


def test_an_error_of_a_partition_is_refused() -> None:
    accepted(ApiKey.PRODUCE, produce_response(ErrorCode.NONE))

    with pytest.raises(RuntimeError, match="Produce was answered with NOT_LEADER_OR_FOLLOWER"):
        accepted(ApiKey.PRODUCE, produce_response(ErrorCode.NOT_LEADER_OR_FOLLOWER))


@contextmanager
def server_of(codes: list[int]) -> Iterator[int]:
    """A server on a port that responds to Produce with an error code after the other, and then
    with the last one."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            await reader.readexactly(*struct.unpack(">i", size))
            answer = produce_response(codes.pop(0) if len(codes) > 1 else codes[0])
            writer.write(struct.pack(">i", len(answer)) + answer)

    async def serve() -> None:
        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        started.set()
        await asyncio.to_thread(stopped.wait)

    ports: list[int] = []
    started, stopped = threading.Event(), threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait(30)
    try:
        yield ports[0]
    finally:
        stopped.set()
        thread.join()


def test_a_round_counts_the_responses_of_all_connections() -> None:
    with server_of([0]) as port:
        result = Client(port, [[produce_frame("t", 10, 1)]] * 3, check_of(ApiKey.PRODUCE)).drive(50)

    assert (result.count, len(result.latencies_ms), sum(result.shares)) == (50, 50, 50)


@pytest.mark.parametrize("codes", [[0, 0, 0, 0, 6], [0, 6, 0]], ids=["last", "first"])
def test_a_round_with_an_error_at_either_end_is_refused(codes: list[int]) -> None:
    client_frames = [[produce_frame("t", 10, 1)]]
    with server_of(codes) as port, pytest.raises(RuntimeError, match="NOT_LEADER_OR_FOLLOWER"):
        Client(port, client_frames, check_of(ApiKey.PRODUCE)).drive(10)


def test_the_middle_round_has_the_least_cpu_time_of_all() -> None:
    rounds = [Result(100, seconds, cpu) for seconds, cpu in ((1.0, 3.0), (4.0, 1.0), (2.0, 2.0))]

    found = middle(rounds)

    assert (found.per_second, found.cpu_s) == (50.0, 1.0)


def test_loads_of_a_table_are_named_apart() -> None:
    for tables in TABLES.values():
        for table in tables:
            names = [load.name for load in table.loads]
            assert len(set(names)) == len(names)
