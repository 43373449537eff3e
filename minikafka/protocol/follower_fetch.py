"""The common Fetch of a follower as bytes: requests that differ in four numbers, and the response.

The request has version 15 to 17, belongs to a session and names one partition, by its topic id. All
such requests of a follower for a partition are alike but for correlation id, session id, session
epoch and offset, mostly. The response has one partition and no error.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.buffer import DecodeError, read_uvarint
from minikafka.protocol.messages.fetch import PartitionData

FETCH: Final = int(ApiKey.FETCH)
FIRST_VERSION: Final = 15  # the follower is named in a tagged field
LAST_VERSION: Final = ApiKey.FETCH.max_version

_read_header = Struct(">hhih").unpack_from  # key, version, correlation id, length of the client id
# Before the session: the header, its tags, max_wait_ms, min_bytes, max_bytes, isolation level. Then
# one topic by id, one partition and its leader epoch. After the offset: last fetched epoch, log
# start, partition_max_bytes, tags of partition and topic, no forgotten topics, no rack, one tag.
_BEFORE_SESSION: Final = 24
_SESSION: Final = Struct(">ii")
_OFFSET_AFTER_SESSION: Final = 34
_OFFSET: Final = Struct(">q")
_AFTER_OFFSET: Final = 36
_FROM_SESSION: Final = Struct(f">ii{_OFFSET_AFTER_SESSION - _SESSION.size}sq{_AFTER_OFFSET}s")
_BYTES: Final = _BEFORE_SESSION + _FROM_SESSION.size
_SIZE_BYTES: Final = 4  # of a frame, before it
_RACK_FROM_END: Final = 17
_NO_RACK: Final = 1  # the length of a compact string, and one

# Correlation id, tags, throttle time, error, session id, topics, topic id, partitions, partition,
# error, high watermark, last stable offset, log start, aborted transactions, preferred replica.
_RESPONSE: Final = Struct(">iBihiB16sBihqqqBi")
_ONE: Final = 2  # the number of elements, as compact arrays have it
_NULL: Final = 0
_NO_TAGS: Final = bytes(3)  # of partition, topic and response


class FollowerFetchFrame(NamedTuple):
    """A Fetch request that names one partition. ``alike`` are its version and its bytes without
    these numbers."""

    version: int
    correlation_id: int
    session_id: int
    session_epoch: int
    offset: int
    alike: tuple[int, bytes, bytes, bytes]


def follower_fetch(frame: memoryview) -> FollowerFetchFrame | None:
    """Read a frame; None if it cannot be a Fetch request as the module describes it. What is in
    ``alike`` is not checked."""
    size = len(frame)
    if size < _BYTES or frame[0] or frame[1] != FETCH:
        return None
    _, version, correlation_id, length = _read_header(frame)
    if size != length + _BYTES or length < 0 or not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    if frame[-_RACK_FROM_END] != _NO_RACK:  # a consumer's
        return None
    at = length + _BEFORE_SESSION
    session_id, session_epoch, middle, offset, end = _FROM_SESSION.unpack_from(frame, at)
    alike = version, frame[8:at].tobytes(), middle, end
    return FollowerFetchFrame(version, correlation_id, session_id, session_epoch, offset, alike)


class PackedFollowerFetch:
    """A request that was encoded, and is sent again with other numbers."""

    __slots__ = ("_end", "_middle", "_pack", "_start", "_to_session")

    def __init__(self, frame: bytes) -> None:
        """``frame`` has its size before it. Raises ValueError if ``follower_fetch`` cannot read
        it."""
        if follower_fetch(memoryview(frame)[_SIZE_BYTES:]) is None:
            raise ValueError("no common Fetch of a follower")
        (length,) = Struct(">h").unpack_from(frame, _SIZE_BYTES + 8)
        session = _SIZE_BYTES + length + _BEFORE_SESSION
        offset = session + _OFFSET_AFTER_SESSION
        self._start = frame[: _SIZE_BYTES + 4]  # up to the correlation id
        self._to_session = frame[_SIZE_BYTES + 8 : session]
        self._middle = frame[session + _SESSION.size : offset]
        self._end = frame[offset + _OFFSET.size :]
        sizes = len(self._start), len(self._to_session), len(self._middle), len(self._end)
        self._pack = Struct(">{}si{}sii{}sq{}s".format(*sizes)).pack

    def frame(self, correlation_id: int, session_id: int, session_epoch: int, offset: int) -> bytes:
        """Return the request with these numbers, as a frame."""
        return self._pack(
            self._start,
            correlation_id,
            self._to_session,
            session_id,
            session_epoch,
            self._middle,
            offset,
            self._end,
        )


class FollowerFetchResponse(NamedTuple):
    """A response with one partition and without an error. ``records`` lie in the frame."""

    session_id: int
    topic_id: bytes
    data: PartitionData


def follower_fetch_response(frame: memoryview) -> FollowerFetchResponse | None:
    """Read a response of version 15 to 17. None if it is none as the module describes it, or has no
    records."""
    size = len(frame)
    start = _RESPONSE.size
    if size <= start + len(_NO_TAGS):
        return None
    (
        _,
        tags,
        _,
        error,
        session_id,
        topics,
        topic_id,
        partitions,
        partition,
        partition_error,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred,
    ) = _RESPONSE.unpack_from(frame)
    if tags or error or partition_error or topics != _ONE or partitions != _ONE or aborted != _NULL:
        return None
    try:
        length, start = read_uvarint(frame, start)
    except (DecodeError, IndexError):
        return None
    end = start + length - 1
    if length <= 1 or end + len(_NO_TAGS) != size or frame[end:] != _NO_TAGS:
        return None
    data = PartitionData(
        partition,
        0,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=preferred,
        records=frame[start:end],
    )
    return FollowerFetchResponse(session_id, topic_id, data)
