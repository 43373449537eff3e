"""Fetches ahead of the local log: never up to an offset that would count for the ISR."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.replication.fetch_state import (
    FetchedRecords,
    PartitionFetchState,
    end_of_batches,
    read_ahead,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.builder import build_batch

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
AT_10 = PartitionFetchState(None, 3, 10, 2)


def records(first: int, *counts: int, leader_epoch: int = 3) -> bytes:
    """Batches of so many records each, from offset ``first`` on."""
    parts = []
    for count in counts:
        rows: Any = [(1, None, b"v", []) for _ in range(count)]
        parts.append(build_batch(rows, base_offset=first, leader_epoch=leader_epoch))
        first += count
    return b"".join(parts)


def test_the_end_is_that_of_the_last_whole_batch() -> None:
    both = records(10, 2, 3)
    assert end_of_batches(both, 10) == (15, 3)
    assert end_of_batches(memoryview(both)[:-1], 10) == (12, 3)
    assert end_of_batches(memoryview(both)[: len(records(10, 2))], 10) == (12, 3)
    assert end_of_batches(both[:50], 10) == (10, None)
    assert end_of_batches(b"", 10) == (10, None)
    assert end_of_batches(records(10, 1, leader_epoch=-1), 10) == (11, None)


def test_a_batch_that_compaction_has_emptied_counts() -> None:
    header = bytearray(records(10, 2)[:61])
    header[8:12] = (61 - 12).to_bytes(4, "big")
    assert end_of_batches(header, 10) == (12, 3)


def test_a_length_that_no_batch_has_ends_the_walk() -> None:
    for length in (-1, 0, 40):
        bad = bytearray(records(10, 2) + records(12, 3))
        start = len(records(10, 2))
        bad[start + 8 : start + 12] = length.to_bytes(4, "big", signed=True)
        assert end_of_batches(bad, 10) == (12, 3)


@pytest.mark.parametrize("high_watermark", [13, 100])
def test_lagging_follower_fetches_ahead_from_the_end_of_the_last_response(
    high_watermark: int,
) -> None:
    ahead = read_ahead([FetchedRecords(TP, AT_10, records(10, 2), high_watermark)])
    assert ahead == {TP: PartitionFetchState(None, 3, 12, 3, high_watermark - 12)}


@pytest.mark.parametrize("high_watermark", [0, 10, 11, 12])
def test_no_read_ahead_when_the_fetch_offset_reaches_the_high_watermark(
    high_watermark: int,
) -> None:
    assert read_ahead([FetchedRecords(TP, AT_10, records(10, 2), high_watermark)]) is None


def test_one_that_is_counted_holds_back_all() -> None:
    far, near = (
        FetchedRecords(TP, AT_10, records(10, 2), 99),
        FetchedRecords(OTHER, AT_10, records(10, 2), 12),
    )
    assert read_ahead([far, near]) is None
    assert read_ahead([near, far]) is None


def test_partition_without_records_keeps_its_fetch_offset() -> None:
    far, quiet = (
        FetchedRecords(TP, AT_10, records(10, 2), 99),
        FetchedRecords(OTHER, AT_10, b"", 10),
    )
    ahead = read_ahead([quiet, far])
    assert ahead is not None
    assert {tp: state.fetch_offset for tp, state in ahead.items()} == {OTHER: 10, TP: 12}
    assert ahead[OTHER].last_fetched_epoch == 2


def test_with_nothing_to_append_there_is_nothing_to_gain() -> None:
    assert read_ahead([]) is None
    assert read_ahead([FetchedRecords(TP, AT_10, b"", 99)]) is None


def test_records_that_lead_nowhere_are_not_read_on_from() -> None:
    """Truncated or older records: appending them fails."""
    assert read_ahead([FetchedRecords(TP, AT_10, records(10, 2)[:70], 99)]) is None
    assert read_ahead([FetchedRecords(TP, AT_10, records(4, 2), 99)]) is None
