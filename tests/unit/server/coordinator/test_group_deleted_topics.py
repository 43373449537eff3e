"""Offsets of deleted topics are deleted in slices, between other requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.slices import LOOKS, Slices
from tests.support.coordinator.group_lab import GroupLab

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab()


def test_a_pending_commit_is_dropped_when_its_topic_is_deleted(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.log.held = True
    lab.commit({("t", 0): 2})
    lab.coordinator.partitions_deleted([T0])
    lab.log.release()
    assert lab.committed() == {}


def test_offsets_of_deleted_topics_are_deleted(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1, ("u", 0): 2})
    lab.coordinator.partitions_deleted([T0, T1])
    assert lab.committed() == {("u", 0): 2}


def in_pauses(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> None:
    """Call ``call`` in each pause between two slices."""
    original = Slices.pause

    async def pause(slices: Slices) -> None:
        call()
        await original(slices)

    monkeypatch.setattr(Slices, "pause", pause)


def test_other_requests_are_served_while_many_offsets_are_deleted(
    lab: GroupLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(250):
        lab.commit({("t", 0): 1} if number < 125 else {("u", 0): 1}, group_id=f"g{number}")
    served: list[int] = []
    in_pauses(monkeypatch, lambda: served.append(len(list(lab.coordinator.groups()))))
    lab.coordinator.partitions_deleted([TopicPartition("t", n) for n in range(1_000)])
    assert served == [250 - LOOKS, 125, 125]


def test_offsets_of_a_recreated_topic_are_kept(
    lab: GroupLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(250):
        lab.commit({("t", 0): 7}, group_id=f"g{number}")
    in_pauses(monkeypatch, lambda: lab.commit({("t", 0): 1}, group_id="g249"))
    lab.coordinator.partitions_deleted([T0])
    assert lab.committed("g0") == lab.committed("g248") == {}
    assert lab.committed("g249") == {("t", 0): 1}
