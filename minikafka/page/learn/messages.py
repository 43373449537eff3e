"""The log of messages on the simulated wire: requests, responses and their times."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, Final, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import CheckOp, CreateOp, DeleteOp, SetOp, WatchEvent
from minikafka.protocol.api_keys import ApiKey
from minikafka.world.sim.links import Address, Lane
from minikafka.world.sim.transport import Segment, Signal, size_bytes
from minikafka.world.sim.zookeeper import (
    ZOOKEEPER_HOST,
    AclWrite,
    CloseSession,
    ConnectionClosed,
    ConnectRequest,
    ConnectResponse,
    LoginIsRefused,
    Ping,
    Pong,
    Read,
    ReadMany,
    SessionIsExpired,
    ZnodeWrite,
)

_API_NAMES = {int(key): key.api_name for key in ApiKey}
MAX_FRAME_BYTES = 1 << 30
MAX_NAME = 80  # characters of a name with its znode
MAX_UNANSWERED = 1_000  # requests of a connection whose response is matched
REFUSED: Final = "Refused"  # the name of the response to an attempt to connect

LaneOf: TypeAlias = Callable[[Address, Address], Lane[Segment] | None]

_request = struct.Struct(">ihhi")  # size, API key, API version, correlation id
_response = struct.Struct(">ii")  # size, correlation id


@dataclass(slots=True, eq=False)
class WireMessage:
    """A request, a response, or the refusal of a connection. Times are microseconds since the start
    of the simulation; ``sent_us`` is that of its first byte, ``arrived_us`` that of its last (None:
    not yet, or lost).
    """

    number: int
    source: str
    target: str
    api: str
    correlation_id: int
    is_request: bool
    sent_us: int
    arrived_us: int | None = None
    lost: bool = False
    held: bool = False  # by a cut link, a host without power, or a message that is held
    size_bytes: int = 0  # with the size itself; 0 for ZooKeeper's and refusals
    is_zookeeper: bool = False


@dataclass(slots=True, eq=False)
class _Direction:
    """One direction of a connection: the frame that is being sent, and those on their way."""

    is_requests: bool
    source: Address
    target: Address
    header: bytearray = field(default_factory=bytearray)
    begun_us: int = 0
    rest: int = 0  # bytes of the frame that are still to be sent
    end: int = 0  # of the last frame that has begun, in bytes of the stream
    arrived: int = 0
    opaque: bool = False  # it carries no frames of Kafka
    on_the_way: deque[tuple[int, WireMessage]] = field(default_factory=deque)  # with their ends


@dataclass(slots=True, eq=False)
class _Conversation:
    requests: _Direction
    responses: _Direction
    apis: dict[int, str] = field(default_factory=dict)  # of unanswered requests


class MessageLog:
    """A ``Wiretap`` that keeps the last ``limit`` messages, besides those on their way. ``now_us``
    returns the microseconds since the start. ``on_change`` is called with a message and what has
    happened to it: it is ``sent``, ``held``, ``released`` or ``lost``, or has ``arrived``.
    ``lane_of`` returns one direction of a connection, to hold messages in it."""

    def __init__(
        self,
        limit: int,
        now_us: Callable[[], int],
        on_change: Callable[[WireMessage, str], None],
        lane_of: LaneOf = lambda source, target: None,
    ) -> None:
        self.messages: deque[WireMessage] = deque(maxlen=limit)
        self._now_us = now_us
        self._on_change = on_change
        self._lane_of = lane_of
        self._count = 0
        self._conversations: dict[tuple[Address, Address], _Conversation] = {}
        self._whole: dict[Lane[Any], deque[WireMessage]] = {}  # those without bytes, on their way
        self._operations: dict[tuple[str, int], str] = {}  # unanswered, by host and number

    def __iter__(self) -> Iterator[WireMessage]:
        return iter(self.messages)

    # -------------------------------------------------------------------------------- the wiretap

    def sent(self, source: Address, target: Address, piece: memoryview) -> None:
        conversation, direction = self._of(source, target)
        while len(piece) and not direction.opaque:
            if direction.rest:
                taken = min(direction.rest, len(piece))
                direction.rest -= taken
            else:
                if not direction.header:
                    direction.begun_us = self._now_us()
                needed = (_request if direction.is_requests else _response).size
                taken = min(needed - len(direction.header), len(piece))
                direction.header += piece[:taken]
                if len(direction.header) == needed:
                    self._begin_frame(conversation, direction)
            piece = piece[taken:]

    def arrived(self, source: Address, target: Address, count: int) -> None:
        _, direction = self._of(source, target)
        direction.arrived += count
        on_the_way = direction.on_the_way
        while on_the_way and on_the_way[0][0] <= direction.arrived:
            _, message = on_the_way.popleft()
            message.arrived_us = self._now_us()
            message.held = False
            self._on_change(message, "arrived")

    def closed(self, client: Address, server: Address) -> None:
        conversation = self._conversations.pop((client, server), None)
        if conversation is not None:
            for direction in (conversation.requests, conversation.responses):
                for _, message in direction.on_the_way:
                    message.lost, message.held = True, False
                    self._on_change(message, "lost")

    def stopped(self, source: Address, target: Address, passing: int | None) -> None:
        if (source, target) not in self._conversations and (
            target,
            source,
        ) not in self._conversations:
            return  # the connection is being made
        _, direction = self._of(source, target)
        for end, message in direction.on_the_way:
            self._set_held(message, passing is not None and end > direction.arrived + passing)

    def _set_held(self, message: WireMessage, held: bool) -> None:
        if held != message.held:
            message.held = held
            self._on_change(message, "held" if held else "released")

    # --------------------------------------------------- messages of ZooKeeper, refused connections

    def message_sent(self, lane: Lane[Any], message: object) -> None:
        is_request = lane.target == ZOOKEEPER_HOST
        number: int = getattr(message, "number", 0)
        client = lane.source if is_request else lane.target
        name = operation(message)
        if is_request and number:
            if len(self._operations) >= MAX_UNANSWERED:
                del self._operations[next(iter(self._operations))]
            self._operations[client, number] = name
        elif number:
            name = self._operations.pop((client, number), name)
        self._count += 1
        sent = WireMessage(
            self._count, lane.source, lane.target, name, number, is_request, self._now_us(),
            is_zookeeper=ZOOKEEPER_HOST in (lane.source, lane.target),
        )  # fmt: skip
        self.messages.append(sent)
        self._whole.setdefault(lane, deque()).append(sent)
        self._on_change(sent, "sent")

    def message_arrived(self, lane: Lane[Any]) -> None:
        on_the_way = self._whole.get(lane)
        if on_the_way:  # else it was sent before somebody looked
            message = on_the_way.popleft()
            if not on_the_way:
                del self._whole[lane]
            message.arrived_us, message.held = self._now_us(), False
            self._on_change(message, "arrived")

    def messages_stopped(self, lane: Lane[Any], passing: int | None) -> None:
        for index, message in enumerate(self._whole.get(lane, ())):
            self._set_held(message, passing is not None and index >= passing)

    def messages_lost(self, lane: Lane[Any]) -> None:
        for message in self._whole.pop(lane, ()):
            message.lost, message.held = True, False
            self._on_change(message, "lost")

    # ----------------------------------------------------------------------------------- holding

    def hold(self, number: int) -> bool:
        """Hold a message, and all bytes behind it in its direction of the connection, since TCP
        keeps their order. Return False if it is not on its way."""
        for direction in self._directions():
            for end, message in direction.on_the_way:
                lane = self._lane_of(direction.source, direction.target)
                if message.number == number and lane is not None:
                    lane.hold_from(
                        _index_of_byte(lane, end - message.size_bytes - direction.arrived)
                    )
                    return True
        for carrier, messages in self._whole.items():
            for index, message in enumerate(messages):
                if message.number == number:
                    carrier.hold_from(index)
                    return True
        return False

    def release(self, number: int) -> bool:
        """Release a message and all that ``hold`` holds in its direction. Return False if none is
        held there."""
        for direction in self._directions():
            if any(message.number == number for _, message in direction.on_the_way):
                lane = self._lane_of(direction.source, direction.target)
                if lane is not None and lane.is_held:
                    lane.release()
                    return True
        for carrier, messages in self._whole.items():
            if carrier.is_held and any(message.number == number for message in messages):
                carrier.release()
                return True
        return False

    # ------------------------------------------------------------------------------------- frames

    def _directions(self) -> Iterator[_Direction]:
        for conversation in self._conversations.values():
            yield conversation.requests
            yield conversation.responses

    def _of(self, source: Address, target: Address) -> tuple[_Conversation, _Direction]:
        """Return a direction. The first bytes of a connection are the client's."""
        found = self._conversations.get((target, source))
        if found is not None:
            return found, found.responses
        found = self._conversations.get((source, target))
        if found is None:
            requests = _Direction(True, source, target)
            responses = _Direction(False, target, source)
            found = self._conversations[source, target] = _Conversation(requests, responses)
        return found, found.requests

    def _begin_frame(self, conversation: _Conversation, direction: _Direction) -> None:
        """Decode a header that is complete."""
        header = direction.header
        if direction.is_requests:
            size, key, _, correlation_id = _request.unpack(header)
            api = _API_NAMES.get(key, "")
            if len(conversation.apis) >= MAX_UNANSWERED:
                del conversation.apis[next(iter(conversation.apis))]
            conversation.apis[correlation_id] = api
        else:
            size, correlation_id = _response.unpack(header)
            api = conversation.apis.pop(correlation_id, "")
        size += 4  # with the size itself
        if not api or not len(header) <= size <= MAX_FRAME_BYTES:
            direction.opaque = True
            return
        self._count += 1
        message = WireMessage(
            self._count, direction.source[0], direction.target[0], api, correlation_id,
            direction.is_requests, direction.begun_us, size_bytes=size,
        )  # fmt: skip
        self.messages.append(message)
        direction.end += size
        direction.on_the_way.append((direction.end, message))
        direction.rest = size - len(header)
        header.clear()
        self._on_change(message, "sent")


