"""Encoding and decoding of the two hot messages, beside struct calls that move the same bytes."""

from __future__ import annotations

import struct
import timeit
from collections.abc import Callable
from functools import partial

from minikafka.protocol import codec
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from scripts.lib.bench.report import Report

RECORDS = bytes(1024)


def microseconds(call: Callable[[], object]) -> float:
    """The best of five rounds: the cost without the machine's noise."""
    number = 20_000
    return min(timeit.repeat(call, number=number, repeat=5)) / number * 1e6


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=RECORDS)
    topic = TopicProduceData(name="bench", partition_data=[partition])
    return ProduceRequest(acks=1, timeout_ms=30000, topic_data=[topic])


def fetch_response() -> FetchResponse:
    partition = PartitionData(
        partition_index=0, high_watermark=9, last_stable_offset=9, records=RECORDS
    )
    topic = FetchableTopicResponse(topic="bench", partitions=[partition])
    return FetchResponse(session_id=0, responses=[topic])


def run(report: Report) -> None:
    report.section("codec, 1 KB of records (µs; probe: one struct call and one slice or join)")
    fixed = struct.Struct(">hihiii")
    for name, message, version in (
        ("ProduceRequest v9", produce_request(), 9),
        ("FetchResponse v12", fetch_response(), 12),
    ):
        data = codec.encode(message, version)
        view = memoryview(data)
        kind = type(message)
        decode = microseconds(partial(lambda k, v, w: codec.decode(k, v, w), kind, version, view))
        bare = microseconds(partial(lambda w: (fixed.unpack_from(w), w[20:1044]), view))
        report.row(f"{name} decode", "µs", decode, bare, smaller_is_better=True)
        encode = microseconds(partial(lambda m, v: codec.encode(m, v), message, version))
        bare = microseconds(lambda: b"".join((fixed.pack(1, 2, 3, 4, 5, 6), RECORDS)))
        report.row(f"{name} encode", "µs", encode, bare, smaller_is_better=True)
