"""Consumer groups of KIP-848 at the coordinator: sessions, revocations, regular expressions, and
classic groups of the same id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.group import ConsumerGroup, ConsumerGroupState
from minikafka.core.group.consumer.member import stored_target
from minikafka.core.group.consumer_groups import RESOLVE_AGAIN_MS
from minikafka.core.group.group import Group
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import (
    JOINS,
    LEAVES,
    LEAVES_FOR_NOW,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.protocol.messages.consumer_group_log import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
)
from minikafka.server.coordinator.group_facts import group_facts
from tests.support.coordinator.group_lab import GROUP, GroupLab

SESSION_MS = ConsumerGroupConfig().session_timeout_ms
BEAT_MS = ConsumerGroupConfig().heartbeat_interval_ms
REVOCATION_MS = 20_000
A_DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def lab() -> GroupLab:
    lab = GroupLab()
    lab.make_topics(a=4)
    return lab


def join(
    lab: GroupLab, member_id: str = "m1", *topics: str, **facts: Any
) -> ConsumerGroupHeartbeatResponse:
    facts = {"rebalance_timeout_ms": REVOCATION_MS, "owned": {}, **facts}
    if "regex" not in facts:
        facts["topics"] = topics or ("a",)
    (response,) = lab.consumer_beat(member_id, JOINS, **facts)
    return response


def beat(lab: GroupLab, member_id: str, epoch: int, **facts: Any) -> ConsumerGroupHeartbeatResponse:
    (response,) = lab.consumer_beat(member_id, epoch, **facts)
    return response


def assigned(response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """Return the partitions by topic in a response; None if it says nothing of them."""
    if response.assignment is None:
        return None
    rows = response.assignment.topic_partitions
    return {name_of(row.topic_id): row.partitions for row in rows}


def name_of(topic_id: UUID) -> str:
    return topic_id.int.to_bytes(1, "big").decode()


def group_of(lab: GroupLab) -> ConsumerGroup:
    group = lab.find_consumer_group()
    assert group is not None
    return group


@pytest.mark.mission("G848-3")
def test_a_silent_member_is_removed_when_its_session_ends(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    epoch = 1
    for _ in range(SESSION_MS // BEAT_MS):
        epoch = beat(lab, "m1", epoch, owned={}).member_epoch
        lab.clock.advance(BEAT_MS)
    assert set(group_of(lab).members) == {"m1"}
    assert "member_removed" in lab.said()
    last = group_facts(lab.coordinator, 1, GROUP)["groups"][0]["last_eviction"]
    assert (last["member"], last["reason"]) == ("m2", "its session has ended")
    assert beat(lab, "m2", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group_of(lab).epoch == 3


@pytest.mark.mission("G848-3")
def test_a_heartbeat_starts_no_timer(lab: GroupLab) -> None:
    join(lab)
    before = lab.heartbeats.purgatory.watched
    for _ in range(100):
        beat(lab, "m1", 1)
    assert lab.heartbeats.purgatory.watched == before
    beat(lab, "m1", LEAVES)
    assert lab.heartbeats.purgatory.watched == before - 1


@pytest.mark.mission("G848-4")
def test_a_member_that_does_not_revoke_is_removed(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    shrunk = beat(lab, "m1", 1)
    assert (shrunk.member_epoch, len(assigned(shrunk)["a"])) == (1, 2)  # type: ignore[index]
    for _ in range(REVOCATION_MS // BEAT_MS):
        beat(lab, "m1", 1)
        lab.clock.advance(BEAT_MS)
    assert set(group_of(lab).members) == {"m2"}
    alone = beat(lab, "m2", 2)
    assert assigned(alone) == {"a": [0, 1, 2, 3]}


@pytest.mark.mission("G848-4")
def test_a_member_that_revokes_stays(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    kept = beat(lab, "m1", 1).assignment
    assert kept is not None
    owned = {row.topic_id: frozenset(row.partitions) for row in kept.topic_partitions}
    assert beat(lab, "m1", 1, owned=owned).member_epoch == 2
    for _ in range(2 * REVOCATION_MS // BEAT_MS):
        beat(lab, "m1", 2)
        beat(lab, "m2", 2)
        lab.clock.advance(BEAT_MS)
    assert set(group_of(lab).members) == {"m1", "m2"}
    assert group_of(lab).state is ConsumerGroupState.STABLE


@pytest.mark.mission("G848-5")
def test_a_static_member_that_has_left_is_awaited_for_its_session(lab: GroupLab) -> None:
    join(lab, "m1", instance_id="i")
    beat(lab, "m1", LEAVES_FOR_NOW, instance_id="i")
    lab.clock.advance(SESSION_MS - 1)
    back = join(lab, "m2", instance_id="i")
    assert (back.member_epoch, assigned(back)) == (1, {"a": [0, 1, 2, 3]})
    beat(lab, "m2", LEAVES_FOR_NOW, instance_id="i")
    lab.clock.advance(SESSION_MS)
    assert group_of(lab).is_empty


@pytest.mark.mission("G848-7")
def test_responses_wait_until_the_records_are_replicated(lab: GroupLab) -> None:
    lab.log.held = True
    first = lab.consumer_beat(
        "m1", JOINS, rebalance_timeout_ms=REVOCATION_MS, owned={}, topics=("a",)
    )
    second = lab.consumer_beat("m1", 1)  # it changes nothing, and builds on what is not replicated
    assert first == second == []
    lab.log.release()
    assert [first[0].member_epoch, second[0].member_epoch] == [1, 1]


@pytest.mark.mission("G848-7")
def test_a_refused_append_changes_nothing(lab: GroupLab) -> None:
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = join(lab)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.find_consumer_group() is None
    lab.log.refusal = None
    assert join(lab).member_epoch == 1


@pytest.mark.mission("G848-7")
def test_a_member_whose_removal_is_refused_is_removed_later(lab: GroupLab) -> None:
    join(lab)
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    lab.clock.advance(SESSION_MS)
    assert set(group_of(lab).members) == {"m1"}
    lab.log.refusal = None
    lab.clock.advance(SESSION_MS)
    assert group_of(lab).is_empty


def test_a_new_coordinator_knows_the_members_and_ends_their_sessions(lab: GroupLab) -> None:
    join(lab)
    lab.resign()
    lab.elect()
    assert beat(lab, "m1", 1).error_code == ErrorCode.NONE
    lab.clock.advance(SESSION_MS)
    assert group_of(lab).is_empty


def test_new_partitions_are_assigned_at_the_next_heartbeat(lab: GroupLab) -> None:
    join(lab)
    lab.make_topics(a=6)
    assert assigned(beat(lab, "m1", 1)) == {"a": [0, 1, 2, 3, 4, 5]}


# -- regular expressions


@pytest.mark.mission("G848-6")
def test_a_regular_expression_is_looked_up_and_assigned(lab: GroupLab) -> None:
    lab.make_topics(a=1, b=1)
    assert assigned(join(lab, regex="[ab]")) == {}
    lab.look_up()
    assert assigned(beat(lab, "m1", 1)) == {"a": [0], "b": [0]}


@pytest.mark.mission("G848-6")
def test_a_regular_expression_is_looked_up_again_some_time_after_topics_change(
    lab: GroupLab,
) -> None:
    join(lab, regex="[ab]")
    lab.look_up()
    beat(lab, "m1", 1)
    lab.make_topics(a=4, b=1)
    beat(lab, "m1", 2)
    lab.look_up()
    assert "b" not in group_of(lab).regexes["[ab]"].topics
    lab.clock.advance(RESOLVE_AGAIN_MS)
    beat(lab, "m1", 2)
    lab.look_up()
    assert assigned(beat(lab, "m1", 2)) == {"a": [0, 1, 2, 3], "b": [0]}


@pytest.mark.mission("G848-6")
def test_a_regular_expression_finds_what_the_member_may_describe(lab: GroupLab) -> None:
    async def describable(topics: Sequence[str]) -> set[str]:
        return {topic for topic in topics if topic != "b"}

    lab.make_topics(a=1, b=1, c=1)
    join(lab, regex="[ab]", describable=describable)
    lab.look_up()
    assert assigned(beat(lab, "m1", 1)) == {"a": [0]}


def test_an_expression_to_which_nobody_subscribes_is_forgotten(lab: GroupLab) -> None:
    join(lab, "m1", regex="a")
    join(lab, "m2", regex="[a]")
    lab.look_up()
    beat(lab, "m1", 2)
    lab.look_up()
    assert set(group_of(lab).regexes) == {"a", "[a]"}
    beat(lab, "m2", LEAVES)
    assert set(group_of(lab).regexes) == {"a"}


@pytest.mark.mission("G848-6")
@pytest.mark.parametrize("regex", ["a(", "(?=a)", r"\1"])
def test_what_re2_does_not_have_is_refused(lab: GroupLab, regex: str) -> None:
    refused = join(lab, regex=regex)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert lab.find_consumer_group() is None


# -- offsets, and classic groups


@pytest.mark.mission("G848-8")
def test_members_commit_in_their_epoch(lab: GroupLab) -> None:
    join(lab)
    assert set(lab.commit({("a", 0): 7}, "m1", 1).values()) == {ErrorCode.NONE}
    assert set(lab.commit({("a", 0): 8}, "m1", 0).values()) == {ErrorCode.STALE_MEMBER_EPOCH}
    assert set(lab.commit({("a", 0): 9}).values()) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert lab.committed() == {("a", 0): 7}


def test_offsets_of_subscribed_topics_do_not_expire(lab: GroupLab) -> None:
    join(lab, "m1", "a")
    lab.commit({("a", 0): 7, ("b", 0): 7}, "m1", 1)
    group = group_of(lab)
    lab.clock.advance(0)
    now_ms = lab.clock.wall_ms() + 8 * A_DAY_MS
    assert [tp.topic for tp in group.expired_offsets(now_ms, 7 * A_DAY_MS)] == ["b"]


def test_an_empty_group_is_deleted_with_its_last_offset(lab: GroupLab) -> None:
    join(lab)
    lab.commit({("a", 0): 7}, "m1", 1)
    beat(lab, "m1", LEAVES)
    lab.clock.advance(8 * A_DAY_MS)
    lab.expire()
    assert lab.find_consumer_group() is None
    lab.resign()
    lab.elect()
    assert lab.find_consumer_group() is None


@pytest.mark.mission("G848-10")
@pytest.mark.mission("STR-12")
def test_a_request_that_deletes_the_last_offset_leaves_the_group(lab: GroupLab) -> None:
    join(lab)
    lab.commit({("a", 0): 7}, "m1", 1)
    beat(lab, "m1", LEAVES)
    errors: dict[TopicPartition, ErrorCode] = {}
    partition = TopicPartition("a", 0)
    lab.coordinator.delete_offsets(GROUP, [partition], errors.update)
    assert errors == {partition: ErrorCode.NONE}
    assert lab.committed() == {}
    assert lab.find_consumer_group() is not None


def test_a_consumer_group_takes_the_place_of_an_empty_classic_one(lab: GroupLab) -> None:
    generation, _ = lab.stable("c")
    lab.commit({("a", 0): 7}, "c", generation)
    assert join(lab).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    lab.clock.advance(60_000)  # the classic member's session
    assert join(lab).member_epoch == 1
    for _ in range(2):
        assert lab.committed() == {("a", 0): 7}
        assert isinstance(group_of(lab), ConsumerGroup)
        lab.resign()
        lab.elect()


@pytest.mark.mission("G848-10")
def test_a_classic_group_takes_the_place_of_an_empty_consumer_group(lab: GroupLab) -> None:
    join(lab)
    lab.commit({("a", 0): 7}, "m1", 1)
    beat(lab, "m1", LEAVES)
    lab.stable("c")
    for _ in range(2):
        assert lab.committed() == {("a", 0): 7}
        assert isinstance(lab.find_group(GROUP), Group)
        lab.resign()
        lab.elect()


def test_a_group_with_members_is_not_deleted(lab: GroupLab) -> None:
    join(lab)
    errors: dict[str, ErrorCode] = {}
    lab.coordinator.delete_groups([GROUP], errors.update)
    assert errors == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    with pytest.raises(KafkaError):
        lab.coordinator.delete_offsets("no", [], lambda _: None)


@pytest.mark.mission("G848-2")
def test_inconsistent_records_in_the_log_stop_nobody(lab: GroupLab) -> None:
    """Whoever may write to the topic can give a partition to two members, or one that is none."""
    join(lab, "m1")
    join(lab, "m2")
    topic_id = lab.image.topic_ids["a"]
    group = group_of(lab)
    for member_id in ("m1", "m2"):
        target = {topic_id: frozenset({-1, 0, 1, 99})}
        group.replay(
            ConsumerGroupTargetAssignmentMemberKey(GROUP, member_id), stored_target(target)
        )
    join(lab, "m3")
    given = [p for member in ("m1", "m2", "m3") for p in group.targets[member].get(topic_id, ())]
    assert sorted(given) == [0, 1, 2, 3]


@pytest.mark.mission("G848-2")
def test_a_member_without_a_classic_protocol_in_the_log_has_the_consumer_protocol(
    lab: GroupLab,
) -> None:
    join(lab)
    group, key = group_of(lab), ConsumerGroupMemberMetadataKey(GROUP, "m1")
    value = group.value_of(key)
    assert isinstance(value, ConsumerGroupMemberMetadataValue)
    group.replay(key, replace(value, classic_member_metadata=ClassicMemberMetadata()))
    assert lab.sync("m1", 1)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(lab, "m1", 1).error_code == ErrorCode.NONE
