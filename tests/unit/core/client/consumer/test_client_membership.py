"""Membership in a group: the effect of every response on a member."""

from __future__ import annotations

import pytest

from minikafka.core.client.assignors.catalogue import ASSIGNORS, DEFAULT_STRATEGY, resolve_strategy
from minikafka.core.client.assignors.sticky import sticky_user_data
from minikafka.core.client.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from minikafka.core.client.consumer.membership import (
    GroupRebalanceConfig,
    Membership,
    MemberState,
    Next,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupResponse

E = ErrorCode
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(*strategy: str, instance: str | None = None) -> Membership:
    return Membership(GroupRebalanceConfig("g", resolve_strategy(strategy or ("range",)), instance))


def joined(membership: Membership, generation: int = 5, leader: str = "me") -> Next:
    membership.join_request(["t"], [])
    return membership.on_join(
        JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=membership.config.strategy[0].name,
            leader=leader,
            member_id="me",
        )
    )


def stable(membership: Membership, generation: int = 5) -> Membership:
    assert joined(membership, generation) is Next.GO_ON
    assert membership.on_sync(SyncGroupResponse()) is Next.GO_ON
    membership.remember([T0])
    return membership


def test_a_member_joins_syncs_and_is_stable() -> None:
    membership = member()
    assert (membership.state, membership.rejoin_needed) == (MemberState.UNJOINED, True)
    assert (membership.assignor, membership.is_leader, membership.beats) == (None, False, False)
    assert membership.subscriptions() == {}
    membership.join_request(["t"], [])
    assert (membership.state, membership.beats) == (MemberState.JOINING, False)
    assert joined(membership) is Next.GO_ON
    assert (membership.state, membership.beats) == (MemberState.SYNCING, True)
    assert (membership.member_id, membership.generation) == ("me", 5)
    assert membership.is_leader
    assert not membership.rejoin_needed
    request = membership.sync_request({"me": [T0], "you": [T1]})
    assert [each.member_id for each in request.assignments] == ["me", "you"]
    assert decode_assignment(request.assignments[1].assignment) == (T1,)
    assert membership.on_sync(SyncGroupResponse()) is Next.GO_ON
    assert membership.state is MemberState.STABLE


def test_the_defaults_are_those_of_kafka() -> None:
    config = GroupRebalanceConfig("g", resolve_strategy(DEFAULT_STRATEGY))
    assert [assignor.name for assignor in config.strategy] == ["range", "cooperative-sticky"]
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (45_000, 3_000)
    assert (config.max_poll_interval_ms, config.group_instance_id) == (300_000, None)


def test_join_request_holds_protocols_and_owned_partitions() -> None:
    membership = member("sticky", "cooperative-sticky", instance="static")
    request = membership.join_request(["u", "t"], [], "rack")
    assert (request.group_id, request.group_instance_id) == ("g", "static")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (45_000, 300_000)
    assert [each.name for each in request.protocols] == ["sticky", "cooperative-sticky"]
    first = decode_subscription(request.protocols[0].metadata)
    assert (first.topics, first.user_data, first.rack_id) == (("t", "u"), None, "rack")
    stable(membership)
    again = decode_subscription(membership.join_request(["t"], []).protocols[0].metadata)
    assert again.user_data == sticky_user_data([T0], 5)
    assert again.generation == -1, "nothing owned"
    cooperative = stable(member("cooperative-sticky"), 8)
    assert cooperative.config.cooperative
    assert not membership.config.cooperative, "only if all are"
    owning = decode_subscription(cooperative.join_request(["t"], [T0]).protocols[0].metadata)
    assert (owning.owned, owning.generation) == ((T0,), 8)


