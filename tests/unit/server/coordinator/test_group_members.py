"""The requests of group members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

import pytest

from minikafka.core.coordinator_shard import CoordinatorResult
from minikafka.core.group.group import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    VALID_PREVIOUS_STATES,
    GroupConfig,
    GroupState,
)
from minikafka.core.group.liveness import heartbeat_expired
from minikafka.core.group.rebalance import remove_and_rebalance
from minikafka.core.group.result import CheckJoin, GroupResult, HeartbeatTimer, JoinTimer
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.leave_group import MemberIdentity, MemberResponse
from tests.support.coordinator.group_lab import GROUP, GroupLab

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab()


def test_state_transitions_are_those_of_kafka() -> None:
    state = GroupState
    assert VALID_PREVIOUS_STATES[state.PREPARING_REBALANCE] == {
        state.STABLE,
        state.COMPLETING_REBALANCE,
        state.EMPTY,
    }
    assert VALID_PREVIOUS_STATES[state.COMPLETING_REBALANCE] == {state.PREPARING_REBALANCE}
    assert VALID_PREVIOUS_STATES[state.STABLE] == {state.COMPLETING_REBALANCE}
    assert VALID_PREVIOUS_STATES[state.EMPTY] == {state.PREPARING_REBALANCE}
    assert VALID_PREVIOUS_STATES[state.DEAD] == set(state)


@pytest.mark.mission("ASG-1", "R-3")
def test_only_the_leader_receives_the_list_of_members(lab: GroupLab) -> None:
    first, second = lab.join(new_id="a"), lab.join(new_id="b")
    assert not first, "the initial delay"
    lab.clock.advance(6_000)
    assert (first[0].leader, second[0].leader) == ("a", "a")
    assert [member.member_id for member in first[0].members] == ["a", "b"]
    assert second[0].members == []
    assert first[0].protocol_name == "range"
    assert first[0].generation_id == second[0].generation_id == 1
    waiting = lab.sync("b", 1)
    assert not waiting, "the leader has not assigned yet"
    assert lab.sync("a", 1, {"a": b"x", "b": b"y", "stranger": b"z"})[0].assignment == b"x"
    assert waiting[0].assignment == b"y"
    assert lab.group.state is GroupState.STABLE


@pytest.mark.mission("DOP-10")
def test_the_initial_delay_is_extended_while_members_join(lab: GroupLab) -> None:
    responses = [lab.join(new_id="a", rebalance_ms=7_000)]
    for name in "bcd":
        lab.clock.advance(2_000)
        responses.append(lab.join(new_id=name, rebalance_ms=7_000))
    assert not any(responses), "3 s, extended at 3 s and again at 6 s"
    lab.clock.advance(1_000)
    assert all(responses), "but no longer than the rebalance time-out of 7 s"


def test_the_joining_phase_ends_when_all_have_joined(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    fresh = lab.join(new_id="c")
    assert lab.beat("a", generation) is ErrorCode.REBALANCE_IN_PROGRESS
    lab.join("a")
    assert not fresh
    lab.join("b")
    assert fresh[0].generation_id == generation + 1


@pytest.mark.mission("DOP-10")
def test_a_member_that_does_not_rejoin_in_time_is_removed(lab: GroupLab) -> None:
    lab.stable("a", "b", rebalance_ms=8_000)
    fresh = lab.join(new_id="c", rebalance_ms=8_000)
    lab.join("a", rebalance_ms=8_000)
    lab.clock.advance(8_000)
    assert fresh, "by the rebalance time-out, before b's session of 10 s is over"
    assert list(lab.group.members) == ["a", "c"]
    assert lab.group.last_eviction is not None
    assert lab.group.last_eviction.member_id == "b"
    assert "rebalance timeout" in lab.group.last_eviction.reason


def test_a_member_that_has_joined_becomes_leader(lab: GroupLab) -> None:
    lab.stable("a", "b", rebalance_ms=8_000)
    response = lab.join("b", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff", rebalance_ms=8_000)
    lab.clock.advance(8_000)
    assert response[0].leader == "b"


@pytest.mark.mission("HB-4")
def test_a_missed_session_deadline_removes_the_member_and_is_logged(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    for _ in range(4):
        lab.clock.advance(3_000)
        assert lab.beat("a", generation) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert [
        facts["message"] for _, event, facts in lab.events.events if event == "member_failed"
    ] == [f"Member b in group {GROUP} has failed, removing it from the group"]
    assert list(lab.group.members) == ["a"]
    assert lab.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.mission("HB-7")
def test_the_reason_of_the_last_eviction_is_kept(lab: GroupLab) -> None:
    lab.stable("a")
    lab.clock.advance(10_000)
    eviction = lab.group.last_eviction
    assert eviction is not None
    assert (eviction.member_id, eviction.reason) == ("a", "session timed out")
    assert lab.group.state is GroupState.EMPTY


@pytest.mark.mission("HB-2")
def test_a_heartbeat_renews_the_deadline(lab: GroupLab) -> None:
    generation, _ = lab.stable("a")
    for _ in range(20):
        lab.clock.advance(9_000)
        assert lab.beat("a", generation) is ErrorCode.NONE
        assert lab.heartbeats.purgatory.delayed == 1
    lab.clock.advance(9_999)
    assert lab.group.members
    lab.clock.advance(1)
    assert not lab.group.members


@pytest.mark.mission("HB-5")
@pytest.mark.parametrize("state", list(GroupState))
def test_effect_of_a_removal_in_each_state(state: GroupState) -> None:
    lab = GroupLab()
    lab.stable("a", "b")
    group = lab.group
    group.state = state
    result: GroupResult[None] = CoordinatorResult(None)
    remove_and_rebalance(group, group.members["b"], "test", GroupConfig(), 0, result)
    assert list(group.members) == ["a"]
    kinds = {type(timer) for timer in result.effects}
    prepares = state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
    assert (JoinTimer in kinds) == prepares
    assert (CheckJoin in kinds) == (state is GroupState.PREPARING_REBALANCE)
    if not prepares:
        assert group.state is state


def test_an_outdated_timer_removes_no_member(lab: GroupLab) -> None:
    lab.stable("a")
    member = lab.group.members["a"]
    result: GroupResult[None] = CoordinatorResult(None)
    timer = HeartbeatTimer(lab.group, "a", member.beats - 1, 10_000)
    heartbeat_expired(timer, GroupConfig(), 0, result)
    assert list(lab.group.members) == ["a"]


def test_the_sync_time_out_removes_members_that_have_not_synced(lab: GroupLab) -> None:
    options = {"session_ms": 60_000, "rebalance_ms": 9_000}
    first = lab.join(new_id="a", **options)  # type: ignore[arg-type]
    lab.join(new_id="b", **options)  # type: ignore[arg-type]
    lab.clock.advance(6_000)
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    assert first[0].generation_id == 1
    lab.clock.advance(8_999)
    assert list(lab.group.members) == ["a", "b"]
    lab.clock.advance(1)
    assert list(lab.group.members) == ["a"]
    assert lab.group.state is GroupState.PREPARING_REBALANCE


def test_member_id_required(lab: GroupLab) -> None:
    first = lab.join(new_id="a", must_know_id=True)[0]
    assert (first.error_code, first.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert list(lab.group.pending_members) == ["a"]
    response = lab.join("a", must_know_id=True)
    lab.clock.advance(3_000)
    assert response[0].error_code == ErrorCode.NONE
    assert lab.heartbeats.purgatory.delayed == 1


def test_an_unused_pending_id_expires_and_does_not_block_the_rebalance(lab: GroupLab) -> None:
    lab.stable("a")
    lab.join(new_id="ghost", must_know_id=True)
    response = lab.join("a")  # the leader causes a rebalance
    assert not response, "the pending member ghost may still join"
    lab.clock.advance(10_000)
    assert response[0].generation_id == 2
    assert "pending_member_expired" in lab.said()


def test_a_pending_member_may_leave(lab: GroupLab) -> None:
    lab.join(new_id="a", must_know_id=True)
    assert lab.coordinator.leave(GROUP, [MemberIdentity("a")])[0].error_code == ErrorCode.NONE
    assert lab.heartbeats.purgatory.delayed == 0


def test_a_new_member_with_a_pending_join_is_removed_after_five_minutes() -> None:
    lab = GroupLab()
    lab.stable("a", session_ms=1_800_000, rebalance_ms=1_800_000)
    response = lab.join(new_id="b", session_ms=10_000, rebalance_ms=1_800_000)
    lab.clock.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert not response
    lab.clock.advance(1)
    assert response[0].error_code == UNKNOWN


@pytest.mark.mission("HB-1")
@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_session_time_outs_have_bounds(lab: GroupLab, session_ms: int) -> None:
    response = lab.join(session_ms=session_ms)[0]
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.mission("HB-1")
@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_bounds_of_session_time_outs_are_allowed(lab: GroupLab, session_ms: int) -> None:
    lab.stable("a", session_ms=session_ms)
    lab.clock.advance(session_ms - 1)
    assert list(lab.group.members) == ["a"]
    lab.clock.advance(1)
    assert not lab.group.members


def test_group_max_size() -> None:
    lab = GroupLab(group_max_size=2)
    generation, _ = lab.stable("a", "b")
    refused = lab.join(new_id="c")[0]
    assert (refused.error_code, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert lab.group.state is GroupState.STABLE
    again = lab.join("a")  # a current member may join again
    lab.join("b")
    assert again[0].generation_id == generation + 1


def test_a_loaded_group_that_is_too_large_has_to_rebalance() -> None:
    lab = GroupLab()
    lab.stable("a", "b", "c")
    smaller = GroupLab(elect=False, group_max_size=2)
    smaller.log.batches, smaller.log.end = lab.log.batches, lab.log.end
    smaller.elect()
    assert smaller.group.state is GroupState.PREPARING_REBALANCE
    smaller.join("a")
    smaller.join("b")
    last = smaller.join("c")[0]
    assert last.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert sorted(smaller.group.members) == ["a", "b"]


def test_protocols_are_voted_for(lab: GroupLab) -> None:
    responses = [
        lab.join(new_id="a", protocols=["range", "sticky"]),
        lab.join(new_id="b", protocols=["sticky", "range"]),
        lab.join(new_id="c", protocols=["sticky", "odd", "range"]),
    ]
    lab.clock.advance(6_000)
    assert {response[0].protocol_name for response in responses} == {"sticky"}
    assert lab.join(new_id="d", protocols=["odd"])[0].error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    other_type = lab.join(new_id="e", protocol_type="connect")[0]
    assert other_type.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_refused_first_join_leaves_no_group(lab: GroupLab) -> None:
    assert lab.join(protocols=[])[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.join(protocol_type="")[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert lab.find_group(GROUP) is None
    assert lab.coordinator.describe(GROUP).group_state == "Dead"


def test_a_repeated_join_gets_the_generation_again(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    again = lab.join("b")[0]
    assert (again.generation_id, again.members) == (generation, [])
    assert lab.group.state is GroupState.STABLE


def test_requests_with_unknown_members(lab: GroupLab) -> None:
    assert lab.join("stranger")[0].error_code == UNKNOWN
    assert lab.sync("stranger", 1)[0].error_code == UNKNOWN
    assert lab.beat("stranger", 1) is UNKNOWN
    (unknown,) = lab.coordinator.leave(GROUP, [MemberIdentity("stranger", "i")])
    assert unknown == MemberResponse("stranger", "i", UNKNOWN)
    generation, _ = lab.stable("a")
    assert lab.join("stranger")[0].error_code == UNKNOWN
    assert lab.sync("stranger", generation)[0].error_code == UNKNOWN
    assert lab.beat("stranger", generation) is UNKNOWN
    assert lab.beat("a", generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert lab.sync("a", generation - 1)[0].error_code == ErrorCode.ILLEGAL_GENERATION
    wrong = lab.sync("a", generation, protocol_type="connect", protocol_name="range")[0]
    assert wrong.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong = lab.sync("a", generation, protocol_type="consumer", protocol_name="other")[0]
    assert wrong.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    left = lab.coordinator.leave(GROUP, [MemberIdentity("stranger"), MemberIdentity("", "nobody")])
    assert [response.error_code for response in left] == [UNKNOWN, UNKNOWN]


def test_the_empty_group_id_has_no_members(lab: GroupLab) -> None:
    invalid = ErrorCode.INVALID_GROUP_ID
    assert lab.join(group_id="")[0].error_code == invalid
    assert lab.coordinator.heartbeat("", "m", None, 1) is invalid
    with pytest.raises(KafkaError):
        lab.coordinator.leave("", [])


def test_leaving_rebalances_the_others(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    assert lab.coordinator.leave(GROUP, [MemberIdentity("a")])[0].error_code == ErrorCode.NONE
    assert lab.group.leader_id == "b"
    assert lab.beat("b", generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.join("b")[0].generation_id == generation + 1


def test_a_removed_member_gets_a_response_to_its_parked_request(lab: GroupLab) -> None:
    lab.join(new_id="a")
    lab.join(new_id="b")
    lab.clock.advance(6_000)
    waiting = lab.sync("b", 1)
    lab.coordinator.leave(GROUP, [MemberIdentity("b")])
    assert waiting[0].error_code == UNKNOWN


def test_a_leader_that_dies_between_join_and_sync(lab: GroupLab) -> None:
    lab.join(new_id="a")
    lab.join(new_id="b")
    lab.clock.advance(6_000)
    waiting = lab.sync("b", 1)
    lab.clock.advance(10_000)  # a's session
    assert waiting[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.join("b")[0].leader == "b"
    assert lab.sync("b", 2, {"b": b"all"})[0].assignment == b"all"


@pytest.mark.parametrize(
    ("refusal", "received"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_failed_assignment_restarts_the_rebalance(
    lab: GroupLab, refusal: ErrorCode, received: ErrorCode
) -> None:
    lab.join(new_id="a")
    lab.clock.advance(3_000)
    lab.log.refusal = refusal
    assert lab.sync("a", 1, {"a": b"x"})[0].error_code == received
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    assert lab.group.members["a"].assignment == b""


def test_an_assignment_waits_until_it_is_replicated(lab: GroupLab) -> None:
    lab.join(new_id="a")
    lab.clock.advance(3_000)
    lab.log.held = True
    response = lab.sync("a", 1, {"a": b"x"})
    assert not response
    assert lab.group.state is GroupState.COMPLETING_REBALANCE
    lab.log.release()
    assert response[0].assignment == b"x"


def test_five_hundred_members(lab: GroupLab) -> None:
    names = [f"m{n}" for n in range(500)]
    generation, _ = lab.stable(*names)
    assert lab.group.state is GroupState.STABLE
    assert lab.heartbeats.purgatory.delayed == 500
    assert all(lab.beat(name, generation) is ErrorCode.NONE for name in names)
    assert lab.heartbeats.purgatory.delayed == 500
