"""The places of replies in the order of a connection's requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from minikafka.kernel.ports import Buffer

if TYPE_CHECKING:
    from minikafka.network.server_connection import ServerConnection

# A whole frame with its size prefix, in one buffer or several; None for a request without reply.
ReplyBytes: TypeAlias = Buffer | Sequence[Buffer] | None


class Refusal:
    """Fills a slot whose reply cannot be encoded: the connection is closed in its place."""

    __slots__ = ("facts", "reason")

    def __init__(self, reason: str, facts: dict[str, object]) -> None:
        self.reason = reason
        self.facts = facts


class ReplyTimes(Protocol):
    """Is notified of what happens to replies."""

    def response_waited(self, waited_us: int) -> None: ...

    def response_sent(self, took_us: int) -> None: ...


class ReplySlot:
    """The place of one reply in its connection's order. Call ``send`` or ``refuse`` exactly once,
    at any time. A reply to a closed connection is dropped.
    """

    __slots__ = (
        "_connection",
        "is_sent",
        "number",
        "ready_ns",
        "reply",
        "request_bytes",
        "times",
    )

    def __init__(self, connection: ServerConnection, number: int, request_bytes: int) -> None:
        self.number = number  # of the request on its connection, from 1
        self._connection = connection
        self.request_bytes = request_bytes
        self.reply: ReplyBytes | Refusal = None
        self.is_sent = False
        self.times: ReplyTimes | None = None
        self.ready_ns = 0  # since when the reply waits for those of earlier requests

    def send(self, reply: ReplyBytes) -> None:
        assert not self.is_sent, "a request is answered once"
        self.is_sent = True
        self.reply = reply
        self._connection.resolve(self)

    def refuse(self, reason: str, **facts: object) -> None:
        """Close the connection because the reply cannot be encoded, and log ``reason``. Replies to
        earlier requests are sent first; later requests are not served."""
        assert not self.is_sent, "a request is answered once"
        self.is_sent = True
        self.reply = Refusal(reason, facts)
        self._connection.resolve(self)


def reply_size(reply: ReplyBytes | Refusal) -> int:
    if reply is None or isinstance(reply, Refusal):
        return 0
    if isinstance(reply, (bytes, bytearray, memoryview)):
        return len(reply)
    return sum(map(len, reply))
