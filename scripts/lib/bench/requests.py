"""The requests that the benchmarks send, and what their answers must say."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Sequence

from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
METADATA_VERSION = 8
ANSWER_LIMIT_S = 5


def produce_frame(
    topic: str, record_bytes: int, acks: int, partition: int = 0, records_per_batch: int = 1
) -> bytes:
    """A whole frame: one batch of records of so many bytes."""
    record = (int(time.time() * 1000), None, bytes(record_bytes), ())
    records = build_batch([record] * records_per_batch)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(topic, [PartitionProduceData(partition, records)])],
    )
    return encode_request(RequestHeader(0, PRODUCE_VERSION, 1, "bench"), request)


def check_produced(answer: bytes) -> None:
    """Raises unless the record was accepted: a refused one would be quick."""
    error = produce_error(answer)
    if error:
        raise RuntimeError(f"produce was answered with error {error}")


def produce_error(answer: bytes) -> int:
    """The error code of the one partition of a Produce response; 0 if it was accepted."""
    _, response = decode_response(ProduceResponse, PRODUCE_VERSION, memoryview(answer))
    return int(response.responses[0].partition_responses[0].error_code)


def fetch_frame(
    topic: str,
    offset: int,
    max_bytes: int,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    partition: int = 0,
) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return encode_request(RequestHeader(1, FETCH_VERSION, 1, "bench"), request)


def fetched(answer: bytes) -> memoryview:
    """The records of an answer."""
    _, response = decode_response(FetchResponse, FETCH_VERSION, memoryview(answer))
    partition = response.responses[0].partitions[0]
    if partition.error_code:
        raise RuntimeError(f"fetch was answered with error {partition.error_code}")
    return memoryview(partition.records or b"")


def metadata(port: int, topics: Sequence[str] = ()) -> MetadataResponse | None:
    """Return what the broker at a port knows of brokers and topics; None if it does not respond."""
    wanted = [MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    frame = encode_request(RequestHeader(3, METADATA_VERSION, 1, "bench"), request)
    with contextlib.suppress(OSError):
        address = ("127.0.0.1", port)
        with socket.create_connection(address, ANSWER_LIMIT_S) as connection:
            connection.sendall(frame)
            with connection.makefile("rb") as stream:
                size = stream.read(4)
                if len(size) == 4:
                    body = memoryview(stream.read(*struct.unpack(">i", size)))
                    return decode_response(MetadataResponse, METADATA_VERSION, body)[1]
    return None


def live_brokers(port: int) -> set[int]:
    """Return the ids of the brokers that the broker at a port lists; none if it does not serve."""
    found = metadata(port)
    return {broker.node_id for broker in found.brokers} if found else set()
