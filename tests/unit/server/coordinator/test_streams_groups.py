"""Streams groups (KIP-1071) at the coordinator: sessions, delays, failed appends, loading."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.coordinator_shard import InTransaction
from minikafka.core.group.group import Group
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.core.group.streams.group import StreamsGroup, StreamsGroupState
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from minikafka.protocol.messages.streams_topology import (
    Subtopology,
    TaskIds,
    TopicInfo,
    UserEndpoint,
)
from tests.support.coordinator.group_lab import GROUP, PARTITION, GroupLab, MemoryLog

SESSION_MS = StreamsGroupConfig().session_timeout_ms
BEAT_MS = StreamsGroupConfig().heartbeat_interval_ms
DELAY_MS = StreamsGroupConfig().initial_rebalance_delay_ms
REVOCATION_MS = 20_000
TOPOLOGY = Topology(0, [Subtopology("0", ["a"])])
STATEFUL = Topology(0, [Subtopology("0", ["a"], [], [TopicInfo("c")])])


def make_lab(delay_ms: int = 0, log: MemoryLog | None = None, **facts: Any) -> GroupLab:
    config = StreamsGroupConfig(initial_rebalance_delay_ms=delay_ms, **facts)
    lab = GroupLab(log=log, streams=config)
    lab.make_topics(a=4)
    return lab


@pytest.fixture
def lab() -> GroupLab:
    return make_lab()


def join(
    lab: GroupLab, member_id: str = "m1", topology: Topology = TOPOLOGY, **facts: Any
) -> StreamsGroupHeartbeatResponse:
    facts = {
        "rebalance_timeout_ms": REVOCATION_MS,
        "process_id": f"of {member_id}",
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        **facts,
    }
    (result,) = lab.streams_beat(member_id, 0, topology=topology, **facts)
    return result.response


def beat(lab: GroupLab, member_id: str, epoch: int, **facts: Any) -> StreamsGroupHeartbeatResponse:
    (result,) = lab.streams_beat(member_id, epoch, **facts)
    return result.response


def own(lab: GroupLab, member_id: str, epoch: int, *tasks: int) -> StreamsGroupHeartbeatResponse:
    rows = [TaskIds("0", list(tasks))] if tasks else []
    return beat(lab, member_id, epoch, active_tasks=rows, standby_tasks=[], warmup_tasks=[])


def tasks_of(response: StreamsGroupHeartbeatResponse) -> list[int] | None:
    rows = response.active_tasks
    return None if rows is None else [p for row in rows for p in row.partitions]


def codes_of(response: StreamsGroupHeartbeatResponse) -> list[int]:
    return [status.status_code for status in response.status or ()]


def group_of(lab: GroupLab) -> StreamsGroup:
    context = lab.coordinator.runtime.active_in(PARTITION)
    assert context is not None
    group = context.shard.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    return group


@pytest.mark.mission("STR-3")
def test_a_silent_member_is_removed_when_its_session_ends(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    own(lab, "m1", 2, 0, 1, 2, 3)
    epoch = own(lab, "m1", 2, 0, 1).member_epoch
    for _ in range(SESSION_MS // BEAT_MS):
        epoch = beat(lab, "m1", epoch).member_epoch
        lab.clock.advance(BEAT_MS)
    assert set(group_of(lab).members) == {"m1"}
    assert "member_removed" in lab.said()
    assert beat(lab, "m2", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert tasks_of(beat(lab, "m1", epoch)) == [0, 1, 2, 3]


@pytest.mark.mission("STR-3")
def test_a_member_that_does_not_revoke_is_removed(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    assert tasks_of(beat(lab, "m1", 2)) == [0, 1]
    for _ in range(REVOCATION_MS // BEAT_MS):
        beat(lab, "m1", 2)
        lab.clock.advance(BEAT_MS)
    assert set(group_of(lab).members) == {"m2"}


@pytest.mark.mission("STR-4")
def test_the_first_assignment_waits_for_more_members() -> None:
    lab = make_lab(DELAY_MS)
    first = join(lab, "m1")
    assert (first.member_epoch, tasks_of(first)) == (1, [])
    assert codes_of(first) == [StatusCode.ASSIGNMENT_DELAYED]
    assert codes_of(join(lab, "m2")) == [StatusCode.ASSIGNMENT_DELAYED]
    assert group_of(lab).state is StreamsGroupState.ASSIGNING
    lab.clock.advance(DELAY_MS)
    assert group_of(lab).target_epoch == group_of(lab).epoch
    for member_id in ("m1", "m2"):
        response = beat(lab, member_id, 1)
        assert len(tasks_of(response) or ()) == 2
        assert codes_of(response) == []
    assert group_of(lab).state is StreamsGroupState.STABLE


@pytest.mark.mission("STR-4")
def test_a_group_that_ends_does_not_wait_on() -> None:
    lab = make_lab(DELAY_MS)
    join(lab, "m1")
    beat(lab, "m1", -1)
    lab.clock.advance(DELAY_MS)
    assert group_of(lab).target_epoch == 0
    assert codes_of(join(lab, "m2")) == [StatusCode.ASSIGNMENT_DELAYED]
    lab.resign()
    lab.elect()
    assert tasks_of(beat(lab, "m2", 1)) == [0, 1, 2, 3]  # a new coordinator does not wait


@pytest.mark.mission("STR-5")
def test_internal_topics_are_returned_until_they_exist(lab: GroupLab) -> None:
    (result,) = lab.streams_beat(
        *("m1", 0),
        topology=STATEFUL,
        rebalance_timeout_ms=1,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    assert {name: topic.partitions for name, topic in result.missing.items()} == {"c": 4}
    assert codes_of(result.response) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert group_of(lab).state is StreamsGroupState.NOT_READY
    lab.make_topics(a=4, c=4)
    (result,) = lab.streams_beat("m1", 2)
    assert not result.missing
    assert tasks_of(result.response) == [0, 1, 2, 3]
    assert group_of(lab).state is StreamsGroupState.STABLE


def test_the_source_topic_may_grow_no_more_than_its_changelog(lab: GroupLab) -> None:
    lab.make_topics(a=4, c=4)
    join(lab, "m1", STATEFUL)
    lab.make_topics(a=5, c=4)
    assert codes_of(beat(lab, "m1", 2)) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


@pytest.mark.mission("STR-6")
def test_an_endpoint_has_the_partitions_of_its_member(lab: GroupLab) -> None:
    join(lab, "m1", user_endpoint=UserEndpoint("h1", 1))
    response = beat(lab, "m1", 2, endpoint_information_epoch=-1)
    rows = response.partitions_by_user_endpoint
    assert rows is not None
    (row,) = rows
    assert row.user_endpoint == UserEndpoint("h1", 1)
    assert [(each.topic, each.partitions) for each in row.active_partitions] == [
        ("a", [0, 1, 2, 3])
    ]
    epoch = response.endpoint_information_epoch
    again = beat(lab, "m1", 2, endpoint_information_epoch=epoch)
    assert again.partitions_by_user_endpoint is None


def test_a_member_ends_all(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    beat(lab, "m1", 2, shutdown_application=True)
    assert codes_of(beat(lab, "m2", 3)) == [StatusCode.SHUTDOWN_APPLICATION]
    for member_id in ("m1", "m2"):
        beat(lab, member_id, -1)
    assert codes_of(join(lab, "m3")) == []


def test_a_full_group_takes_no_member() -> None:
    lab = make_lab(max_size=1)
    join(lab, "m1")
    assert join(lab, "m2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.mission("STR-7")
def test_an_update_that_is_not_in_the_log_is_taken_back(lab: GroupLab) -> None:
    join(lab, "m1")
    before = _values(group_of(lab))
    lab.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert join(lab, "m2").error_code == ErrorCode.NOT_COORDINATOR
    assert _values(group_of(lab)) == before
    lab.log.refusal = None
    assert join(lab, "m2").member_epoch == 3


@pytest.mark.mission("STR-7")
def test_a_group_whose_first_update_fails_is_forgotten(lab: GroupLab) -> None:
    lab.commit({("a", 0): 5})
    lab.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    join(lab, "m1")
    lab.log.refusal = None
    found = lab.find_group(GROUP)
    assert isinstance(found, Group)
    assert lab.committed() == {("a", 0): 5}


def test_a_streams_group_keeps_the_offsets_of_the_classic_one(lab: GroupLab) -> None:
    lab.commit({("a", 0): 5})
    assert join(lab, "m1").error_code == ErrorCode.NONE
    assert lab.committed() == {("a", 0): 5}
    beat(lab, "m1", -1)
    lab.commit({("a", 1): 6})
    lab.resign()
    lab.elect()
    assert lab.committed() == {("a", 0): 5, ("a", 1): 6}


def test_a_group_of_another_type_is_no_streams_group(lab: GroupLab) -> None:
    lab.consumer_beat("c1", 0, topics=("a",), rebalance_timeout_ms=1, owned={})
    assert join(lab, "m1").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (refused,) = lab.consumer_beat(
        "c1", 0, group_id="other", topics=("a",), rebalance_timeout_ms=1, owned={}
    )
    assert refused.error_code == ErrorCode.NONE


@pytest.mark.mission("STR-8")
def test_a_commit_of_an_old_epoch_counts_if_the_task_is_as_old(lab: GroupLab) -> None:
    join(lab, "m1")
    join(lab, "m2")
    beat(lab, "m1", 2)
    own(lab, "m1", 2, 0, 1)
    beat(lab, "m2", 3)
    kept, lost = TopicPartition("a", 0), TopicPartition("a", 3)
    assert lab.commit({("a", 0): 1}, "m1", 2) == {kept: ErrorCode.NONE}
    assert lab.commit({("a", 3): 1}, "m1", 2) == {lost: ErrorCode.STALE_MEMBER_EPOCH}
    assert lab.commit({("b", 0): 1}, "m1", 2) == {
        TopicPartition("b", 0): ErrorCode.STALE_MEMBER_EPOCH
    }
    assert lab.commit({("a", 3): 1}, "m2", 2) == {lost: ErrorCode.STALE_MEMBER_EPOCH}
    transaction = InTransaction(7, 0, None)
    fenced = lab.commit({("a", 3): 1}, "m1", 2, transaction=transaction)
    assert fenced == {lost: ErrorCode.ILLEGAL_GENERATION}


steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "own", "beat", "leave", "grow", "refuse", "wait"]),
        st.sampled_from(["m1", "m2", "m3"]),
    ),
    max_size=25,
)


@pytest.mark.mission("STR-7")
@settings(max_examples=60)
@given(steps)
def test_a_new_coordinator_loads_what_the_old_one_had(story: list[tuple[str, str]]) -> None:
    lab, topics = make_lab(standby_replicas=1), 2
    lab.make_topics(a=topics, c=topics)
    told: dict[str, StreamsGroupHeartbeatResponse] = {}
    for step, member_id in story:
        lab.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER if step == "refuse" else None
        epoch = told[member_id].member_epoch if member_id in told else 0
        if step == "grow":
            topics += 1
            lab.make_topics(a=topics, c=topics)
        elif step == "wait":
            lab.clock.advance(SESSION_MS // 3)
        elif step == "leave":
            beat(lab, member_id, -1)
            told.pop(member_id, None)
        elif member_id not in told or step == "join":
            told[member_id] = join(lab, member_id, STATEFUL)
        elif step == "own":
            kinds = ("active_tasks", "standby_tasks", "warmup_tasks")
            owned = {kind: getattr(told[member_id], kind) or [] for kind in kinds}
            _remember(told, member_id, beat(lab, member_id, epoch, **owned))
        else:
            _remember(told, member_id, beat(lab, member_id, epoch))
    lab.log.refusal = None
    context = lab.coordinator.runtime.active_in(PARTITION)
    assert context is not None
    if GROUP not in context.shard.groups:
        return
    before = _values(group_of(lab))
    lab.resign()
    lab.elect()
    assert _values(group_of(lab)) == before


def _remember(
    told: dict[str, StreamsGroupHeartbeatResponse],
    member_id: str,
    response: StreamsGroupHeartbeatResponse,
) -> None:
    """Keep what a member has: a response without tasks does not change them."""
    if response.error_code:
        del told[member_id]
        return
    if response.active_tasks is None:
        for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
            setattr(response, kind, getattr(told[member_id], kind))
    told[member_id] = response


def _values(group: StreamsGroup) -> dict[str, Any]:
    """Return the values of all records, and the tasks as they are held."""
    return {repr(key): repr(group.value_of(key)) for key in group.tombstone_keys()}