def test_group_leader_gets_all_subscriptions_unless_it_skips_assignment() -> None:
    membership = member()
    membership.join_request(["t"], [])
    wanted = encode_subscription(decode_subscription(b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"))
    rows = [
        JoinGroupResponseMember("a", "static", wanted),
        JoinGroupResponseMember("b", None, wanted),
    ]
    response = JoinGroupResponse(
        generation_id=1, protocol_name="range", leader="a", member_id="a", members=rows
    )
    membership.on_join(response)
    assert membership.subscriptions()["a"].group_instance_id == "static"
    assert membership.subscriptions()["b"].topics == ("t",)
    response.skip_assignment = True
    membership.on_join(response)
    assert not membership.is_leader


def test_joining_with_an_unproposed_protocol_is_an_error() -> None:
    for name, kind in (("other", "consumer"), ("range", "connect")):
        membership = member()
        membership.join_request(["t"], [])
        with pytest.raises(KafkaError) as caught:
            membership.on_join(JoinGroupResponse(protocol_name=name, protocol_type=kind))
        assert caught.value.code is E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (E.MEMBER_ID_REQUIRED, Next.AT_ONCE),
        (E.UNKNOWN_MEMBER_ID, Next.AT_ONCE),
        (E.COORDINATOR_LOAD_IN_PROGRESS, Next.LATER),
        (E.REBALANCE_IN_PROGRESS, Next.LATER),
        (E.NOT_COORDINATOR, Next.OTHER_COORDINATOR),
        (E.COORDINATOR_NOT_AVAILABLE, Next.OTHER_COORDINATOR),
        (E.NETWORK_EXCEPTION, Next.OTHER_COORDINATOR),
        (E.REQUEST_TIMED_OUT, Next.OTHER_COORDINATOR),
    ],
)
def test_joins_that_are_tried_again(code: ErrorCode, step: Next) -> None:
    membership = member()
    membership.join_request(["t"], [])
    assert membership.on_join(JoinGroupResponse(error_code=code, member_id="given")) is step
    assert membership.state is MemberState.UNJOINED
    assert membership.rejoin_needed
    assert membership.member_id == ("given" if code is E.MEMBER_ID_REQUIRED else "")
    assert not membership.lost, "there was nothing to lose"


@pytest.mark.parametrize(
    "code",
    [E.FENCED_INSTANCE_ID, E.INCONSISTENT_GROUP_PROTOCOL, E.GROUP_MAX_SIZE_REACHED,
     E.INVALID_SESSION_TIMEOUT, E.GROUP_AUTHORIZATION_FAILED, E.INVALID_GROUP_ID],
)  # fmt: skip
def test_fatal_join_errors_are_raised(code: ErrorCode) -> None:
    membership = member()
    membership.join_request(["t"], [])
    with pytest.raises(KafkaError) as caught:
        membership.on_join(JoinGroupResponse(error_code=code))
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("code", "step", "member_id", "lost"),
    [
        (E.REBALANCE_IN_PROGRESS, Next.JOIN_AGAIN, "me", False),
        (E.COORDINATOR_LOAD_IN_PROGRESS, Next.JOIN_AGAIN, "me", False),
        (E.ILLEGAL_GENERATION, Next.JOIN_AGAIN, "me", True),
        (E.UNKNOWN_MEMBER_ID, Next.JOIN_AGAIN, "", True),
        (E.NOT_COORDINATOR, Next.OTHER_COORDINATOR, "me", False),
    ],
)
def test_syncs_that_failed(code: ErrorCode, step: Next, member_id: str, lost: bool) -> None:
    membership = member()
    joined(membership)
    assert membership.on_sync(SyncGroupResponse(error_code=code)) is step
    assert membership.state is MemberState.UNJOINED
    assert membership.rejoin_needed
    assert (membership.member_id, membership.lost) == (member_id, lost)


@pytest.mark.parametrize(
    ("code", "step", "rejoin", "lost"),
    [
        (E.NONE, Next.GO_ON, False, False),
        (E.COORDINATOR_LOAD_IN_PROGRESS, Next.GO_ON, False, False),
        (E.REBALANCE_IN_PROGRESS, Next.GO_ON, True, False),
        (E.NOT_COORDINATOR, Next.OTHER_COORDINATOR, False, False),
        (E.ILLEGAL_GENERATION, Next.JOIN_AGAIN, True, True),
        (E.UNKNOWN_MEMBER_ID, Next.JOIN_AGAIN, True, True),
    ],
)
def test_heartbeats(code: ErrorCode, step: Next, rejoin: bool, lost: bool) -> None:
    membership = stable(member())
    request = membership.heartbeat_request()
    assert membership.on_heartbeat(code, request) is step
    assert (membership.rejoin_needed, membership.lost) == (rejoin, lost)


