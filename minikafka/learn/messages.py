"""The log of messages on the simulated wire: headers of requests and responses, with times."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.world.sim.links import Address

_API_NAMES = {int(key): key.api_name for key in ApiKey}
MAX_FRAME_BYTES = 1 << 30
MAX_UNANSWERED = 1_000  # requests of a connection whose response is matched

_request = struct.Struct(">ihhi")  # size, API key, API version, correlation id
_response = struct.Struct(">ii")  # size, correlation id


@dataclass(slots=True, eq=False)
class WireMessage:
    """A request or a response. Times are microseconds since the start of the simulation;
    ``sent_us`` is that of its first byte, ``arrived_us`` that of its last (None: not yet, or lost).
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
    size_bytes: int = 0  # with the size itself


@dataclass(slots=True, eq=False)
class _Direction:
    """One direction of a connection: the frame that is being sent, and those on their way."""

    is_requests: bool
    source: str
    target: str
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
    """A ``Wiretap`` that keeps the last ``limit`` messages. ``now_us`` returns the microseconds
    since the start. ``on_change`` is called with a message and what has happened to it: it is
    ``sent``, has ``arrived``, or is ``lost``."""

    def __init__(
        self, limit: int, now_us: Callable[[], int], on_change: Callable[[WireMessage, str], None]
    ) -> None:
        self.messages: deque[WireMessage] = deque(maxlen=limit)
        self._now_us = now_us
        self._on_change = on_change
        self._count = 0
        self._conversations: dict[tuple[Address, Address], _Conversation] = {}

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
            self._on_change(message, "arrived")

    def closed(self, client: Address, server: Address) -> None:
        conversation = self._conversations.pop((client, server), None)
        if conversation is not None:
            for direction in (conversation.requests, conversation.responses):
                for _, message in direction.on_the_way:
                    message.lost = True
                    self._on_change(message, "lost")

    # ------------------------------------------------------------------------------------- frames

    def _of(self, source: Address, target: Address) -> tuple[_Conversation, _Direction]:
        """Return a direction. The first bytes of a connection are the client's."""
        found = self._conversations.get((target, source))
        if found is not None:
            return found, found.responses
        found = self._conversations.get((source, target))
        if found is None:
            requests = _Direction(True, source[0], target[0])
            responses = _Direction(False, target[0], source[0])
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
            self._count, direction.source, direction.target, api, correlation_id,
            direction.is_requests, direction.begun_us, size_bytes=size,
        )  # fmt: skip
        self.messages.append(message)
        direction.end += size
        direction.on_the_way.append((direction.end, message))
        direction.rest = size - len(header)
        header.clear()
        self._on_change(message, "sent")
