"""Many records that delete, cut into batches that every log takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

R = TypeVar("R")

# Well below the usual ``max.message.bytes``; Kafka fills its batches up to that.
BATCH_BYTES: Final = 64 << 10
# What a record needs besides the texts in its key, at most.
RECORD_BYTES: Final = 40


def in_batches(records: Iterable[R], text_bytes: Callable[[R], int]) -> Iterator[tuple[R, ...]]:
    """In their order, at least one in each batch. ``text_bytes``: of the names in a record's key,
    each of which may have 32 KB."""
    batch: list[R] = []
    size = 0
    for record in records:
        more = RECORD_BYTES + text_bytes(record)
        if batch and size + more > BATCH_BYTES:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(record)
        size += more
    if batch:
        yield tuple(batch)
