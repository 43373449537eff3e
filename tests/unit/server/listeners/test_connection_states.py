"""The tables of states of a connection, its reply queue and its flow control: every row holds."""

from __future__ import annotations

import ast
import asyncio
import re
import struct
from collections.abc import Callable
from enum import Enum
from functools import partial
from inspect import isawaitable
from typing import Any, cast

import pytest

from minikafka.server.listeners.flow_control import FlowControl, FlowState, Pause
from minikafka.server.listeners.listener_resources import ServerConfig
from minikafka.server.listeners.memory_budget import MemoryBudget
from minikafka.server.listeners.reply_queue import (
    LARGE_REPLY_BYTES,
    ReplyQueue,
    ReplySlot,
    ReplyState,
)
from minikafka.server.listeners.server_connection import ConnectionState, ServerConnection
from tests.support.network.network_lab import framed
from tests.support.network.wired_connection import WiredConnection
from tests.support.sources import PACKAGE

Row = tuple[str, str, str]
Step = Callable[[Any], Any]


def rows_of(module: str, first_column: str) -> list[Row]:
    """Return the rows of a table in the docstring of a module."""
    text = (
        ast.get_docstring(ast.parse((PACKAGE / f"server/listeners/{module}.py").read_text())) or ""
    )
    lines = iter(text.splitlines())
    while not next(lines).startswith(f"    {first_column} "):
        pass
    found = [
        cast(Row, tuple(re.split(r" {2,}", line.strip()))) for line in iter(lines.__next__, "")
    ]
    assert all(len(row) == 3 for row in found)
    return found


def states_of(module: str, states: type[Enum]) -> dict[tuple[str, str], str]:
    """Return the next states by state and event; "any" stands for every state."""
    return {
        (state.name, event): next_state
        for name, event, next_state in rows_of(module, "state")
        for state in states
        if name in ("any", state.name)
    }


FLOW = states_of("flow_control", FlowState)
REPLIES = states_of("reply_queue", ReplyState)
CONNECTION = states_of("server_connection", ConnectionState)
REASONS = rows_of("flow_control", "reason")


@pytest.mark.parametrize(
    ("table", "states"),
    [(FLOW, FlowState), (REPLIES, ReplyState), (CONNECTION, ConnectionState)],
    ids=["flow", "replies", "connection"],
)
def test_every_state_has_a_row_and_is_reached(
    table: dict[tuple[str, str], str], states: type[Enum]
) -> None:
    first, *others = [state.name for state in states]
    assert {first, *others} - {state for state, _ in table} <= {"CLOSED"}  # nothing follows it
    assert {first, *table.values()} == {first, *others}


async def step(do: Step, subject: object) -> None:
    done = do(subject)
    if isawaitable(done):
        await done


async def turn(_: object = None) -> None:
    await asyncio.sleep(0)


class Flow:
    """A flow control, and the connection and the transport that it calls."""

    client_host = "here"

    def __init__(self) -> None:
        self.is_read = True
        self.wire = WiredConnection(lambda connection, frame: None)
        self.control = FlowControl(self.wire.resources, [], cast(Any, self))
        self.control.transport = cast(Any, self)
        self.serve_held: Callable[[], None] = lambda: None

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def pause_and_resume(self) -> None:
        self.control.pause()
        self.control.resume()

    async def turn_with_reason(self) -> None:
        self.control.reasons.add(Pause.MUTED)
        await turn()

    async def turn_of(self, serve_held: Callable[[], None]) -> None:
        self.serve_held = serve_held
        await turn()

    def resume(self) -> None:
        self.control.reasons.clear()
        self.control.resume()


FLOW_STATES: dict[str, Step] = {
    "READING": lambda flow: None,
    "PAUSED": lambda flow: flow.control.begin(Pause.MUTED),
    "RESUMING": Flow.pause_and_resume,
    "ENDED": lambda flow: flow.control.end(),
}
FLOW_EVENTS: dict[str, Step] = {
    "pause": lambda flow: flow.control.pause(),
    "resume without a reason": Flow.resume,
    "next turn with a reason": Flow.turn_with_reason,
    "next turn, held frames have to wait": lambda flow: flow.turn_of(
        partial(flow.control.begin, Pause.MUTED)
    ),
    "next turn, some held frames are served": lambda flow: flow.turn_of(flow.pause_and_resume),
    "next turn, all held frames are served": lambda flow: flow.turn_of(lambda: None),
    "end": lambda flow: flow.control.end(),
}


