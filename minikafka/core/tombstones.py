"""Batches of tombstones: many deletions of keys, in batches of a size that every log accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

R = TypeVar("R")

# Well below the usual ``max.message.bytes``; Kafka fills its batches up to that.
BATCH_BYTES: Final = 64 << 10
# The largest size of a record without the texts in its key.
RECORD_BYTES: Final = 40


def in_batches(records: Iterable[R], text_bytes: Callable[[R], int]) -> Iterator[tuple[R, ...]]:
    """Cut items into batches in order, with at least one item in each. ``text_bytes`` returns the
    size of the names in a record's key, each of which may have 32 KB."""
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