def _index_of_byte(lane: Lane[Segment], position: int) -> int:
    """Return the index of the segment in flight with this byte, counted from the first byte in
    flight; the number of segments if the byte is not sent yet."""
    for index, segment in enumerate(lane.in_flight()):
        position -= size_bytes(segment)
        if position < 0:
            return index
    return len(lane.in_flight())


_NAMES: Final = {
    ConnectRequest: "Connect",
    ConnectResponse: "Connect",
    LoginIsRefused: "Connect",
    SessionIsExpired: "Connect",
    Ping: "Ping",
    Pong: "Ping",
    ReadMany: "Multi",
    AclWrite: "SetACL",
    CloseSession: "CloseSession",
    ConnectionClosed: "ConnectionClosed",
    Signal: REFUSED,
    WatchEvent: "WatchEvent",
}
_READS: Final = {"get": "GetData", "exists": "Exists", "children": "GetChildren", "acl": "GetACL"}
_WRITES: Final = {CreateOp: "Create", SetOp: "SetData", DeleteOp: "Delete", CheckOp: "Check"}


def operation(message: object) -> str:
    """Return the name of what a message without bytes does: ZooKeeper's, with the znode if there is
    one, or ``REFUSED``."""
    name = _NAMES.get(type(message), "Response")
    path: str = getattr(message, "path", "")
    if isinstance(message, Read):
        name = _READS[message.kind]
    elif isinstance(message, ZnodeWrite):
        name = _WRITES[type(message.ops[0])] if len(message.ops) == 1 else "Multi"
        path = message.ops[0].path if message.ops else ""
    return f"{name} {path}"[:MAX_NAME] if path else name
