"""Checks of the stored batches of a sealed segment, and the pace at which they are read."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.kernel.errors import KafkaError
from minikafka.protocol.buffer import Buffer
from minikafka.protocol.records.batch import crc_is_valid, iterate_batches


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
    """The outcome of a check: the size of the valid batches, the base offset of the last one (None
    without one), the next possible offset, and what is wrong behind them, if anything."""

    size_bytes: int
    last_base_offset: int | None
    next_offset: int
    fault: str | None


def check_batches(data: Buffer, next_offset: int, end_offset: int) -> Checked:
    """Check the complete batches at the start of ``data``: magic, length, CRC, and their offsets,
    which the CRC does not cover. They must lie within ``next_offset`` and ``end_offset``
    (exclusive) and increase."""
    size, last_base_offset = 0, None
    try:
        for batch in iterate_batches(data):
            base_offset, last_offset = batch.base_offset, batch.last_offset
            if not crc_is_valid(batch):
                fault = "the CRC is wrong"
            elif not next_offset <= base_offset <= last_offset < end_offset:
                fault = f"offsets {base_offset} to {last_offset} where {next_offset} is expected"
            else:
                size += batch.size_bytes
                last_base_offset, next_offset = base_offset, last_offset + 1
                continue
            return Checked(size, last_base_offset, next_offset, fault)
    except KafkaError as error:
        return Checked(size, last_base_offset, next_offset, error.message or error.code.name)
    return Checked(size, last_base_offset, next_offset, None)