def test_every_event_of_flow_control_is_tested() -> None:
    assert {event for _, event in FLOW} == set(FLOW_EVENTS)
    assert set(FLOW_STATES) == set(FlowState.__members__)


@pytest.mark.parametrize("event", FLOW_EVENTS)
@pytest.mark.parametrize("state", FLOW_STATES)
async def test_flow_control_follows_its_table(state: str, event: str) -> None:
    flow = Flow()
    FLOW_STATES[state](flow)
    await step(FLOW_EVENTS[event], flow)
    assert flow.control.state.name == FLOW.get((state, event), state)
    if flow.control.state is not FlowState.ENDED:
        assert flow.is_read == (flow.control.state is FlowState.READING)


class Handler:
    """Parks requests, but defers those that begin with ``w`` until every request has its reply."""

    def __init__(self) -> None:
        self.slots: list[ReplySlot] = []
        self.served = 0

    def __call__(self, connection: ServerConnection, frame: memoryview) -> bool:
        if connection.unanswered and bytes(frame[:1]) == b"w":
            return True
        self.served += 1
        self.slots.append(connection.open_slot(len(frame)))
        return False

    def answer_one(self) -> None:
        self.slots.pop(0).send(framed(b"reply"))


class Peer:
    """A connection that parks what it receives."""

    def __init__(self, holding: bool = False) -> None:
        self.handler = Handler()
        self.budget = MemoryBudget(1 << 20, max_request_bytes=1_000)
        config = ServerConfig(queued_max_requests=4)
        self.wire = WiredConnection(self.handler, config, self.budget, holding)
        self.connection = self.wire.connection
        self.reasons = self.connection.flow.reasons
        self.other = cast(Any, object())  # a connection

    def await_memory(self) -> None:
        self.wire.receive(b"one")
        self.budget.requests.add(1_000)
        self.wire.receive(b"two")

    def await_buffer(self) -> None:
        """Receive as much of a large frame as there is room, after another connection has begun
        one that takes all memory."""
        self.wire.resources.frame_memory.hold(self.other, 1 << 20, is_under_way=True)
        room = len(self.connection.get_buffer(-1))
        self.wire.receive_bytes((struct.pack(">i", 2 * room) + bytes(room))[:room])


# How each reason begins and ends.
PAUSES: dict[str, tuple[Step, Step]] = {
    "STARTING": (
        lambda peer: peer.wire.receive(b"a"),
        lambda peer: peer.connection.flow.end_reason(Pause.STARTING),
    ),
    "MUTED": (lambda peer: peer.connection.mute(10), lambda peer: peer.wire.clock.advance(10)),
    "WRITE_BUFFER": (
        lambda peer: peer.connection.pause_writing(),
        lambda peer: peer.connection.resume_writing(),
    ),
    "FRAME_MEMORY": (
        Peer.await_buffer,
        lambda peer: peer.wire.resources.frame_memory.forget(peer.other),
    ),
    "AFTER_REPLIES": (
        lambda peer: peer.wire.receive(b"a", b"w"),
        lambda peer: peer.handler.answer_one(),
    ),
    "QUEUE": (
        lambda peer: peer.wire.receive(b"1", b"2", b"3", b"4"),
        lambda peer: (peer.handler.answer_one(), peer.handler.answer_one()),
    ),
    "REQUEST_MEMORY": (Peer.await_memory, lambda peer: peer.budget.requests.add(-1_000)),
    "CLOSING": (lambda peer: peer.connection.stop_serving(), lambda peer: None),
}


def test_every_reason_is_in_the_table_and_tested() -> None:
    assert [name for name, _, _ in REASONS] == list(Pause.__members__) == list(PAUSES)


@pytest.mark.parametrize(("reason", "ends"), [(name, ends) for name, _, ends in REASONS])
async def test_a_connection_is_not_read_while_a_reason_lasts(reason: str, ends: str) -> None:
    begin, end = PAUSES[reason]
    peer = Peer(holding=reason == "STARTING")
    begin(peer)
    served = peer.handler.served
    for _ in range(3):
        await turn()
    assert {each.name for each in peer.reasons} == {reason}
    assert not peer.wire.is_read
    assert peer.handler.served == served
    end(peer)
    for _ in range(4):
        await turn()
    assert peer.wire.is_read == (ends != "never") == (not peer.reasons)
    assert not peer.connection.held


