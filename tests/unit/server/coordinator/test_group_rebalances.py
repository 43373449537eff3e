"""Rebalances: joining phases, leaders, responses and stored generations."""

import pytest

from minikafka.core.group.group import ClassicGroupMember, GroupState
from minikafka.core.group.records import GroupStored
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity
from tests.support.coordinator.group_lab import GROUP, GroupLab

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
PATIENT = {"session_ms": 60_000, "rebalance_ms": 60_000}


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab()


def joined(lab: GroupLab, *names: str, **options: int) -> list[list[JoinGroupResponse]]:
    """A group whose members have joined and not synced; the first one leads."""
    responses = [lab.join(new_id=name, **options) for name in names]  # type: ignore[arg-type]
    lab.clock.advance(6_000)
    assert all(responses)
    return responses


def leave(lab: GroupLab, name: str, reason: str | None = None) -> None:
    assert lab.coordinator.leave(GROUP, [MemberIdentity(name, None, reason)])[0].error_code == 0


def facts_of(lab: GroupLab, event: str) -> list[dict[str, object]]:
    return [facts for _, said, facts in lab.events.events if said == event]


# -- requests that are repeated


def test_a_join_repeated_before_the_sync_gets_the_generation_again(lab: GroupLab) -> None:
    joined(lab, "a", "b")
    assert [member.member_id for member in lab.join("a")[0].members] == ["a", "b"]
    again = lab.join("b")[0]
    assert (again.generation_id, again.members) == (1, [])
    assert lab.group.state is GroupState.COMPLETING_REBALANCE


