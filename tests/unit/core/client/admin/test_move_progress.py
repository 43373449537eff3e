"""How far reassignments are, by the sizes of their replicas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.client.admin.move_progress import MoveMeter, brokers_of
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition

pytestmark = pytest.mark.mission("GLASS-157")

TP = TopicPartition("orders", 0)
MOVES = {TP: ReplicaAssignment((1, 2, 3), adding=(3,), removing=(1,))}


def sizes(*held: int) -> dict[tuple[TopicPartition, int], int]:
    return {(TP, broker): size for broker, size in enumerate(held, 1)}


def test_the_time_to_go_follows_from_the_rate() -> None:
    meter = MoveMeter()
    (first,) = meter.measure(0, MOVES, sizes(1000, 990, 100))
    assert (first.copied, first.total, first.percent) == (100, 1000, 10)
    assert (first.bytes_per_s, first.seconds_left) == (None, None)
    (later,) = meter.measure(2_000, MOVES, sizes(1000, 990, 300))
    assert (later.bytes_per_s, later.seconds_left) == (100, 7)
    (stuck,) = meter.measure(63_000, MOVES, sizes(1000, 990, 300))
    assert (stuck.bytes_per_s, stuck.seconds_left) == (None, None)  # no sample of a minute
    (stuck,) = meter.measure(70_000, MOVES, sizes(1000, 990, 300))
    assert (stuck.bytes_per_s, stuck.seconds_left) == (0, None)
    (done,) = meter.measure(80_000, MOVES, sizes(1000, 990, 1200))
    assert (done.percent, done.seconds_left) == (100, 0)


def test_an_empty_partition_is_complete_and_brokers_are_known() -> None:
    (found,) = MoveMeter().measure(0, MOVES, {})
    assert (found.percent, found.seconds_left) == (100, 0)
    assert brokers_of(MOVES) == {1, 2, 3}


@given(st.lists(st.tuples(st.integers(0, 90_000), st.integers(0, 2_000)), max_size=300))
def test_figures_are_within_bounds(steps: list[tuple[int, int]]) -> None:
    meter, now_ms = MoveMeter(), 0
    for passed_ms, size in steps:
        now_ms += passed_ms
        (found,) = meter.measure(now_ms, MOVES, sizes(1000, 900, size))
        assert 0 <= found.copied <= found.total == 1000
        assert 0 <= found.percent <= 100
        assert found.bytes_per_s is None or found.bytes_per_s >= 0
        assert found.seconds_left is None or found.seconds_left >= 0
