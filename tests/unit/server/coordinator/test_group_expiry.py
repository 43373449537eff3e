"""The expiry of offsets, and of groups with their last offset."""

import pytest

from minikafka.core.group.group import GroupState
from minikafka.kernel.errors import ErrorCode
from tests.support.coordinator.group_lab import GROUP, GroupLab

NONE = ErrorCode.NONE
DAY_MS = 24 * 60 * 60 * 1000
SUBSCRIBED_TO_T = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab()


def test_offsets_of_an_empty_group_expire_a_week_after_its_last_member(lab: GroupLab) -> None:
    generation, _ = lab.stable("a")
    lab.commit({("t", 0): 1}, "a", generation)
    lab.clock.advance(10_000)
    assert lab.group.state is GroupState.EMPTY
    lab.clock.advance(7 * DAY_MS - 1)
    lab.expire()
    assert lab.committed() == {("t", 0): 1}
    lab.clock.advance(1)
    lab.expire()
    assert lab.find_group(GROUP) is None
    lab.resign()
    lab.elect()
    assert lab.find_group(GROUP) is None


def test_offsets_of_self_assigning_consumers_expire_a_week_after_the_commit(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.clock.advance(4 * DAY_MS)
    lab.commit({("t", 1): 1})
    lab.clock.advance(3 * DAY_MS)
    lab.expire()
    assert lab.committed() == {("t", 1): 1}


def test_offsets_of_unsubscribed_topics_expire(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1, ("u", 0): 1})
    generation, _ = lab.stable("a", metadata=SUBSCRIBED_TO_T, session_ms=1_800_000)
    for _ in range(7 * 24 * 3):
        lab.clock.advance(1_200_000)
        assert lab.beat("a", generation) is NONE
    lab.expire()
    assert lab.committed() == {("t", 0): 1}


def test_a_client_may_request_another_retention(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1}, expire_ms=lab.clock.wall_ms() + 1_000)
    lab.resign()
    lab.elect()
    lab.clock.advance(1_000)
    lab.expire()
    assert lab.find_group(GROUP) is None


def test_an_empty_group_without_offsets_is_removed(lab: GroupLab) -> None:
    lab.join(new_id="a", must_know_id=True)
    lab.clock.advance(10_000)
    lab.expire()
    assert lab.find_group(GROUP) is None
    assert lab.log.batches == []


@pytest.mark.parametrize("metadata", [b"", SUBSCRIBED_TO_T], ids=["unreadable", "rebalancing"])
def test_offsets_expire_only_while_the_subscriptions_are_known(
    lab: GroupLab, metadata: bytes
) -> None:
    lab.commit({("t", 0): 1, ("u", 0): 1})
    generation, _ = lab.stable("a", "b", metadata=metadata, session_ms=1_800_000)
    for _ in range(7 * 24 * 3):
        lab.clock.advance(1_200_000)
        for name in "ab":
            assert lab.beat(name, generation) is NONE
    if metadata:
        lab.join("a", session_ms=1_800_000)
        assert lab.group.state is GroupState.PREPARING_REBALANCE
    lab.expire()
    assert lab.committed() == {("t", 0): 1, ("u", 0): 1}


def test_an_offset_does_not_expire_before_its_requested_retention(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1}, expire_ms=lab.clock.wall_ms() + 8 * DAY_MS)
    lab.clock.advance(8 * DAY_MS - 1)
    lab.expire()
    assert lab.committed() == {("t", 0): 1}
    lab.clock.advance(1)
    lab.expire()
    assert lab.find_group(GROUP) is None


def test_an_offset_with_a_pending_commit_does_not_expire(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.clock.advance(8 * DAY_MS)
    lab.log.held = True
    lab.commit({("t", 0): 2})
    lab.expire()
    lab.log.release()
    assert lab.committed() == {("t", 0): 2}