def test_a_repeated_join_replaces_the_parked_one(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    first, second = lab.join("a"), lab.join("a")
    assert (first[0].error_code, first[0].member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, "a")
    assert not second
    assert lab.group.awaiting_join == 1
    third = lab.join("b")
    assert second[0].generation_id == third[0].generation_id == generation + 1
    assert len(first) == len(second) == 1


def test_a_repeated_sync_replaces_the_parked_one(lab: GroupLab) -> None:
    joined(lab, "a", "b")
    first, second = lab.sync("b", 1), lab.sync("b", 1)
    assert [response.error_code for response in first] == [ErrorCode.REBALANCE_IN_PROGRESS]
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    assert [response.assignment for response in second] == [b"y"]
    assert len(first) == 1


def test_a_static_member_cannot_use_a_pending_id(lab: GroupLab) -> None:
    lab.join(new_id="a", must_know_id=True)
    refused = lab.join("a", instance="i")[0]
    assert (refused.error_code, refused.member_id) == (UNKNOWN, "a")
    assert not lab.group.members


def test_a_member_may_change_its_protocols_and_times(lab: GroupLab) -> None:
    lab.stable("a")
    again = lab.join("a", protocols=["sticky", "range"], session_ms=20_000, rebalance_ms=30_000)
    assert again[0].protocol_name == "sticky"
    assert lab.group.rebalance_timeout_ms == 30_000
    lab.sync("a", 2, {"a": b"x"})
    lab.clock.advance(19_999)
    assert lab.group.members
    lab.clock.advance(1)
    assert not lab.group.members


# -- the joining phase


def test_the_initial_delay_of_an_emptied_group_is_not_extended(lab: GroupLab) -> None:
    """Kafka extends the initial delay of the first generation only."""
    lab.stable("a")
    leave(lab, "a")
    assert lab.group.state is GroupState.EMPTY
    responses = [lab.join(new_id="b")]
    lab.clock.advance(2_000)
    responses.append(lab.join(new_id="c"))
    lab.clock.advance(999)
    assert not any(responses)
    lab.clock.advance(1)
    assert all(responses)


def test_the_initial_delay_is_not_extended_beyond_the_rebalance_time_out(lab: GroupLab) -> None:
    responses = [lab.join(new_id="a", rebalance_ms=1_000)]
    lab.clock.advance(2_000)
    responses.append(lab.join(new_id="b", rebalance_ms=1_000))
    assert not any(responses)
    lab.clock.advance(1_000)
    assert all(responses)


def test_the_joining_phase_lasts_for_the_longest_rebalance_time_out(lab: GroupLab) -> None:
    lab.join(new_id="a", session_ms=60_000, rebalance_ms=8_000)
    lab.join(new_id="b", session_ms=60_000, rebalance_ms=20_000)
    lab.clock.advance(6_000)
    lab.sync("b", 1)
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    response = lab.join("a", session_ms=60_000, rebalance_ms=8_000)
    lab.clock.advance(19_999)
    assert not response
    lab.clock.advance(1)
    assert [member.member_id for member in response[0].members] == ["a"]
    assert facts_of(lab, "member_removed") == [
        {
            "group": GROUP,
            "member": "b",
            "reason": "did not rejoin within the rebalance timeout",
        }
    ]


def test_a_member_with_a_parked_sync_keeps_its_session(lab: GroupLab) -> None:
    joined(lab, "a", "b")
    waiting = lab.sync("b", 1)
    for _ in range(4):
        lab.clock.advance(5_000)
        assert lab.beat("a", 1) is ErrorCode.NONE
    assert list(lab.group.members) == ["a", "b"]
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    assert waiting[0].assignment == b"y"


def test_a_loaded_member_with_a_parked_join_keeps_its_session(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    lab.resign()
    lab.elect()
    response = lab.join("a")
    for _ in range(4):
        lab.clock.advance(5_000)
        assert lab.beat("b", generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(lab.group.members) == ["a", "b"]
    lab.join("b")
    assert response[0].generation_id == generation + 1


def test_a_member_that_left_before_syncing_does_not_block_the_group(lab: GroupLab) -> None:
    joined(lab, "a", "b", **PATIENT)
    leave(lab, "b")
    assert lab.rebalances.purgatory.delayed == 1, "the joining phase; no SyncGroup time-out"
    lab.join("a", **PATIENT)  # type: ignore[arg-type]
    assert lab.rebalances.purgatory.delayed == 1, "the sync of the next generation"
    lab.sync("a", 2, {"a": b"x"})
    lab.clock.advance(59_999)
    assert list(lab.group.members) == ["a"]
    assert lab.rebalances.purgatory.delayed == 0


def test_a_group_that_is_too_large_keeps_the_first_members_to_join() -> None:
    before = GroupLab()
    before.stable("a", "b", "c")
    lab = GroupLab(elect=False, group_max_size=2)
    lab.log.batches, lab.log.end = before.log.batches, before.log.end
    lab.elect()
    first = lab.join("a")
    lab.join("b")
    again = lab.join("a")
    assert first[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not again, "it has a place already"
    assert lab.join("c")[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [member.member_id for member in again[0].members] == ["a", "b"]
    assert lab.heartbeats.purgatory.delayed == 2, "c has no session"


# -- leaders


def test_a_member_that_is_not_the_first_stays_leader(lab: GroupLab) -> None:
    """A static leader that is away stays a member, but not the leader."""
    times = {"session_ms": 60_000, "rebalance_ms": 8_000}
    lab.join(new_id="away", instance="i", **times)  # type: ignore[arg-type]
    for name in "bc":
        lab.join(new_id=name, **times)  # type: ignore[arg-type]
    lab.clock.advance(6_000)
    assigned = {"away": b"x", "b": b"y", "c": b"z"}
    lab.sync("away", 1, assigned, instance="i")
    lab.sync("b", 1)
    lab.sync("c", 1)
    lab.join(new_id="d", **times)  # type: ignore[arg-type]
    responses = [lab.join(name, **times) for name in "bc"]  # type: ignore[arg-type]
    lab.clock.advance(8_000)
    assert [response[0].leader for response in responses] == ["b", "b"]
    assert [m.member_id for m in responses[0][0].members] == ["away", "b", "c", "d"]
    leave(lab, "c")
    assert lab.group.leader_id == "b"
    leave(lab, "b")
    assert lab.group.leader_id == "away"


# -- protocols


def test_a_protocol_that_not_all_members_support_is_not_selected(lab: GroupLab) -> None:
    first = lab.join(new_id="a", protocols=["odd", "range"])
    lab.join(new_id="b", protocols=["range"])
    lab.clock.advance(6_000)
    assert first[0].protocol_name == "range"
    refused = lab.join(new_id="c", protocols=["odd"])[0]
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    leave(lab, "b")
    assert lab.join(new_id="c", protocols=["new"])[0].error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )


def test_a_member_has_metadata_for_each_protocol() -> None:
    member = ClassicGroupMember(
        "a", None, "c", "/h", 1, 1, "consumer", (("range", b"r"), ("sticky", b"s"))
    )
    assert (member.metadata("range"), member.metadata("sticky")) == (b"r", b"s")


# -- responses and records


def test_the_life_of_a_group_is_logged(lab: GroupLab) -> None:
    lab.stable("a")
    leave(lab, "a", "closed")
    lab.join(new_id="p", must_know_id=True)
    leave(lab, "p")
    assert lab.said()[2:] == [
        "rebalance_prepared",
        "group_stabilized",
        "assignment_received",
        "rebalance_prepared",
        "member_left",
        "group_emptied",
        "pending_member_left",
    ]
    assert [facts["reason"] for facts in facts_of(lab, "member_left")] == ["closed"]
    lab.stable("b")
    leave(lab, "b")
    assert [facts["reason"] for facts in facts_of(lab, "member_left")][1:] == ["not provided"]


def test_a_group_is_stored_with_the_time_of_its_last_change(lab: GroupLab) -> None:
    lab.stable("a")
    changed_ms = lab.clock.wall_ms()
    leave(lab, "a")
    values = [record.value for record in lab.log.records() if isinstance(record, GroupStored)]
    assert [(value.generation, value.protocol, value.leader) for value in values if value] == [
        (1, "range", "a"),
        (2, None, None),
    ]
    assert values[1] is not None
    assert values[1].current_state_timestamp == changed_ms
    assert lab.group.protocol_name is None


def test_a_group_abandoned_before_its_first_generation_is_stored_and_deleted(
    lab: GroupLab,
) -> None:
    lab.join(new_id="a")
    leave(lab, "a")
    lab.clock.advance(6_000)
    assert (lab.group.state, lab.group.generation_id) == (GroupState.EMPTY, 1)
    lab.resign()
    lab.elect()
    assert lab.group.generation_id == 1
    received: dict[str, ErrorCode] = {}
    lab.coordinator.delete_groups([GROUP], received.update)
    assert received == {GROUP: ErrorCode.NONE}
    lab.resign()
    lab.elect()
    assert lab.find_group(GROUP) is None


def test_a_rebalancing_group_is_described_with_its_last_assignments(lab: GroupLab) -> None:
    lab.stable("a", "b", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
    stable = lab.coordinator.describe(GROUP).members[0]
    assert (stable.member_assignment, stable.member_metadata[:6]) == (b"a", b"\0\0\0\0\0\1")
    lab.join("a")
    found = lab.coordinator.describe(GROUP)
    assert found.group_state == "PreparingRebalance"
    assert [(m.member_assignment, m.member_metadata) for m in found.members] == [
        (b"a", b""),
        (b"b", b""),
    ]


def test_a_group_of_offsets_alone_has_no_protocol(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    found = lab.coordinator.describe(GROUP)
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Empty", "", "")
    group = lab.group
    assert (group.protocol_name, group.subscribed, group.last_eviction) == (None, None, None)
    assert group.subscribed_among({"t"}), "the subscriptions are unknown"
    assert not lab.group.offsets.is_unstable(TopicPartition("t", 0))
