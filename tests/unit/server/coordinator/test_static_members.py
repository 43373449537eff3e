"""Static members (KIP-345): a restart without a rebalance, and fencing of the old member id."""

import pytest

from minikafka.core.group.group import GroupState
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leave_group import MemberIdentity
from tests.support.coordinator.group_lab import GROUP, GroupLab

FENCED = ErrorCode.FENCED_INSTANCE_ID


@pytest.fixture
def lab() -> GroupLab:
    """Static member ``a`` of instance ``i`` leads, and dynamic ``b`` follows; generation 1."""
    lab = GroupLab()
    lab.join(new_id="a", instance="i")
    lab.join(new_id="b")
    lab.clock.advance(6_000)
    lab.sync("b", 1)
    lab.sync("a", 1, {"a": b"x", "b": b"y"}, instance="i")
    return lab


def test_a_quick_restart_causes_no_rebalance(lab: GroupLab) -> None:
    response = lab.join(instance="i", new_id="a2", can_skip=True)[0]
    assert (response.generation_id, response.member_id, response.leader) == (1, "a2", "a2")
    assert response.skip_assignment
    assert [member.member_id for member in response.members] == ["a2", "b"]
    assert lab.group.state is GroupState.STABLE
    assert lab.sync("a2", 1, instance="i")[0].assignment == b"x"
    assert lab.heartbeats.purgatory.delayed == 2
    assert "static_member_replaced" in lab.said()


def test_a_follower_that_restarts_does_not_become_leader() -> None:
    lab = GroupLab()
    lab.join(new_id="a")
    lab.join(new_id="b", instance="i")
    lab.clock.advance(6_000)
    lab.sync("b", 1, instance="i")
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    response = lab.join(instance="i", new_id="b2", can_skip=True)[0]
    assert (response.leader, response.skip_assignment, response.members) == ("a", False, [])
    assert lab.group.leader_id == "a"


def test_a_parked_request_of_the_old_id_is_fenced() -> None:
    lab = GroupLab()
    lab.join(new_id="a")
    lab.join(new_id="b", instance="i")
    lab.clock.advance(6_000)
    syncing = lab.sync("b", 1, instance="i")
    joining = lab.join(instance="i", new_id="b2")
    assert [response.error_code for response in syncing] == [FENCED]
    again = lab.join(instance="i", new_id="b3")
    assert [(response.error_code, response.member_id) for response in joining] == [(FENCED, "b2")]
    assert again == []
    lab.join("a")
    assert (again[0].generation_id, again[0].member_id) == (2, "b3")


def test_a_member_that_restarts_before_its_sync_must_sync_under_its_new_id() -> None:
    """The sync time-out removes static members too, under their current id."""
    lab = GroupLab()
    times = {"session_ms": 60_000, "rebalance_ms": 9_000}
    lab.join(new_id="a", **times)  # type: ignore[arg-type]
    lab.join(new_id="b", instance="i", **times)  # type: ignore[arg-type]
    lab.clock.advance(6_000)
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    assert lab.group.state is GroupState.STABLE
    lab.join(instance="i", new_id="b2", **times)  # type: ignore[arg-type]
    assert list(lab.group.pending_sync) == ["b2"]
    lab.clock.advance(9_000)
    assert list(lab.group.members) == ["a"]