@pytest.mark.parametrize("in_one_read", [True, False])
async def test_reading_stops_with_the_last_request_that_may_be_queued(in_one_read: bool) -> None:
    peer = Peer()
    if in_one_read:
        peer.wire.receive(*[b"request"] * 6)
    else:
        for _ in range(4):
            assert peer.wire.is_read
            peer.wire.receive(b"request")
    assert peer.handler.served == 4
    assert not peer.wire.is_read


async def test_a_connection_that_holds_no_request_memory_is_read() -> None:
    peer = Peer()
    peer.await_memory()
    assert peer.reasons == {Pause.REQUEST_MEMORY}
    peer.handler.answer_one()
    await turn()
    assert peer.handler.served == 2


async def test_reading_goes_on_when_the_last_of_several_reasons_has_ended() -> None:
    peer = Peer()
    peer.connection.mute(10)
    peer.connection.pause_writing()
    peer.wire.clock.advance(10)
    await turn()
    assert not peer.wire.is_read
    peer.connection.resume_writing()
    await turn()
    assert peer.wire.is_read


async def test_reading_goes_on_in_the_turn_that_serves_the_last_held_frame() -> None:
    wire = WiredConnection(lambda connection, frame: connection.open_slot().send(framed(b"reply")))
    wire.connection.mute(10)
    wire.receive(b"held")
    wire.clock.advance(10)
    assert wire.writes == []
    await turn()
    assert wire.writes == [framed(b"reply")]
    assert wire.is_read


class Queue:
    """The reply queue of a connection without requests."""

    def __init__(self) -> None:
        self.wire = WiredConnection(lambda connection, frame: None)
        self.replies: ReplyQueue = self.wire.connection._replies

    def first(self) -> ReplySlot:
        waiting = self.replies.unanswered
        return waiting[0] if waiting else self.replies.open_slot(0)

    def small(self) -> None:
        self.first().send(framed(b"small"))

    def large(self) -> None:
        self.first().send(bytes(LARGE_REPLY_BYTES + 1))

    def small_before_another(self) -> None:
        slot = self.first()
        self.replies.open_slot(0)
        slot.send(framed(b"small"))

    async def get_in_line(self) -> None:
        self.large()
        await turn()

    async def end_read(self) -> None:
        self.small()
        self.replies.end_read()


QUEUE_STATES: dict[str, Step] = {
    "IDLE": lambda queue: None,
    "READ": lambda queue: queue.replies.begin_read(),
    "SCHEDULED": Queue.small_before_another,
    "LARGE": Queue.get_in_line,
    "ENDED": lambda queue: queue.replies.end(),
}
QUEUE_EVENTS: dict[str, Step] = {
    "a read begins": lambda queue: queue.replies.begin_read(),
    "a small reply is ready, and no request is waiting": Queue.small,
    "a reply is ready, and a request is waiting": Queue.small_before_another,
    "a large reply is ready": Queue.large,
    "the read ends, and the replies are written": Queue.end_read,
    "next turn, small replies are written": turn,
    "next turn, large replies get in line": Queue.get_in_line,
    "its turn in line, the replies are written": turn,
    "end": lambda queue: queue.replies.end(),
}


def test_every_event_of_the_reply_queue_is_tested() -> None:
    assert {event for _, event in REPLIES} == set(QUEUE_EVENTS)
    assert set(QUEUE_STATES) == set(ReplyState.__members__)


@pytest.mark.parametrize(("state", "event"), REPLIES)
async def test_the_reply_queue_follows_its_table(state: str, event: str) -> None:
    queue = Queue()
    await step(QUEUE_STATES[state], queue)
    assert queue.replies.state.name == state
    await step(QUEUE_EVENTS[event], queue)
    assert queue.replies.state.name == REPLIES[state, event]
    written = queue.replies.state is ReplyState.IDLE
    assert bool(queue.wire.writes) == written
    assert not (written and queue.replies.out_bytes)


