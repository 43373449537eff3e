"""Plans of faults: a seed decides all of it, and no plan asks for the impossible."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.testing.verify.nemesis.plan import (
    BY_REQUEST,
    MEANINGS,
    SHORTEST_MS,
    ZOOKEEPER,
    FaultKind,
    PlannedFault,
    plan,
    spare_brokers,
)

pytestmark = pytest.mark.mission("JUDGE-81")

LONGEST_MS, CALM_MS = 15_000, 5_000
BROKERS = st.lists(st.integers(0, 1_000), min_size=1, max_size=9, unique=True)
KINDS = st.lists(st.sampled_from(FaultKind), min_size=1, unique=True)


def faults(
    seed: int, kinds: list[FaultKind], brokers: list[int], spare: int, count: int
) -> list[PlannedFault]:
    victims = {k: [ZOOKEEPER] if k is FaultKind.ZOOKEEPER else brokers for k in kinds}
    return list(islice(plan(seed, victims, spare, LONGEST_MS, CALM_MS), count))


@given(st.integers(), KINDS, BROKERS, st.integers(1, 3))
def test_a_seed_decides(seed: int, kinds: list[FaultKind], brokers: list[int], spare: int) -> None:
    one, again = (faults(seed, kinds, brokers, spare, 20) for _ in range(2))
    assert one == again
    other = faults(seed + 1, kinds, brokers, spare, 20)
    assert [each.choice for each in other] != [each.choice for each in one]


@given(st.integers(), KINDS, BROKERS, st.integers(1, 3))
def test_no_more_brokers_are_away_than_replication_allows(
    seed: int, kinds: list[FaultKind], brokers: list[int], spare: int
) -> None:
    for fault in faults(seed, kinds, brokers, spare, 50):
        if fault.kind is FaultKind.RESTART_ALL:
            assert fault.victims == tuple(sorted(brokers))
        elif fault.kind is FaultKind.ZOOKEEPER:
            assert fault.victims == (ZOOKEEPER,)
        elif fault.kind in BY_REQUEST:
            assert fault.victims == ()
        else:
            assert 1 <= len(set(fault.victims)) == len(fault.victims) <= spare
            assert set(fault.victims) <= set(brokers)


@given(st.integers(), KINDS, BROKERS)
def test_every_kind_comes_once_in_a_round(
    seed: int, kinds: list[FaultKind], brokers: list[int]
) -> None:
    found = faults(seed, kinds, brokers, 1, 3 * len(kinds))
    for first in range(0, len(found), len(kinds)):
        turn = [fault.kind for fault in found[first : first + len(kinds)]]
        assert Counter(turn) == Counter(kinds)
    assert [fault.number for fault in found] == list(range(1, len(found) + 1))


@given(st.integers(), KINDS)
def test_times_have_bounds(seed: int, kinds: list[FaultKind]) -> None:
    for fault in faults(seed, kinds, [1, 2, 3], 1, 50):
        assert CALM_MS // 2 <= fault.calm_ms <= CALM_MS * 3 // 2
        if fault.kind is FaultKind.ELECT:
            assert fault.duration_ms == 0
        else:
            assert SHORTEST_MS <= fault.duration_ms <= LONGEST_MS
        if fault.kind is FaultKind.RESTART_ALL:
            assert fault.duration_ms < LONGEST_MS / 3


def test_short_and_long_faults_and_all_brokers_occur() -> None:
    found = faults(1, [FaultKind.STOP], [1, 2, 3], 1, 100)
    durations = [fault.duration_ms for fault in found]
    assert min(durations) < 1_000
    assert max(durations) > 12_000
    assert {fault.victims for fault in found} == {(1,), (2,), (3,)}


def test_faults_without_kinds_and_their_words() -> None:
    assert list(plan(1, {}, 1, LONGEST_MS, CALM_MS)) == []
    assert set(MEANINGS) == set(FaultKind)
    one = PlannedFault(1, FaultKind.KILL9, (2,), 0, 0, 0)
    assert str(one) == "kill9 of broker 2"
    assert str(PlannedFault(1, FaultKind.STOP, (1, 2), 0, 0, 0)) == "stop of brokers 1, 2"
    assert str(PlannedFault(1, FaultKind.ZOOKEEPER, (ZOOKEEPER,), 0, 0, 0)) == "zookeeper"


def test_spare_brokers() -> None:
    assert [spare_brokers(*each) for each in [(3, 2), (5, 3), (5, 2), (1, 1), (2, 2)]] == [
        *(1, 2, 3, 1, 1)
    ]
