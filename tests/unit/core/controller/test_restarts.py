"""Which brokers were started again while no controller saw it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.controller.context import ControllerContext
from minikafka.core.controller.restarts import restarted_brokers
from minikafka.kernel.cluster import (
    Broker,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    TopicPartition,
)
from minikafka.kernel.slices import run_at_once

EPOCHS = st.dictionaries(st.integers(1, 4), st.integers(1, 20), max_size=4)
STATES = st.lists(st.tuples(st.sets(st.integers(1, 4), min_size=1), st.integers(1, 20)), max_size=4)


def found(epochs: dict[int, int], states: list[tuple[set[int], int]]) -> list[int]:
    context = ControllerContext()
    context.set_brokers(Broker(each, (), epoch=epoch) for each, epoch in epochs.items())
    for number, (isr, mzxid) in enumerate(states):
        leader_and_isr = LeaderAndIsr(min(isr), 0, tuple(sorted(isr)), 0)
        state = LeaderIsrAndControllerEpoch(leader_and_isr, 1, mzxid)
        context.leadership[TopicPartition("t", number)] = state
    return run_at_once(restarted_brokers(context))


def test_a_member_that_is_registered_later_than_the_isr_was_written() -> None:
    assert found({1: 5, 2: 30, 3: 6}, [({1, 2, 3}, 10)]) == [2]
    assert found({1: 5, 2: 9, 3: 6}, [({1, 2, 3}, 10)]) == []
    assert found({1: 5, 2: 30, 3: 6}, [({1, 3}, 10)]) == []  # it is not in sync, and must catch up


def test_none_if_all_live_members_were_started_again() -> None:
    assert found({1: 11, 2: 12, 3: 13}, [({1, 2, 3}, 10)]) == []
    assert found({2: 12}, [({1, 2, 3}, 10)]) == []
    assert found({1: 11}, [({1}, 10)]) == []


@given(EPOCHS, STATES)
def test_each_isr_keeps_a_live_member_that_was_there_all_the_time(
    epochs: dict[int, int], states: list[tuple[set[int], int]]
) -> None:
    restarted = set(found(epochs, states))
    for isr, mzxid in states:
        steady = {each for each in isr if epochs.get(each, mzxid + 1) <= mzxid}
        late = {each for each in isr & epochs.keys() if epochs[each] > mzxid}
        if steady:
            assert late <= restarted
    for each in restarted:
        assert any(
            each in isr
            and epochs[each] > mzxid
            and any(epochs.get(other, mzxid + 1) <= mzxid for other in isr)
            for isr, mzxid in states
        )
