"""A thousand groups in the same phase at the same time, and a group of five hundred."""

from __future__ import annotations

import pytest

from minikafka.core.group.group import GroupState
from minikafka.kernel.errors import ErrorCode
from tests.support.coordinator.group_lab import GroupLab

GROUPS = [f"g{number}" for number in range(1_000)]
BOTH = ("a", "b")


@pytest.mark.mission("SCALE-4")
def test_a_thousand_groups() -> None:
    lab = GroupLab()
    joined = {
        name: [lab.join(group_id=name, new_id=f"{name}-{who}") for who in BOTH] for name in GROUPS
    }
    lab.clock.advance(6_000)
    for name in GROUPS:
        assert [responses[0].generation_id for responses in joined[name]] == [1, 1]
        group = lab.find_group(name)
        assert group is not None
        assert group.state is GroupState.COMPLETING_REBALANCE
    assert lab.heartbeats.purgatory.watched == 2 * len(GROUPS), "one for each member"
    assert len(lab.coordinator.list_groups((), ())[1]) == len(GROUPS)

    # No member syncs: all sessions time out in one step of the clock.
    lab.clock.advance(60_000)
    assert lab.said().count("member_failed") == 2 * len(GROUPS)
    states = {listed.group_state for listed in lab.coordinator.list_groups((), ())[1]}
    assert states == {"Empty"}
    lab.clock.advance(60_000)
    assert lab.heartbeats.purgatory.delayed == lab.rebalances.purgatory.delayed == 0

    # Another coordinator takes over while all of them join again.
    again = [lab.join(group_id=name, new_id=f"{name}-c") for name in GROUPS]
    lab.resign()
    assert {responses[0].error_code for responses in again} == {ErrorCode.NOT_COORDINATOR}
    assert lab.heartbeats.purgatory.delayed == lab.rebalances.purgatory.delayed == 0
    assert not list(lab.coordinator.groups())
    lab.elect()
    assert len(lab.coordinator.list_groups((), ())[1]) == len(GROUPS)


@pytest.mark.mission("SCALE-4")
def test_groups_at_rest_have_no_timers() -> None:
    """Groups with committed offsets and without members, also after they have been loaded."""
    lab = GroupLab()
    for name in GROUPS:
        lab.commit({("t", 0): 1}, group_id=name)
    assert len(list(lab.coordinator.groups())) == len(GROUPS)
    lab.clock.advance(60_000)
    for _ in range(2):
        for reaper in (lab.heartbeats, lab.rebalances):
            assert (reaper.purgatory.delayed, reaper.purgatory.watched) == (0, 0)
        lab.resign()
        lab.elect()
    assert len(list(lab.coordinator.groups())) == len(GROUPS)


def test_a_long_rebalance_of_five_hundred() -> None:
    """One member joins, the others rejoin one by one, and the last one never does."""
    lab = GroupLab()
    names = [f"m{number}" for number in range(500)]
    generation, _ = lab.stable(*names, rebalance_ms=60_000)
    newcomer = lab.join(new_id="newcomer")
    waiting = []
    for number, name in enumerate(names[:-1]):
        assert lab.beat(name, generation) is ErrorCode.REBALANCE_IN_PROGRESS
        waiting.append(lab.join(name))
        lab.clock.advance(100)
        assert lab.beat(names[-1], generation) is ErrorCode.REBALANCE_IN_PROGRESS
        for late in names[number + 1 : -1] if number % 50 == 0 else ():
            lab.beat(late, generation)
    assert not newcomer
    assert not any(waiting), "they wait for one that beats and does not join"
    lab.clock.advance(5_000)
    assert lab.beat(names[-1], generation) is ErrorCode.REBALANCE_IN_PROGRESS
    lab.clock.advance(6_000)
    assert newcomer[0].generation_id == generation + 1
    assert {responses[0].generation_id for responses in waiting} == {generation + 1}
    assert lab.beat(names[-1], generation) is ErrorCode.UNKNOWN_MEMBER_ID
    last = lab.group.last_eviction
    assert last is not None
    assert (last.member_id, last.reason) == (
        names[-1],
        "did not rejoin within the rebalance timeout",
    )
    assert len(lab.group.members) == 500
    leader = newcomer[0].leader
    shares = dict.fromkeys(lab.group.members, b"x")
    synced = [lab.sync(name, generation + 1) for name in lab.group.members if name != leader]
    synced.append(lab.sync(leader, generation + 1, shares))
    assert {responses[0].error_code for responses in synced} == {ErrorCode.NONE}
    assert lab.group.state is GroupState.STABLE
