"""Produce responses with one partition and no error: only numbers are filled in."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from minikafka.core.log.append import LogAppendInfo
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.frames import encode_response
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_PLACE: Final = (-2, -3, -4)  # in their place, while a response is encoded
_THROTTLE_MS: Final = Struct(">i")
_THROTTLE: Final = -5  # in its place, likewise


class PackedProduceResponse:
    """The responses of one version for one partition."""

    __slots__ = ("_end", "_middle", "_pack", "_size", "_tags")

    def __init__(self, topic_partition: TopicPartition, version: int) -> None:
        row = PartitionProduceResponse(topic_partition.partition, 0, *_PLACE)
        response = ProduceResponse([TopicProduceResponse(topic_partition.topic, [row])], _THROTTLE)
        frame = encode_response(0, response, version)
        offsets = frame.index(_OFFSETS.pack(*_PLACE))
        self._size = len(frame) - 4
        self._middle = frame[8:offsets]
        throttle = frame.rindex(_THROTTLE_MS.pack(_THROTTLE))
        self._end = frame[offsets + _OFFSETS.size : throttle]
        self._tags = frame[throttle + _THROTTLE_MS.size :]
        self._pack = Struct(f">ii{len(self._middle)}sqqq{len(self._end)}si{len(self._tags)}s").pack

    def response(self, correlation_id: int, info: LogAppendInfo, throttle_ms: int = 0) -> bytes:
        """Return the response to a successful append, as a frame."""
        return self._pack(
            self._size,
            correlation_id,
            self._middle,
            info.first_offset,
            info.log_append_time,
            info.log_start_offset,
            self._end,
            throttle_ms,
            self._tags,
        )

    def responses(
        self, correlation_ids: Sequence[int], infos: Sequence[LogAppendInfo]
    ) -> list[bytes]:
        """As ``response`` of each."""
        pack, size, middle, end, tags = self._pack, self._size, self._middle, self._end, self._tags
        return [
            pack(size, number, middle, first, appended_ms, start, end, 0, tags)
            for number, (first, _, _, _, appended_ms, start, _, _, _) in zip(
                correlation_ids, infos, strict=True
            )
        ]
