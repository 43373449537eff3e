"""Reading the message sets of magic 0 and 1 that a broker has written."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import inner_messages, iterate_messages
from minikafka.protocol.records.record import Record


def decode_message_set(buffer: Buffer) -> Iterator[Record]:
    """Every record of a set, wrappers opened. CRCs are not checked. Raises as ``iterate_messages``
    and ``inner_messages``."""
    for message in iterate_messages(buffer):
        wrapped = message.compression is not Compression.NONE
        for inner in inner_messages(message) if wrapped else [message]:
            yield Record(inner.offset, inner.timestamp, inner.key, inner.value, [])
