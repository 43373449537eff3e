"""Share groups of KIP-932 at the coordinator: members, states of share-partitions, deletion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from minikafka.core.group.settings import GroupSettings
from minikafka.core.group.share.config import ShareGroupConfig
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.offset import SharePartitionOffset
from minikafka.core.group.share.states import NO_STATES
from minikafka.core.share.persister import InitialState, TopicIdPartition
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import view_of
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.group_limits import group_values
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS, LEAVES
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from tests.support.coordinator.group_lab import GROUP, GroupLab

CONFIG = ShareGroupConfig()


@pytest.fixture
def lab() -> Iterator[GroupLab]:
    lab = GroupLab()
    lab.make_topics(a=4)
    yield lab
    lab.tasks.drop_states()


def join(lab: GroupLab, member_id: str = "m1", *topics: str) -> ShareGroupHeartbeatResponse:
    (response,) = lab.share_beat(member_id, JOINS, topics=topics or ("a",))
    return response


def beat(lab: GroupLab, member_id: str, epoch: int, **facts: Any) -> ShareGroupHeartbeatResponse:
    (response,) = lab.share_beat(member_id, epoch, **facts)
    return response


def group_of(lab: GroupLab) -> ShareGroup:
    group = lab.find_share_group()
    assert group is not None
    return group


def assigned(response: ShareGroupHeartbeatResponse) -> list[int] | None:
    if response.assignment is None:
        return None
    return [n for row in response.assignment.topic_partitions for n in row.partitions]


def key(lab: GroupLab, partition: int, topic: str = "a") -> TopicIdPartition:
    return TopicIdPartition(lab.image.topic_ids[topic], partition)


@pytest.mark.mission("SHR-2")
async def test_partitions_are_assigned_when_they_have_a_state(lab: GroupLab) -> None:
    first = join(lab)
    assert (first.member_epoch, assigned(first)) == (1, [])
    assert first.heartbeat_interval_ms == CONFIG.heartbeat_interval_ms
    assert group_of(lab).initialized == {}
    await lab.settle_states()
    made = {(GROUP, key(lab, n)): InitialState(1, -1) for n in range(4)}
    assert lab.persister.states == made
    second = beat(lab, "m1", 1)
    assert (second.member_epoch, assigned(second)) == (2, [0, 1, 2, 3])
    third = beat(lab, "m1", 2)
    assert (third.member_epoch, assigned(third)) == (2, None)
    before = lab.log.end
    assert assigned(beat(lab, "m1", 2, topics=("a",))) == [0, 1, 2, 3]
    assert lab.log.end == before, "nothing has changed"


@pytest.mark.mission("SHR-2")
async def test_a_state_that_is_refused_is_asked_for_again(lab: GroupLab) -> None:
    lab.persister.refusals[key(lab, 1)] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    join(lab)
    await lab.settle_states()
    states = group_of(lab).states or NO_STATES
    assert (states.initializing, states.initialized) == ({}, {})
    lab.persister.refusals.clear()
    beat(lab, "m1", 1)
    await lab.settle_states()
    assert assigned(beat(lab, "m1", 1)) == [0, 1, 2, 3]


@pytest.mark.mission("SHR-2")
async def test_new_partitions_of_a_topic_get_a_state(lab: GroupLab) -> None:
    join(lab)
    await lab.settle_states()
    beat(lab, "m1", 1)
    lab.make_topics(a=6)
    assert beat(lab, "m1", 2).member_epoch == 3
    await lab.settle_states()
    assert lab.persister.states[GROUP, key(lab, 5)] == InitialState(3, -1)
    assert assigned(beat(lab, "m1", 3)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.mission("SHR-2")
async def test_a_new_coordinator_asks_for_what_has_no_state_yet(lab: GroupLab) -> None:
    join(lab)
    lab.tasks.drop_states()  # the coordinator ends before the share coordinators respond
    beat(lab, "m1", 1)
    assert not lab.tasks.states, "it is asked for already"
    lab.clock.advance(CONFIG.initialize_retry_interval_ms)
    beat(lab, "m1", 1)
    assert len(lab.tasks.states) == 1
    lab.tasks.drop_states()
    lab.resign()
    lab.elect()
    beat(lab, "m1", 1)
    await lab.settle_states()
    assert assigned(beat(lab, "m1", 1)) == [0, 1, 2, 3]


@pytest.mark.mission("SHR-3")
async def test_a_group_is_what_its_records_say(lab: GroupLab) -> None:
    join(lab)
    await lab.settle_states()
    beat(lab, "m1", 1)
    join(lab, "m2")
    before = group_of(lab)
    lab.resign()
    lab.elect()
    after = group_of(lab)
    assert after is not before
    assert before.is_dead
    for key_ in before.tombstone_keys():
        assert after.value_of(key_) == before.value_of(key_)
    assert after.deadlines.keys() == {"m1", "m2"}


@pytest.mark.mission("SHR-3")
def test_a_refused_record_takes_the_decision_back(lab: GroupLab) -> None:
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert join(lab).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.find_share_group() is None
    assert not lab.tasks.states, "nothing begins that is not stored"


@pytest.mark.mission("SHR-3")
def test_a_silent_member_is_removed_when_its_session_ends(lab: GroupLab) -> None:
    join(lab, "m1")
    epoch = join(lab, "m2").member_epoch
    for _ in range(CONFIG.session_timeout_ms // CONFIG.heartbeat_interval_ms):
        epoch = beat(lab, "m2", epoch).member_epoch
        lab.clock.advance(CONFIG.heartbeat_interval_ms)
    assert set(group_of(lab).members) == {"m2"}
    assert "member_removed" in lab.said()
    assert beat(lab, "m1", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.mission("SHR-3")
def test_epochs_fence_and_forgive(lab: GroupLab) -> None:
    join(lab, "m1")
    lab.make_topics(a=5)
    assert beat(lab, "m1", 1).member_epoch == 2
    assert beat(lab, "m1", 1).member_epoch == 2, "the response may have been lost"
    assert beat(lab, "m1", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    lab.make_topics(a=6)
    assert beat(lab, "m1", 2).member_epoch == 3
    assert beat(lab, "m1", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(lab, "m2", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(lab, "m1", LEAVES).member_epoch == LEAVES
    assert beat(lab, "m1", LEAVES).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.mission("SHR-3")
def test_a_full_group_admits_nobody() -> None:
    lab = GroupLab(share=ShareGroupConfig(max_size=1))
    lab.make_topics(a=1)
    join(lab, "m1")
    assert join(lab, "m2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(lab, "m1").error_code == ErrorCode.NONE
    lab.tasks.drop_states()


@pytest.mark.mission("SHR-3")
def test_groups_of_other_types_stay_what_they_are(lab: GroupLab) -> None:
    join(lab)
    (joined,) = lab.join("")
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (refused,) = lab.consumer_beat("c1", JOINS, rebalance_timeout_ms=1, owned={}, topics=("a",))
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert set(lab.commit({("a", 0): 5}).values()) == {ErrorCode.GROUP_ID_NOT_FOUND}
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        lab.coordinator.delete_offsets(GROUP, [TopicPartition("a", 0)], lambda _: None)
    lab.commit({("a", 0): 5}, group_id="classic")
    (other,) = lab.share_beat("m1", JOINS, group_id="classic", topics=("a",))
    assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert other.error_message == "Group classic is not a share group."
    lab.expire()
    assert group_of(lab).epoch == 1


@pytest.mark.mission("SHR-8")
def test_the_times_of_a_group_take_the_place_of_the_brokers(lab: GroupLab) -> None:
    broker = BROKER_CONFIG.parse({"zookeeper.connect": "z:1"})
    given = {"share.heartbeat.interval.ms": "7000", "share.session.timeout.ms": "50000"}
    join(lab)
    lab.settings[GROUP] = view_of(GroupSettings, group_values(given, broker))
    assert beat(lab, "m1", 1).heartbeat_interval_ms == 7000
    lab.clock.advance(CONFIG.session_timeout_ms + 1)
    assert beat(lab, "m1", 1).error_code == ErrorCode.NONE
    lab.clock.advance(50_001)
    assert beat(lab, "m1", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# ---- offsets


@pytest.mark.mission("SHR-4")
async def test_offsets_are_described_with_their_lag(lab: GroupLab) -> None:
    offsets, missing = lab.coordinator.share_offsets, TopicPartition("b", 0)
    assert await offsets.describe(GROUP, None) == {}
    assert await offsets.describe(GROUP, [missing]) == {missing: SharePartitionOffset()}
    join(lab)
    await lab.settle_states()
    found = await offsets.describe(GROUP, None)
    assert set(found.values()) == {SharePartitionOffset(-1, 7, -1)}
    where = TopicPartition("a", 2)
    lab.persister.states[GROUP, key(lab, 2)] = InitialState(1, 10)
    lab.persister.complete, lab.end_offsets.end = 3, 25
    assert await offsets.describe(GROUP, [where]) == {where: SharePartitionOffset(10, 7, 12)}
    lab.end_offsets.end = ErrorCode.LEADER_NOT_AVAILABLE
    found = await offsets.describe(GROUP, [where])
    assert found[where].error is ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.mission("SHR-4")
async def test_offsets_of_a_group_without_members_are_altered(lab: GroupLab) -> None:
    offsets = lab.coordinator.share_offsets
    wanted = {TopicPartition("a", 1): 9, TopicPartition("a", 4): 0, TopicPartition("b", 0): 0}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = await offsets.alter(GROUP, wanted)
    assert list(errors.values()) == [ErrorCode.NONE, unknown, unknown]
    assert lab.persister.states == {(GROUP, key(lab, 1)): InitialState(0, 9)}
    assert group_of(lab).initialized == {lab.image.topic_ids["a"]: frozenset({1})}
    join(lab)
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        await offsets.alter(GROUP, wanted)
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        await offsets.alter("", wanted)


@pytest.mark.mission("SHR-4")
async def test_a_request_for_unknown_topics_makes_no_group(lab: GroupLab) -> None:
    await lab.coordinator.share_offsets.alter(GROUP, {TopicPartition("b", 0): 1})
    assert lab.find_share_group() is None


@pytest.mark.mission("SHR-4")
async def test_offsets_of_topics_are_deleted(lab: GroupLab) -> None:
    offsets = lab.coordinator.share_offsets
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        await offsets.delete(GROUP, ["a"])
    lab.make_topics(a=2, b=1, c=1)
    await offsets.alter(GROUP, {TopicPartition("a", 0): 1, TopicPartition("b", 0): 1})
    lab.persister.refusals[key(lab, 0, "b")] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = await offsets.delete(GROUP, ["a", "b", "c", "d"])
    codes = {topic: error and error.code for topic, (_, error) in found.items()}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert codes == {"a": None, "b": refused, "c": unknown, "d": unknown}
    states = group_of(lab).states
    assert states is not None
    assert states.initialized == {}
    assert states.deleting == {lab.image.topic_ids["b"]}
    lab.persister.refusals.clear()
    assert (await offsets.delete(GROUP, ["b"]))["b"][1] is None
    assert lab.persister.states == {}


@pytest.mark.mission("SHR-4")
async def test_deleted_topics_are_forgotten(lab: GroupLab) -> None:
    lab.make_topics(a=2, b=1)
    await lab.coordinator.share_offsets.alter(
        GROUP, {TopicPartition("a", 0): 1, TopicPartition("b", 0): 1}
    )
    lab.make_topics(b=1)
    lab.coordinator.partitions_deleted([TopicPartition("a", 0), TopicPartition("a", 1)])
    assert group_of(lab).initialized == {lab.image.topic_ids["b"]: frozenset({0})}


@pytest.mark.mission("SHR-4")
async def test_a_topic_whose_deletion_was_missed_raises_no_epoch(lab: GroupLab) -> None:
    lab.make_topics(a=2, b=1)
    join(lab, "m1", "a", "b")
    await lab.settle_states()
    beat(lab, "m1", 1)
    lab.make_topics(b=1)
    epoch = beat(lab, "m1", 2).member_epoch
    assert (epoch, beat(lab, "m1", epoch).member_epoch) == (3, 3)


# ---- deletion


async def delete(lab: GroupLab) -> Mapping[str, ErrorCode]:
    found: list[Mapping[str, ErrorCode]] = []
    lab.coordinator.delete_groups([GROUP], found.append)
    await lab.settle_states()
    return found[0]


@pytest.mark.mission("SHR-5")
async def test_a_group_is_deleted_with_its_states(lab: GroupLab) -> None:
    join(lab)
    await lab.settle_states()
    assert await delete(lab) == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    beat(lab, "m1", LEAVES)
    lab.persister.refusals[key(lab, 0)] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await delete(lab) == {GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert group_of(lab).initialized == {}
    lab.persister.refusals.clear()
    assert await delete(lab) == {GROUP: ErrorCode.NONE}
    assert lab.persister.states == {}
    assert await delete(lab) == {GROUP: ErrorCode.GROUP_ID_NOT_FOUND}
    lab.resign()
    lab.elect()
    assert lab.find_share_group() is None


@pytest.mark.mission("SHR-5")
async def test_a_member_that_joins_meanwhile_keeps_the_group(lab: GroupLab) -> None:
    join(lab)
    await lab.settle_states()
    beat(lab, "m1", LEAVES)
    found: list[Mapping[str, ErrorCode]] = []
    lab.coordinator.delete_groups([GROUP], found.append)
    join(lab)
    await lab.settle_states()
    assert found == [{GROUP: ErrorCode.NON_EMPTY_GROUP}]
    assert group_of(lab).initialized


@pytest.mark.mission("SHR-3")
def test_groups_are_described_and_listed(lab: GroupLab) -> None:
    join(lab)
    row = lab.coordinator.describe_share_group(GROUP)
    assert (row.group_state, row.assignor_name, row.members[0].subscribed_topic_names) == (
        "Stable",
        "simple",
        ["a"],
    )
    assert lab.coordinator.describe_share_group("x").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert lab.coordinator.describe_share_group("").error_code == ErrorCode.INVALID_GROUP_ID
    _, listed = lab.coordinator.list_groups([], ["Share"])
    assert [(g.group_id, g.protocol_type, g.group_state) for g in listed] == [
        (GROUP, "share", "Stable")
    ]
