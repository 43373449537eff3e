"""Checks of stored batches and of those that shall replace them, and the pace of reads."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.kernel.errors import KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import CorruptRecordError, crc_is_valid, iterate_batches


class ScrubPace:
    """Limits reads to a rate. It saves nothing up: after a pause there is no burst."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_ms = 0

    def wait_ms(self, size_bytes: int, now_ms: int) -> int:
        """Return how long to wait after a read of ``size_bytes`` that ended at ``now_ms``."""
        cost_ms = -(-size_bytes * 1000 // self._bytes_per_second)
        self._free_ms = max(self._free_ms, now_ms) + cost_ms
        return self._free_ms - now_ms


class Checked(NamedTuple):
    """The outcome of a check: the size of the valid batches, the next possible offset, and what is
    wrong behind them, if anything. ``certain`` are the size and the next offset without the last
    valid batch: the CRC does not cover a base offset, so one that is too high is noticed only when
    the next batch has a lower one."""

    size_bytes: int
    next_offset: int
    certain: tuple[int, int]
    fault: str | None


def check_batches(data: Buffer, next_offset: int, end_offset: int) -> Checked:
    """Check the complete batches at the start of ``data``: magic, length, CRC, and their offsets,
    which the CRC does not cover. They must lie within ``next_offset`` and ``end_offset``
    (exclusive) and increase."""
    size = 0
    certain = size, next_offset
    fault = None
    try:
        for batch in iterate_batches(data):
            base_offset, last_offset = batch.base_offset, batch.last_offset
            if not crc_is_valid(batch):
                fault = "the CRC is wrong"
                break
            if not next_offset <= base_offset <= last_offset < end_offset:
                fault = f"offsets {base_offset} to {last_offset} where {next_offset} is expected"
                break
            certain = size, next_offset
            size += batch.size_bytes
            next_offset = last_offset + 1
    except KafkaError as error:
        fault = error.message or error.code.name
    return Checked(size, next_offset, certain, fault)


class Replacement(NamedTuple):
    """The batches at the start of a response that lie in the requested range: their size, and the
    offset behind them, which is the end of the range if no other batch of the range follows."""

    size_bytes: int
    next_offset: int


def replacement_for(
    data: Buffer, start_offset: int, end_offset: int, *, has_gaps: bool
) -> Replacement:
    """Check the batches that another replica returned for a Fetch from ``start_offset``, up to
    ``end_offset`` (exclusive).

    Without ``has_gaps``, each offset must be there. Compaction leaves gaps in a log. Since the CRC
    does not cover base offsets, a gap in another log is damage.

    Raises CorruptRecordError if a batch is damaged, if it lies only in part in the range, if an
    offset is missing, or if there is no complete batch."""
    size, next_offset = 0, start_offset
    for batch in iterate_batches(data):
        if next_offset == end_offset:
            break
        base_offset, last_offset = batch.base_offset, batch.last_offset
        if not crc_is_valid(batch):
            raise CorruptRecordError(f"the CRC of the batch at {base_offset} is wrong")
        if base_offset >= end_offset and has_gaps:
            return Replacement(size, end_offset)
        if not next_offset <= base_offset <= last_offset < end_offset:
            raise CorruptRecordError(
                f"a batch has offsets {base_offset} to {last_offset} where those from "
                f"{next_offset} to {end_offset - 1} are missing"
            )
        if base_offset > next_offset and not has_gaps:
            raise CorruptRecordError(f"the batch at {next_offset} is missing")
        size += batch.size_bytes
        next_offset = last_offset + 1
    if not size:
        raise CorruptRecordError(f"there is no complete batch at {start_offset}")
    return Replacement(size, next_offset)
