"""Records that delete go in batches below what every log takes."""

from __future__ import annotations

from minikafka.core.coordinator_shard import BATCH_BYTES, RECORD_BYTES, in_batches


def sizes(*texts: int) -> list[tuple[int, ...]]:
    """Records that are their own length of text."""
    return list(in_batches(texts, lambda text: text))


def test_batches_are_filled_in_order() -> None:
    half = BATCH_BYTES // 2 - RECORD_BYTES
    assert sizes(half, half, half, half, 1) == [(half, half), (half, half), (1,)]
    assert sizes(half, half + 1, half) == [(half,), (half + 1,), (half,)]
    assert sizes() == []


def test_batch_size_counts_the_overhead_of_each_record() -> None:
    fit = BATCH_BYTES // RECORD_BYTES
    assert [len(batch) for batch in in_batches(range(fit + 1), lambda _: 0)] == [fit, 1]


def test_one_that_is_too_large_goes_alone() -> None:
    large = 2 * BATCH_BYTES
    assert sizes(large, 1, large, 2) == [(large,), (1,), (large,), (2,)]
