"""Iteration over the batches of a segment file, by headers only or with their records."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol

from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    LAST_DELTA_OFFSET,
    LOG_OVERHEAD,
    MAGIC_V2,
    CorruptRecordError,
    RecordBatch,
    parse_batch,
)

_read_length = Struct(">I").unpack_from
_read_offset = Struct(">q").unpack_from
HEADER_CHUNK_BYTES: Final = 8 * 1024
WHOLE_CHUNK_BYTES: Final = 1024 * 1024


class FoundBatch(NamedTuple):
    """A batch, and the position in the file (bytes) at which it starts."""

    position: int
    batch: RecordBatch

    @property
    def end_position(self) -> int:
        return self.position + self.batch.size_bytes


class Readable(Protocol):
    """A file, or the segment of a log, which opens its file again if need be."""

    def read(self, length: int, offset: int, /) -> bytes: ...

    async def read_cold(self, length: int, offset: int, /) -> bytes: ...


def scan(file: Readable, start: int, end: int, *, whole: bool = False) -> Iterator[FoundBatch]:
    """Yield the batches in ``[start, end)`` of ``file``. A batch must start at ``start``.

    ``batch.buffer`` has the header of the batch. With ``whole``, and for a control batch, it also
    has the records. Raises CorruptRecordError at a position without a complete batch of magic 2,
    and OSError.
    """
    chunk = b""
    chunk_start = position = start
    chunk_bytes = WHOLE_CHUNK_BYTES if whole else HEADER_CHUNK_BYTES
    while position < end:
        at = position - chunk_start
        if at + BATCH_OVERHEAD > len(chunk):
            chunk = file.read(min(chunk_bytes, end - position), position)
            chunk_start, at = position, 0
            if len(chunk) < BATCH_OVERHEAD:
                raise CorruptRecordError(f"the {len(chunk)} bytes at {position} are not a batch")
        batch = parse_batch(chunk, at)
        size = batch.length + LOG_OVERHEAD
        if batch.magic != MAGIC_V2 or size < BATCH_OVERHEAD or position + size > end:
            raise CorruptRecordError(
                f"no batch at {position}: magic {batch.magic}, {size} bytes, {end - position} left"
            )
        if (whole or batch.is_control) and at + size > len(chunk):
            chunk = file.read(max(min(chunk_bytes, end - position), size), position)
            chunk_start = position
            if len(chunk) < size:
                raise CorruptRecordError(f"the file ends inside the batch at {position}")
            batch = parse_batch(chunk, 0)
        yield FoundBatch(position, batch)
        position += size


async def read_whole(file: Readable, start: int, end: int) -> memoryview:
    """Read up to 1 MB of the file from ``start`` on, more if the first batch is larger. Nothing
    after ``end`` is read. A thread reads what is not in the page cache. Raises OSError."""
    chunk = await file.read_cold(min(WHOLE_CHUNK_BYTES, end - start), start)
    if len(chunk) >= BATCH_OVERHEAD:
        size = parse_batch(chunk, 0).length + LOG_OVERHEAD
        if len(chunk) < size <= end - start:
            chunk = await file.read_cold(size, start)
    return memoryview(chunk)


def whole_batches(chunk: memoryview) -> Iterator[RecordBatch]:
    """Yield the batches from the start of ``chunk`` on, up to the first incomplete or invalid
    one."""
    position, end = 0, len(chunk)
    while position + BATCH_OVERHEAD <= end:
        batch = parse_batch(chunk, position)
        size = batch.length + LOG_OVERHEAD
        if batch.magic != MAGIC_V2 or size < BATCH_OVERHEAD or position + size > end:
            return
        yield batch
        position += size


def first_batch_size(data: Buffer) -> int:
    """Return the size of the batch at the beginning of ``data``, a part of a log. A header that is
    not complete counts as larger than ``data``."""
    if len(data) < LOG_OVERHEAD:
        return BATCH_OVERHEAD
    length: int = _read_length(data, 8)[0]
    return length + LOG_OVERHEAD


def last_whole_batch(data: Buffer, start: int, most: int) -> tuple[int, int] | None:
    """Return where the last complete batch in ``data`` begins and ends; ``start`` twice if there is
    none from there on, and None if there are more than ``most``. A batch starts at ``start``.

    ``data`` must be a part of a log, and may end within a batch. Batches are not validated.
    """
    limit = len(data)
    last = end = start
    while end + LOG_OVERHEAD <= limit:
        following = end + LOG_OVERHEAD + _read_length(data, end + 8)[0]
        if following > limit:
            break
        if not most:
            return None
        most -= 1
        last, end = end, following
    return last, end


def next_offset(data: Buffer, start: int) -> int:
    """Return the offset after the batch at ``start``."""
    base: int = _read_offset(data, start)[0]
    delta: int = _read_length(data, start + LAST_DELTA_OFFSET)[0]
    return base + delta + 1
