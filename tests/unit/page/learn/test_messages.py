"""The log of messages: headers are decoded however bytes are cut; it keeps a bounded number."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.page.learn.messages import MessageLog, WireMessage

CLIENT, SERVER = ("client", 49152), ("broker-1", 9092)
pytestmark = pytest.mark.mission("LEARN-3")


class Wire:
    """A log, and a clock that each piece moves on."""

    def __init__(self, limit: int = 100) -> None:
        self.now_us = 0
        self.changes: list[tuple[WireMessage, str]] = []
        self.log = MessageLog(limit, lambda: self.now_us, lambda *it: self.changes.append(it))

    def changed(self, how: str) -> list[WireMessage]:
        return [message for message, change in self.changes if change == how]

    def send(self, data: bytes, cuts: list[int], *, back: bool = False) -> None:
        source, target = (SERVER, CLIENT) if back else (CLIENT, SERVER)
        ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
        begin = 0
        for end in ends:
            self.now_us += 1
            self.log.sent(source, target, memoryview(data)[begin:end])
            begin = end
        for count in (len(data) // 2, len(data) - len(data) // 2):
            self.now_us += 1
            self.log.arrived(source, target, count)


def request(key: int, correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ihhi", 8 + len(body), key, 9, correlation_id) + body


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 18]), st.binary(max_size=30)), max_size=6),
    st.lists(st.integers(0, 200), max_size=10),
)
def test_frames_are_found_however_they_are_cut(
    bodies: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    wire, names = Wire(), {0: "Produce", 1: "Fetch", 18: "ApiVersions"}
    wire.send(b"".join(request(key, n, body) for n, (key, body) in enumerate(bodies)), cuts)
    wire.send(b"".join(response(n, body) for n, (_, body) in enumerate(bodies)), cuts, back=True)
    apis = [names[key] for key, _ in bodies]
    found = list(wire.log)
    assert [message.api for message in found] == apis * 2
    assert [message.correlation_id for message in found] == [*range(len(bodies))] * 2
    assert [message.is_request for message in found] == [True] * len(apis) + [False] * len(apis)
    sizes = [12 + len(body) for _, body in bodies] + [8 + len(body) for _, body in bodies]
    assert [message.size_bytes for message in found] == sizes
    assert wire.changed("sent") == wire.changed("arrived") == found
    for message in found:
        assert message.arrived_us is not None
        assert message.sent_us < message.arrived_us
        ends = ("client", "broker-1") if message.is_request else ("broker-1", "client")
        assert (message.source, message.target) == ends


def test_a_message_begins_with_its_first_byte_and_arrives_with_its_last() -> None:
    wire = Wire()
    wire.send(request(3, 7, bytes(8)), [5, 15])
    (message,) = wire.log
    assert (message.sent_us, message.arrived_us) == (1, 5)


@pytest.mark.parametrize(
    "data",
    [b"GET /state.json HTTP/1.1\r\n\r\n", request(9999, 1), struct.pack(">ihhi", 7, 3, 0, 1)],
)
def test_other_protocols_are_left_out(data: bytes) -> None:
    wire = Wire()
    wire.send(data, [])
    wire.send(b"HTTP/1.1 200 OK\r\n\r\n", [], back=True)
    wire.send(request(3, 7), [])
    assert not list(wire.log)


def test_the_log_is_bounded() -> None:
    wire = Wire(limit=10)
    for number in range(3_000):
        wire.send(request(0, number), [])  # acks=0: there is no response
    assert [message.correlation_id for message in wire.log] == [*range(2_990, 3_000)]
    (conversation,) = wire.log._conversations.values()
    assert len(conversation.apis) == 1_000
    wire.log.closed(CLIENT, SERVER)
    assert not wire.log._conversations


def test_messages_on_the_way_at_the_end_are_lost() -> None:
    wire = Wire()
    wire.send(request(0, 1), [])
    wire.log.sent(CLIENT, SERVER, memoryview(request(1, 2)))
    wire.log.closed(CLIENT, SERVER)
    assert [(m.api, m.arrived_us is None, m.lost) for m in wire.log] == [
        ("Produce", False, False),
        ("Fetch", True, True),
    ]
    assert [message.api for message in wire.changed("lost")] == ["Fetch"]
