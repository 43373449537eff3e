"""Fetch responses with one partition and no error: only numbers and records are filled in."""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from minikafka.broker.fetch.reader import ReadResult
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.ports import Buffer
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import write_uvarint
from minikafka.protocol.frames import encode_response_parts
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

FIRST_FLEXIBLE: Final = ApiKey.FETCH.first_flexible
_PLACE: Final = (-2, -3, -4)  # in place of offsets, while a response is encoded
_SESSION_PLACE: Final = 0x5E551017
_OFFSETS: Final = Struct(">qqq")  # high watermark, last stable offset, log start
_pack_int = Struct(">i").pack


class PackedFetchResponse:
    """The responses of one version for one partition, without aborted transactions. They list
    none, or have null if ``has_aborted`` is false."""

    __slots__ = (
        "_before_length",
        "_end",
        "_head_bytes",
        "_is_flexible",
        "_middle",
        "_pack",
        "_start",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        version: int,
        has_aborted: bool,
    ) -> None:
        self._is_flexible = version >= FIRST_FLEXIBLE
        topic, partition = topic_partition
        aborted: list[AbortedTransaction] | None = [] if has_aborted else None
        records = bytes(1)
        row = PartitionData(partition, 0, *_PLACE, aborted_transactions=aborted, records=records)
        topics = [FetchableTopicResponse(topic, topic_id or ZERO_UUID, [row])]
        response = FetchResponse(session_id=_SESSION_PLACE, responses=topics)
        parts = encode_response_parts(0, response, version)
        place = next(place for place, part in enumerate(parts) if part is records)
        head = b"".join(parts[:place])[: -1 if self._is_flexible else -4]  # without the length
        session, offsets = head.index(_pack_int(_SESSION_PLACE)), head.index(_OFFSETS.pack(*_PLACE))
        self._start = head[8:session]
        self._middle = head[session + 4 : offsets]
        self._before_length = head[offsets + _OFFSETS.size :]
        self._end = b"".join(parts[place + 1 :])
        start, middle, before = len(self._start), len(self._middle), len(self._before_length)
        self._pack = Struct(f">ii{start}si{middle}sqqq{before}s").pack
        self._head_bytes = len(head) - 4 + len(self._end)

    def parts(self, correlation_id: int, session_id: int, result: ReadResult) -> list[Buffer]:
        """Return the parts of a response, as a frame."""
        records = result.records
        size = len(records)
        length = write_uvarint(size + 1) if self._is_flexible else _pack_int(size)
        head = self._pack(
            self._head_bytes + len(length) + size,
            correlation_id,
            self._start,
            session_id,
            self._middle,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
            self._before_length,
        )
        return [head + length, records, self._end]
