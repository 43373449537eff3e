"""Records encoded at once have the bytes of records encoded one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.producer.producer_batch import ProducerBatch, encode_runs
from minikafka.kernel.cluster import TopicPartition

sizes = st.sampled_from([0, 1, 62, 63, 64, 65, 200])
contents = sizes.map(lambda size: b"x" * size)
ALL = 1 << 40


def one_by_one(values: list[bytes | None], keys: list[bytes | None] | None) -> bytes:
    batch: ProducerBatch[None] = ProducerBatch(TopicPartition("t", 0), 0)
    for key, value in zip(keys or [None] * len(values), values, strict=True):
        batch.append((5, key, value, ()), None, 0)
    return bytes(batch.body)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(contents, contents), min_size=1, max_size=140), st.booleans())
@pytest.mark.mission("ARW-3")
def test_the_bytes_are_those_of_single_records(
    rows: list[tuple[bytes, bytes]], with_keys: bool
) -> None:
    values: list[bytes | None] = [value for _, value in rows]
    keys: list[bytes | None] | None = [key for key, _ in rows] if with_keys else None
    (run,) = encode_runs(values, keys, 5, ALL)
    assert run.body == one_by_one(values, keys)
    assert (run.record_count, run.base_timestamp, run.max_timestamp) == (len(rows), 5, 5)


@pytest.mark.parametrize("count", [1, 64, 65, 128, 8_191, 8_193])
def test_offset_deltas_of_every_width(count: int) -> None:
    values: list[bytes | None] = [b"v"] * count
    (run,) = encode_runs(values, None, 5, ALL)
    assert run.body == one_by_one(values, None)


def test_nulls_and_runs_within_a_bound() -> None:
    values: list[bytes | None] = [b"x" * 30, None, b"y" * 300, b"z"] * 3
    keys: list[bytes | None] = [None, b"k"] * 6
    runs = list(encode_runs(values, keys, 5, 120))
    assert sum(run.record_count for run in runs) == 12
    assert all(len(run.body) <= 120 or run.record_count == 1 for run in runs)
    at = 0
    for run in runs:
        end = at + run.record_count
        assert run.body == one_by_one(values[at:end], keys[at:end])
        at = end
    assert list(encode_runs([], None, 5, 120)) == []
