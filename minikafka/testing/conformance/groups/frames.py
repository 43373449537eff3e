"""Frames, headers, order, and what ends a connection."""

from __future__ import annotations

from typing import Any

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import decode_response
from minikafka.protocol.messages.metadata import MetadataResponse
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.connection import frame
from minikafka.testing.conformance.expectations import NotOffered, expect, expect_true
from minikafka.testing.conformance.subject import Subject

METADATA = ApiKey.METADATA
UNKNOWN_KEY = 20_000
LARGEST_SIZE = b"\x7f\xff\xff\xff"
TAGGED_FIELD = b"\x01\xe7\x07\x03abc"  # one field, tag 999, three bytes


async def _is_closed_after(s: Subject, data: bytes) -> None:
    """Expect that the broker closes the connection after ``data``, and serves others."""
    connection = await s.connect()
    await connection.send(data)
    expect_true(await connection.is_closed_by_broker(), "the connection stays open")
    await s.ask(METADATA, topics=[])


async def _answers(s: Subject, data: bytes, version: int, correlation_id: int = 1) -> None:
    connection = await s.connect()
    found, response = decode_response(MetadataResponse, version, await connection.exchange(data))
    expect("the correlation id", found, correlation_id)
    expect_true(bool(response.brokers), "the response has no brokers")


def _flexible(s: Subject) -> int:
    return s.version(METADATA, METADATA.first_flexible)


@check("RequestHeader")
async def a_correlation_id_is_returned_whatever_it_is(s: Subject) -> None:
    """A client would match the response with another request, or drop the connection."""
    version = s.version(METADATA)
    for correlation_id in (0, 1, 2**31 - 1, -(2**31), -1):
        await _answers(
            s, frame(METADATA, version, correlation_id, topics=[]), version, correlation_id
        )


@check("NetworkClient, max.in.flight.requests.per.connection")
async def requests_in_flight_are_answered_in_order(s: Subject) -> None:
    """A client with several requests in flight would take responses for those of others."""
    version, connection = s.version(METADATA), await s.connect()
    ids = list(range(1, 21))
    await connection.send(b"".join(frame(METADATA, version, n, topics=[]) for n in ids))
    found = [int.from_bytes((await connection.receive())[:4], "big") for _ in ids]
    expect("the order of correlation ids", found, ids)


@check("SocketServer, which mutes a channel")
async def a_waiting_fetch_holds_back_later_responses(s: Subject) -> None:
    """A client would get the response of a later request first."""
    topic = await s.topic()
    connection = await s.connect(s.cluster.brokers[topic.leaders[0]])
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    rows = [{"topic": topic.name, "topic_id": topic.topic_id, "partitions": [row]}]
    waiting: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "topics": rows}
    await connection.send(frame(ApiKey.FETCH, s.version(ApiKey.FETCH, 4), 1, **waiting))
    await connection.send(frame(METADATA, s.version(METADATA), 2, topics=[]))
    found = [int.from_bytes((await connection.receive())[:4], "big") for _ in range(2)]
    expect("the order of correlation ids", found, [1, 2])


@check("RequestHeader")
async def a_client_id_may_be_null_or_empty(s: Subject) -> None:
    """Clients without an id would be refused."""
    version = s.version(METADATA)
    for client_id in (None, "", "ü" * 100):
        await _answers(s, frame(METADATA, version, client_id=client_id, topics=[]), version)


@check("KIP-482")
async def unknown_tagged_fields_of_a_request_are_skipped(s: Subject) -> None:
    """A newer client could not add a field."""
    version = _flexible(s)
    data = frame(METADATA, version, topics=[])[4:-1] + TAGGED_FIELD
    await _answers(s, len(data).to_bytes(4, "big") + data, version)


@check("KIP-482")
async def unknown_tagged_fields_of_a_header_are_skipped(s: Subject) -> None:
    """A newer client could not add a field to the header."""
    version = _flexible(s)
    data = frame(METADATA, version, client_id="", topics=[])[4:]
    data = data[:10] + TAGGED_FIELD + data[11:]
    await _answers(s, len(data).to_bytes(4, "big") + data, version)


@check("NetworkReceive")
async def a_frame_may_arrive_in_pieces(s: Subject) -> None:
    """A client behind a slow link would be disconnected."""
    version, connection = s.version(METADATA), await s.connect()
    data = frame(METADATA, version, topics=[])
    for i in range(len(data) - 1):
        await connection.send(data[i : i + 1])
    await connection.send(data[-1:])
    decode_response(MetadataResponse, version, await connection.receive())


@check("KafkaApis, RequestChannel")
async def an_unknown_API_ends_the_connection(s: Subject) -> None:
    """A client would wait for a response until its time-out."""
    data = bytearray(frame(METADATA, s.version(METADATA), topics=[]))
    data[4:6] = UNKNOWN_KEY.to_bytes(2, "big")
    await _is_closed_after(s, bytes(data))


@check("RequestContext")
async def an_unknown_version_ends_the_connection(s: Subject) -> None:
    """A client would read the response in a layout that it does not have."""
    data = bytearray(frame(METADATA, s.version(METADATA), topics=[]))
    data[6:8] = (s.cluster.offered[METADATA][1] + 1).to_bytes(2, "big")
    await _is_closed_after(s, bytes(data))


@check("NetworkReceive, socket.request.max.bytes")
async def a_frame_of_a_giant_size_ends_the_connection(s: Subject) -> None:
    """Stray bytes, such as those of HTTP, would make the broker wait or fill its memory."""
    await _is_closed_after(s, LARGEST_SIZE)


@check("NetworkReceive")
async def a_frame_of_a_negative_size_ends_the_connection(s: Subject) -> None:
    """A connection that lost its place would hang instead of being opened again."""
    await _is_closed_after(s, b"\xff\xff\xff\xff")


@check("NetworkReceive")
async def the_beginning_of_an_HTTP_request_ends_the_connection(s: Subject) -> None:
    """A browser or a health check of HTTP would hang."""
    await _is_closed_after(s, b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")


@check("RequestHeader")
async def a_frame_without_a_header_ends_the_connection(s: Subject) -> None:
    """A client with a fault would wait until its time-out."""
    await _is_closed_after(s, b"\0\0\0\x02\0\x03")


@check("RequestContext")
async def a_request_that_is_cut_off_ends_the_connection(s: Subject) -> None:
    """A client with a fault would get a response to something that it has not sent."""
    version = s.version(METADATA)
    data = frame(METADATA, version, topics=[{"name": "topic"}])[4:]
    data = data[: len(data) - 6]
    await _is_closed_after(s, len(data).to_bytes(4, "big") + data)


@check("RequestContext")
async def an_array_longer_than_its_frame_ends_the_connection(s: Subject) -> None:
    """One frame of twenty bytes could make the broker take memory for two billion elements."""
    versions = s.cluster.versions(METADATA)
    if versions.start >= METADATA.first_flexible:
        raise NotOffered("Metadata version 8 or older", METADATA, (1, 8))
    version = min(versions[-1], METADATA.first_flexible - 1)
    at = len(frame(METADATA, 1, topics=[])) - 4
    whole = bytearray(frame(METADATA, version, topics=[]))
    whole[at : at + 4] = LARGEST_SIZE
    await _is_closed_after(s, bytes(whole))


@check("KIP-74")
async def a_request_of_a_megabyte_is_served(s: Subject) -> None:
    """A producer's batches would have to be small."""
    topic = await s.topic(max_message_bytes=2_000_000)
    value = bytes(1_000_000)
    await s.produce(topic, value, data=s.batch(value))
    expect("the log end", await s.end_offset(topic), 1)