def test_heartbeat_response_for_an_older_generation_is_ignored() -> None:
    membership = stable(member())
    request = membership.heartbeat_request()
    stable(membership, 6)
    assert membership.on_heartbeat(E.ILLEGAL_GENERATION, request) is Next.GO_ON
    assert membership.generation == 6
    with pytest.raises(KafkaError):
        membership.on_heartbeat(E.FENCED_INSTANCE_ID, membership.heartbeat_request())


@pytest.mark.parametrize(
    ("code", "step", "lost"),
    [
        (E.REBALANCE_IN_PROGRESS, Next.JOIN_AGAIN, False),
        (E.ILLEGAL_GENERATION, Next.JOIN_AGAIN, True),
        (E.UNKNOWN_MEMBER_ID, Next.JOIN_AGAIN, True),
        (E.COORDINATOR_LOAD_IN_PROGRESS, Next.LATER, False),
        (E.UNKNOWN_TOPIC_OR_PARTITION, Next.LATER, False),
        (E.NOT_COORDINATOR, Next.OTHER_COORDINATOR, False),
    ],
)
def test_commits_that_were_refused(code: ErrorCode, step: Next, lost: bool) -> None:
    membership = stable(member())
    assert membership.on_commit(code, 5) is step
    assert membership.lost is lost
    assert membership.rejoin_needed is (step is Next.JOIN_AGAIN)
    assert membership.member_id == ("" if code is E.UNKNOWN_MEMBER_ID else "me")
    later = stable(member(), 6)
    assert later.on_commit(E.ILLEGAL_GENERATION, 5) is Next.JOIN_AGAIN
    assert not later.lost, "that was an older one"


def test_member_that_loses_its_generation_during_sync_joins_again() -> None:
    membership = member()
    joined(membership)
    membership.lose("no poll")
    assert membership.on_sync(SyncGroupResponse()) is Next.JOIN_AGAIN
    assert membership.state is MemberState.UNJOINED


def test_a_rebalance_met_while_syncing_is_the_one_it_takes_part_in() -> None:
    membership = member()
    joined(membership)
    membership.on_heartbeat(E.REBALANCE_IN_PROGRESS, membership.heartbeat_request())
    assert not membership.rejoin_needed


def test_a_follower_sends_no_shares() -> None:
    membership = member()
    joined(membership, leader="you")
    assert not membership.is_leader
    assert membership.sync_request().assignments == []


def test_a_lost_generation_leaves_nothing_of_the_membership_but_its_loss() -> None:
    membership = stable(member())
    membership.lose("no poll")
    assert (membership.generation, membership.is_leader, membership.lost) == (-1, False, True)
    membership.lose("no poll, again")
    assert membership.lost, "until the owner has seen it"
    assert membership.join_request(["t"], []).reason == "no poll, again"
    membership.lose("x" * 300)
    assert membership.join_request(["t"], []).reason == "x" * 255


def test_a_member_that_the_group_has_forgotten_joins_as_a_new_one() -> None:
    membership = stable(member())
    membership.want_rejoin("new topics")
    membership.join_request(["t"], [])
    membership.on_join(JoinGroupResponse(error_code=E.UNKNOWN_MEMBER_ID))
    assert (membership.member_id, membership.lost) == ("", True)


def test_leaving() -> None:
    assert member().leave_request("why", 5) is None, "no member yet"
    assert stable(member(instance="static")).leave_request("why", 5) is None
    membership = stable(member())
    new = membership.leave_request("x" * 300, 5)
    assert new is not None
    assert [(each.member_id, len(each.reason or "")) for each in new.members] == [("me", 255)]
    assert membership.leave_request("why", 3) == LeaveGroupRequest(
        "g", members=[MemberIdentity("me", None, "why")]
    )
    old = membership.leave_request("why", 2)
    assert old is not None
    assert (old.member_id, old.members) == ("me", [])


def test_the_reason_of_a_rejoin_is_the_first_one() -> None:
    membership = stable(member())
    membership.want_rejoin("one")
    membership.want_rejoin("two")
    assert membership.join_request(["t"], []).reason == "one"
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