@pytest.mark.parametrize("state", ["READ", "SCHEDULED", "LARGE", "ENDED"])
async def test_a_reply_leaves_the_state_of_a_queue_that_is_not_idle(state: str) -> None:
    for reply in (Queue.small, Queue.large, Queue.small_before_another):
        queue = Queue()
        await step(QUEUE_STATES[state], queue)
        if state != "ENDED":
            reply(queue)
        else:
            ReplySlot(queue.replies, 1, 0).send(b"dropped")
        assert queue.replies.state.name == state
        assert queue.wire.writes == []


@pytest.mark.parametrize("state", ["SCHEDULED", "LARGE"])
async def test_an_ended_queue_writes_nothing_when_its_turn_comes(state: str) -> None:
    queue = Queue()
    await step(QUEUE_STATES[state], queue)
    queue.replies.end()
    for _ in range(3):
        await turn()
    assert queue.replies.state is ReplyState.ENDED
    assert queue.wire.writes == []


class Stream(Peer):
    """A connection with one parked request, which accepts frames of at most ten bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.connection.limit_frames(10)
        self.wire.receive(b"parked")

    def receive_invalid_size(self) -> None:
        self.wire.receive_bytes(struct.pack(">i", 100))

    async def answer(self) -> None:
        if self.connection.unanswered:
            self.handler.answer_one()
        await turn()

    async def allow_and_answer(self) -> None:
        self.connection.limit_frames(None)
        await self.answer()


STREAM_STATES: dict[str, Step] = {
    "OPEN": lambda stream: None,
    "BROKEN": Stream.receive_invalid_size,
    "REFUSING": lambda stream: stream.connection.stop_serving(),
    "CLOSING": lambda stream: stream.connection.close(),
    "CLOSED": lambda stream: stream.connection.connection_lost(None),
}
STREAM_EVENTS: dict[str, tuple[Step, ...]] = {
    "a frame has an invalid size": (Stream.receive_invalid_size,),
    "after its last frame the size is valid": (Stream.allow_and_answer,),
    "after its last frame the size is invalid": (Stream.answer,),
    "stop_serving: a refusal waits, or a login failed": (
        lambda stream: stream.connection.stop_serving(),
        lambda stream: stream.connection.open_slot().refuse("behind another"),
    ),
    "close, refuse or abort": (
        lambda stream: stream.connection.close(),
        lambda stream: stream.connection.refuse("test"),
        lambda stream: stream.connection.abort("test"),
    ),
    "connection_lost": (lambda stream: stream.connection.connection_lost(None),),
}


def test_every_event_of_a_connection_is_tested() -> None:
    assert {event for _, event in CONNECTION} == set(STREAM_EVENTS)
    assert set(STREAM_STATES) == set(ConnectionState.__members__)


@pytest.mark.parametrize("event", STREAM_EVENTS)
@pytest.mark.parametrize("state", STREAM_STATES)
async def test_a_connection_follows_its_table(state: str, event: str) -> None:
    for variant in STREAM_EVENTS[event]:
        stream = Stream()
        STREAM_STATES[state](stream)
        assert stream.connection.state.name == state
        await step(variant, stream)
        assert stream.connection.state.name == CONNECTION.get((state, event), state)
        assert stream.connection.closed == stream.connection.state.name.startswith("CLOS")


async def test_a_connection_that_opens_after_the_broker_began_to_serve_is_served() -> None:
    """With TLS a connection is made before its handshake, and opens after it."""
    served: list[bytes] = []

    def serve(connection: ServerConnection, frame: memoryview) -> bool:
        served.append(bytes(frame))
        connection.open_slot(len(frame)).send(frame.tobytes())
        return False

    wire = WiredConnection(serve, holding=True, opens=False)
    wire.resources.holding = False
    wire.open()
    wire.receive(b"request")
    assert served == [b"request"]
    assert wire.is_read


async def test_a_slot_that_is_opened_after_the_end_counts_nothing() -> None:
    budget = MemoryBudget()

    def serve(connection: ServerConnection, frame: memoryview) -> bool:
        connection.refuse("unwanted")
        connection.open_slot(len(frame)).send(b"late")
        return False

    wire = WiredConnection(serve, budget=budget)
    wire.receive(b"request")
    wire.connection.connection_lost(None)
    assert budget.requests.used_bytes == 0
    assert not wire.connection.unanswered