class TestWhileTheNewIdIsStored:
    """The record of the new id is being replicated."""

    def test_a_rebalance_during_the_append_sends_the_response(self, lab: GroupLab) -> None:
        lab.log.held = True
        response = lab.join(instance="i", new_id="a2")
        lab.join(new_id="c")
        lab.log.release()
        assert response == []
        lab.join("b")
        assert [(a.generation_id, a.error_code) for a in response] == [(2, ErrorCode.NONE)]

    def test_a_member_that_leaves_during_the_append_stays_removed(self, lab: GroupLab) -> None:
        lab.log.held = True
        response = lab.join(instance="i", new_id="a2")
        lab.coordinator.leave(GROUP, [MemberIdentity("", "i")])
        lab.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert [a.error_code for a in response] == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert (list(lab.group.members), lab.group.static_members) == (["b"], {})

    def test_a_failure_after_the_next_generation_sends_no_second_response(
        self, lab: GroupLab
    ) -> None:
        lab.log.held = True
        response = lab.join(instance="i", new_id="a2")
        lab.join(new_id="c")
        lab.join("b")
        assert [a.generation_id for a in response] == [2]
        lab.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert len(response) == 1

    @pytest.mark.parametrize("first_error", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
    def test_it_may_restart_again(self, lab: GroupLab, first_error: ErrorCode) -> None:
        """Only the append of the second id decides, with any outcome of the first one."""
        lab.log.held = True
        first = lab.join(instance="i", new_id="a2")
        second = lab.join(instance="i", new_id="a3", can_skip=True)
        assert [a.error_code for a in first] == [FENCED]
        done, offset = lab.log.waiting.popleft()
        done(first_error, offset)
        assert second == []
        lab.log.release()
        assert [(a.error_code, a.member_id, a.leader) for a in second] == [
            (ErrorCode.NONE, "a3", "a3")
        ]
        assert lab.group.static_members == {"i": "a3"}
        assert lab.beat("a3", 1, "i") is ErrorCode.NONE
        assert lab.heartbeats.purgatory.delayed == 2

    def test_an_undone_replacement_has_its_session_again(self, lab: GroupLab) -> None:
        lab.log.held = True
        response = lab.join(instance="i", new_id="a2")
        lab.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert response[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert lab.heartbeats.purgatory.delayed == 2
        for _ in range(2):
            lab.clock.advance(5_000)
            lab.beat("b", 1)
        assert list(lab.group.members) == ["b"], "a has not come back"


def test_before_version_9_the_response_names_the_old_leader_id(lab: GroupLab) -> None:
    response = lab.join(instance="i", new_id="a2")[0]
    assert (response.leader, response.skip_assignment, response.members) == ("a", False, [])


def test_the_old_id_is_fenced(lab: GroupLab) -> None:
    lab.join(instance="i", new_id="a2")
    assert lab.beat("a", 1, "i") is FENCED
    assert lab.sync("a", 1, instance="i")[0].error_code == FENCED
    assert lab.join("a", instance="i")[0].error_code == FENCED
    assert set(lab.commit({("t", 0): 1}, "a", 1, instance="i").values()) == {FENCED}
    left = lab.coordinator.leave(GROUP, [MemberIdentity("a", "i")])
    assert left[0].error_code == FENCED
    assert lab.beat("a2", 1, "i") is ErrorCode.NONE


def test_the_new_id_is_in_the_log(lab: GroupLab) -> None:
    lab.join(instance="i", new_id="a2")
    lab.resign()
    lab.elect()
    assert lab.group.static_members == {"i": "a2"}
    assert lab.beat("a2", 1, "i") is ErrorCode.NONE


def test_a_replacement_that_is_not_stored_is_undone(lab: GroupLab) -> None:
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    response = lab.join(instance="i", new_id="a2", protocols=["range", "other"])[0]
    assert response.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert lab.group.static_members == {"i": "a"}
    assert [name for name, _ in lab.group.members["a"].protocols] == ["range"]
    assert lab.beat("a", 1, "i") is ErrorCode.NONE
    assert lab.heartbeats.purgatory.delayed == 2


def test_a_restart_that_changes_the_protocol_rebalances() -> None:
    lab = GroupLab()
    both = ["range", "sticky"]
    lab.join(new_id="a", instance="i", protocols=both)
    lab.clock.advance(3_000)
    lab.sync("a", 1, {"a": b"x"}, instance="i")
    response = lab.join(instance="i", new_id="a2", protocols=["sticky", "range"])
    assert response[0].generation_id == 2
    assert response[0].protocol_name == "sticky"


def test_a_restart_while_the_leader_assigns_rebalances() -> None:
    lab = GroupLab()
    lab.join(new_id="a", instance="i")
    lab.join(new_id="b")
    lab.clock.advance(6_000)
    waiting = lab.sync("b", 1)
    response = lab.join(instance="i", new_id="a2")
    assert waiting[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not response
    lab.join("b")
    assert response[0].generation_id == 2


def test_parked_requests_of_the_old_id_fail(lab: GroupLab) -> None:
    lab.join("b", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")  # has to rebalance
    old = lab.join("a", instance="i", protocols=["range"])
    assert old, "both have joined"
    waiting = lab.sync("a", 2, instance="i")  # without assignments, but it leads
    assert waiting


TOPIC_T = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"  # a subscription other than before: rebalance


def test_a_static_member_outlives_the_rebalance_time_out_and_a_dynamic_one_does_not() -> None:
    lab = GroupLab()
    times = {"session_ms": 60_000, "rebalance_ms": 5_000}
    for name, instance in (("a", None), ("away", "i"), ("late", None)):
        lab.join(new_id=name, instance=instance, **times)  # type: ignore[arg-type]
    lab.clock.advance(6_000)
    given = {"a": b"x", "away": b"y", "late": b"z"}
    for name, instance in (("away", "i"), ("late", None), ("a", None)):
        lab.sync(name, 1, given if name == "a" else None, instance=instance)
    response = lab.join("a", metadata=TOPIC_T, **times)  # type: ignore[arg-type]
    assert response == []
    lab.clock.advance(5_000)
    assert list(lab.group.members) == ["a", "away"]
    assert lab.group.static_members == {"i": "away"}
    assert (response[0].error_code, response[0].generation_id) == (ErrorCode.NONE, 2)
    assert [member.member_id for member in response[0].members] == ["a", "away"]
    # It is of the new generation, and may sync as soon as it is back.
    lab.sync("a", 2, {"a": b"x", "away": b"all"})
    assert lab.sync("away", 2, instance="i")[0].assignment == b"all"


def test_a_rebalance_without_any_joined_static_member_is_postponed() -> None:
    lab = GroupLab()
    times = {"session_ms": 12_000, "rebalance_ms": 5_000}
    lab.join(new_id="a", instance="i", **times)  # type: ignore[arg-type]
    lab.clock.advance(3_000)
    lab.sync("a", 1, {"a": b"x"}, instance="i")
    lab.join(new_id="b", session_ms=12_000, rebalance_ms=5_000)
    lab.coordinator.leave(GROUP, [MemberIdentity("b")])
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    lab.clock.advance(5_000)
    assert list(lab.group.members) == ["a"]
    assert "rebalance_without_members_postponed" in lab.said()
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    lab.clock.advance(7_000)  # its session ends
    assert lab.group.members == {}
    assert lab.group.state is GroupState.EMPTY  # type: ignore[comparison-overlap]  # changed since


def test_an_administrator_removes_it_by_its_instance(lab: GroupLab) -> None:
    left = lab.coordinator.leave(GROUP, [MemberIdentity("", "i", "scaled down")])
    assert left[0].error_code == ErrorCode.NONE
    assert lab.group.static_members == {}
    assert list(lab.group.members) == ["b"]


def test_unknown_instances(lab: GroupLab) -> None:
    assert lab.beat("b", 1, "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.join("a", instance="nobody")[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
