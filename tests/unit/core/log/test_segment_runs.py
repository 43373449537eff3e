"""A leader's batches are divided so that each run fits a segment of the follower."""

from __future__ import annotations

from minikafka.core.log.segment_limits import segment_runs
from minikafka.protocol.records.batch import RecordBatch, parse_batches
from minikafka.protocol.records.builder import build_batch

BATCH_BYTES = 100


def batches(*base_offsets: int) -> list[RecordBatch]:
    """Of 100 bytes each, one after the other in one buffer that starts with something else."""
    value = bytes(BATCH_BYTES - len(build_batch([(0, None, b"", [])])))
    data = b"".join(build_batch([(0, None, value, [])], base_offset=base) for base in base_offsets)
    first = build_batch([(0, None, b"before", [])])
    return parse_batches(first + data)[1:]


def runs(found: list[RecordBatch], segment_bytes: int) -> list[list[int]]:
    return [[b.base_offset for b in run] for run in segment_runs(found, segment_bytes)]


def test_batches_that_fit_one_segment_form_one_run() -> None:
    assert batches(1)[0].size_bytes == BATCH_BYTES
    assert runs(batches(1, 2, 3), 300) == [[1, 2, 3]]


def test_a_run_ends_where_the_next_batch_would_be_too_much() -> None:
    assert runs(batches(1, 2, 3), 299) == [[1, 2], [3]]
    assert runs(batches(1, 2, 3, 4, 5), 200) == [[1, 2], [3, 4], [5]]


def test_a_batch_larger_than_a_segment_is_a_run() -> None:
    assert runs(batches(1, 2), 99) == [[1], [2]]
    assert runs(batches(1), 99) == [[1]]


def test_a_run_ends_where_offsets_are_too_far_apart_for_an_index() -> None:
    far = 2**31 - 1
    assert runs(batches(0, far), 10**6) == [[0, far]]
    assert runs(batches(0, 5, far + 1), 10**6) == [[0, 5], [far + 1]]
