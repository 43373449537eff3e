"""Runs of whole batches from a fetched chunk: the same records as one by one, in any mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.consumer.fetched import (
    BatchRun,
    FetchedChunk,
    ReadPosition,
    consumer_records,
)
from minikafka.core.client.consumer.positions import Positions
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.protocol.records.record import Record

TP = TopicPartition("t", 0)
ALL = 1 << 40


def decode(run: BatchRun) -> list[int]:
    records = [record for batch in run.batches for record in consumer_records(TP, batch)]
    found = [record.offset for record in records if run.start <= record.offset < run.end]
    assert len(found) <= run.record_count
    return found


def a_batch(base: int, deltas: Sequence[int], **more: Any) -> bytes:
    records = [Record(base + delta, 0, None, b"%d" % (base + delta), []) for delta in deltas]
    return build_batch(records, base_offset=base, leader_epoch=3, **more)


def a_marker(base: int, kind: ControlRecordType, producer: int) -> bytes:
    content = (0, *encode_end_txn_marker(EndTxnMarker(kind, 0)), ())
    return build_batch(
        [content], base_offset=base, producer_id=producer, producer_epoch=0, transactional=True,
        control=True, leader_epoch=3,
    )  # fmt: skip


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], int, int]:
    """Batches with gaps, some of aborted transactions, that begin before the wanted offset."""
    pieces: list[bytes] = []
    aborted: list[tuple[int, int]] = []
    base = 0
    for _ in range(draw(st.integers(1, 6))):
        deltas = sorted(draw(st.sets(st.integers(0, 12), min_size=1)) | {0})
        codec = draw(st.sampled_from([Compression.NONE, Compression.LZ4]))
        kind = draw(st.sampled_from(["plain", "committed", "aborted"]))
        if kind == "plain":
            pieces.append(a_batch(base, deltas, compression=codec))
            base += deltas[-1] + 1
            continue
        pieces.append(
            a_batch(base, deltas, producer_id=7, producer_epoch=0, transactional=True,
                    base_sequence=0, compression=codec)
        )  # fmt: skip
        if kind == "aborted":
            aborted.append((7, base))
        base += deltas[-1] + 1
        end = ControlRecordType.ABORT if kind == "aborted" else ControlRecordType.COMMIT
        pieces.append(a_marker(base, end, 7))
        base += 1
    return b"".join(pieces), aborted, draw(st.integers(0, max(0, base - 1))), base


steps = st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.sampled_from([1, 150, ALL])))


@settings(max_examples=150, deadline=None)
@given(logs(), steps)
@pytest.mark.mission("ARW-2")
def test_runs_and_single_records_give_the_same(
    log: tuple[bytes, list[tuple[int, int]], int, int], mixture: list[tuple[bool, int, int]]
) -> None:
    data, aborted, start, end = log
    plain = FetchedChunk(TP, data, ReadPosition(start), aborted)
    expected, last = plain.take(ALL)
    chunk = FetchedChunk(TP, data, ReadPosition(start), aborted)
    got: list[int] = []
    place: ReadPosition | None = None
    for in_runs, most, most_bytes in [*mixture, *[(True, ALL, ALL)] * 2]:
        if in_runs:
            run = chunk.take_run(decode, most, most_bytes)
            offsets, new = run.decoded or [], run.place
        else:
            records, new = chunk.take(most)
            offsets = [record.offset for record in records]
        assert len(offsets) <= most
        got += offsets
        place = new or place
        if got and place:
            assert place.offset > got[-1]
    assert got == [record.offset for record in expected]
    assert place == last == (ReadPosition(end, 3))
    assert chunk.is_used_up
    assert chunk.end == plain.end


def test_a_large_batch_is_taken_in_parts() -> None:
    chunk = FetchedChunk(TP, a_batch(0, range(10)) + a_batch(10, range(5)), ReadPosition(2))
    runs = [chunk.take_run(decode, 4, ALL) for _ in range(4)]
    assert [run.decoded for run in runs] == [
        [2, 3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13], [14],
    ]  # fmt: skip
    assert [run.place and run.place.offset for run in runs] == [6, 10, 14, 15]
    assert chunk.is_used_up


def test_records_before_a_damaged_batch_come_first() -> None:
    good, bad = a_batch(0, range(3)), bytearray(a_batch(3, range(3)))
    bad[-1] ^= 1
    chunk = FetchedChunk(TP, good + bytes(bad), ReadPosition(0))
    assert chunk.take_run(decode, ALL, ALL).decoded == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            chunk.take_run(decode, ALL, ALL)


def test_records_before_one_that_cannot_be_decoded_come_first() -> None:
    def picky(run: BatchRun) -> list[int]:
        if any(batch.base_offset == 6 for batch in run.batches):
            raise CorruptRecordError("malformed")
        return decode(run)

    data = a_batch(0, range(3)) + a_batch(3, range(3)) + a_batch(6, range(3))
    positions = Positions()
    positions.assign([TP], 0)
    positions.seek(TP, 0)
    chunk = FetchedChunk(TP, data, ReadPosition(0))
    positions.fetched(TP, chunk, 9)
    assert positions.take_runs(picky, ALL, ALL) == [[0, 1, 2], [3, 4, 5]]
    assert positions.position(TP) == 6
    with pytest.raises(CorruptRecordError):
        positions.take_runs(picky, ALL, ALL)
    assert positions.position(TP) == 6
    assert positions.fetchable() == {TP: 6}


def test_bounds_hold_over_partitions_and_unread_records_are_fetched_again() -> None:
    positions, other = Positions(), TopicPartition("t", 1)
    positions.assign([TP, other], 0)
    for tp in (TP, other):
        positions.seek(tp, 0)
        positions.fetched(tp, FetchedChunk(tp, a_batch(0, range(10)), ReadPosition(0)), 10)
    assert positions.take_runs(decode, 12, ALL) == [list(range(10)), [0, 1]]
    assert (positions.position(TP), positions.position(other)) == (10, 2)
    positions.unread.extend(positions.take(3))
    assert positions.position(other) == 2
    assert positions.take_runs(decode, ALL, ALL) == []
    assert positions.fetchable() == {TP: 10, other: 2}
    assert positions.buffered_bytes == 0
