"""Groups with members that change their protocol, and members of the classic protocol in consumer
groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from minikafka.core.client.assignors.model import Subscription
from minikafka.core.client.assignors.wire import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from minikafka.core.coordinator_shard import InTransaction
from minikafka.core.group.consumer.config import ConsumerGroupConfig, MigrationPolicy
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.group import Group, GroupState
from minikafka.core.group.records import GroupStored
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    JOINS,
    LEAVES,
    ConsumerGroupHeartbeatResponse,
)
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity
from tests.support.coordinator.group_lab import GROUP, GroupLab

SESSION_MS = 10_000  # of classic members
REBALANCE_MS = 60_000
BEAT_MS = 3_000
PARTITIONS = 4
NEVER = [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE]
UPGRADES = [MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL]


def lab_of(migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **config: Any) -> GroupLab:
    lab = GroupLab(consumer=ConsumerGroupConfig(migration=migration), **config)
    lab.make_topics(a=PARTITIONS)
    return lab


@pytest.fixture
def lab() -> GroupLab:
    return lab_of()


def parts(numbers: Iterable[int]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("a", number) for number in numbers)


def classic_join(
    lab: GroupLab, member_id: str, owned: Iterable[int] = (), **facts: Any
) -> list[JoinGroupResponse]:
    metadata = encode_subscription(Subscription(("a",), parts(owned)))
    return lab.join(member_id, metadata=metadata, rebalance_ms=REBALANCE_MS, **facts)


def stable(lab: GroupLab, *names: str) -> None:
    """Make a stable classic group, the first member of which has all partitions."""
    responses = [classic_join(lab, "", new_id=name) for name in names]
    lab.clock.advance(6_000)
    leader = responses[0][0].leader
    every = {names[0]: encode_assignment(parts(range(PARTITIONS)))}
    for name in sorted(names, key=lambda name: name == leader):
        lab.sync(name, 1, every if name == leader else None)
    assert lab.group.state is GroupState.STABLE


def consumer_join(lab: GroupLab, member_id: str = "m", **facts: Any) -> Any:
    (response,) = lab.consumer_beat(
        member_id, JOINS, rebalance_timeout_ms=REBALANCE_MS, owned={}, topics=("a",), **facts
    )
    return response


def consumer_beat(
    lab: GroupLab, member_id: str, epoch: int, **facts: Any
) -> ConsumerGroupHeartbeatResponse:
    (response,) = lab.consumer_beat(member_id, epoch, **facts)
    return response


def synced(lab: GroupLab, member_id: str, generation: int) -> list[int]:
    """Return the partitions in the response to SyncGroup."""
    (response,) = lab.sync(member_id, generation)
    assert response.error_code == ErrorCode.NONE
    return [tp.partition for tp in decode_assignment(response.assignment)]


def settle_classic(lab: GroupLab, member_id: str, owned: list[int]) -> tuple[int, list[int]]:
    """Let a member join until it is stable. Return its generation and partitions."""
    for _ in range(4):
        (joined,) = classic_join(lab, member_id, owned)
        owned = synced(lab, member_id, joined.generation_id)
        if lab.beat(member_id, joined.generation_id) == ErrorCode.NONE:
            break
    return joined.generation_id, owned


def consumer_group(lab: GroupLab) -> ConsumerGroup:
    group = lab.find_consumer_group()
    assert group is not None
    return group


# -- upgrade


def test_a_classic_group_becomes_a_consumer_group_with_its_members(lab: GroupLab) -> None:
    stable(lab, "c")
    assert consumer_join(lab).member_epoch == 2
    group = consumer_group(lab)
    assert set(group.members) == {"c", "m"}
    (assigned,) = group.current["c"].assigned.values()
    assert assigned == frozenset(range(PARTITIONS))
    assert lab.beat("c", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    generation, owned = settle_classic(lab, "c", [0, 1, 2, 3])
    assert (generation, len(owned)) == (2, 2)
    told = consumer_beat(lab, "m", 2).assignment
    assert told is not None
    (row,) = told.topic_partitions
    assert sorted([*row.partitions, *owned]) == list(range(PARTITIONS))


@pytest.mark.parametrize("policy", NEVER)
def test_a_policy_without_upgrades_leaves_classic_groups(policy: MigrationPolicy) -> None:
    lab = lab_of(policy)
    stable(lab, "c")
    refused = consumer_join(lab)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in (refused.error_message or "")
    assert lab.beat("c", 1) == ErrorCode.NONE


@pytest.mark.parametrize("policy", UPGRADES)
def test_a_policy_with_upgrades_allows_them(policy: MigrationPolicy) -> None:
    lab = lab_of(policy)
    stable(lab, "c")
    assert consumer_join(lab).error_code == ErrorCode.NONE


def test_a_group_of_another_protocol_type_is_refused(lab: GroupLab) -> None:
    lab.stable("c", protocol_type="connect")
    refused = consumer_join(lab)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(lab.find_group(GROUP), Group)


def test_the_assignments_of_a_custom_assignor_are_not_lost(lab: GroupLab) -> None:
    (joined,) = [classic_join(lab, "", new_id="c")]
    lab.clock.advance(6_000)
    lab.sync("c", joined[0].generation_id, {"c": encode_assignment(parts([0]), b"mine")})
    refused = consumer_join(lab)
    assert "custom assignor" in (refused.error_message or "")
    assert lab.beat("c", 1) == ErrorCode.NONE


def test_parked_joins_fail_and_their_members_join_again(lab: GroupLab) -> None:
    stable(lab, "c", "d")
    parked = classic_join(lab, lab.group.leader_id or "", protocols=("range", "roundrobin"))
    assert parked == []
    consumer_join(lab)
    assert parked[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    (joined,) = classic_join(lab, "c", range(PARTITIONS))
    assert joined.error_code == ErrorCode.NONE


def test_parked_syncs_fail(lab: GroupLab) -> None:
    responses = [classic_join(lab, "", new_id=name) for name in "cd"]
    lab.clock.advance(6_000)
    follower = next(r[0].member_id for r in responses if not r[0].members)
    parked = lab.sync(follower, 1)
    consumer_join(lab)
    assert parked[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    lab.clock.advance(REBALANCE_MS)  # no timer of the classic group has an effect


def test_members_without_a_generation_come_along(lab: GroupLab) -> None:
    parked = classic_join(lab, "", new_id="c")
    assert consumer_join(lab).member_epoch == 1
    assert parked[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    generation, _ = settle_classic(lab, "c", [])
    assert generation == 2 or consumer_group(lab).epoch == generation


def test_a_pending_member_joins_the_consumer_group(lab: GroupLab) -> None:
    (told,) = classic_join(lab, "", new_id="p", must_know_id=True)
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    consumer_join(lab)
    (joined,) = classic_join(lab, "p", must_know_id=True)
    assert joined.error_code == ErrorCode.NONE


def test_a_commit_in_flight_survives_the_upgrade(lab: GroupLab) -> None:
    stable(lab, "c")
    lab.log.held = True
    response = lab.commit({("a", 0): 7}, "c", 1)
    lab.consumer_beat("m", JOINS, rebalance_timeout_ms=1, owned={}, topics=("a",))
    lab.log.release()
    assert set(response.values()) == {ErrorCode.NONE}
    assert lab.committed() == {("a", 0): 7}
    assert consumer_group(lab).offsets.has_pending is False


def test_an_upgrade_that_is_not_stored_leaves_a_classic_group(lab: GroupLab) -> None:
    stable(lab, "c", "d")
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert consumer_join(lab).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.log.refusal = None
    assert lab.beat("c", 1) == ErrorCode.REBALANCE_IN_PROGRESS
    (first, second) = (classic_join(lab, name) for name in "cd")
    assert {first[0].error_code, second[0].error_code} == {ErrorCode.NONE}
    assert first[0].generation_id == 2


@pytest.mark.parametrize("joins", [0, 1, 4])
def test_a_new_coordinator_knows_members_of_both_protocols(lab: GroupLab, joins: int) -> None:
    stable(lab, "c")
    consumer_join(lab)
    for _ in range(joins):
        settle_classic(lab, "c", [0, 1, 2, 3])
    before = consumer_group(lab)
    lab.resign()
    lab.elect()
    after = consumer_group(lab)
    assert (before.members, before.current, before.targets) == (
        after.members,
        after.current,
        after.targets,
    )


# -- time


def live(lab: GroupLab, ms: int, *classic: tuple[str, int], consumer: int = 0) -> None:
    """Let time pass, in which these members send heartbeats."""
    for _ in range(ms // BEAT_MS):
        for name, generation in classic:
            lab.beat(name, generation)
        if consumer:
            consumer_beat(lab, "m", consumer)
        lab.clock.advance(BEAT_MS)


def test_a_silent_classic_member_is_removed_when_its_own_session_ends(lab: GroupLab) -> None:
    stable(lab, "c")
    consumer_join(lab)
    lab.clock.advance(SESSION_MS)
    assert set(consumer_group(lab).members) == {"m"}


def test_a_member_that_does_not_join_again_is_removed(lab: GroupLab) -> None:
    stable(lab, "c")
    consumer_join(lab)
    live(lab, REBALANCE_MS + BEAT_MS, ("c", 1), consumer=2)
    assert set(consumer_group(lab).members) == {"m"}


def test_a_member_that_does_not_sync_is_removed(lab: GroupLab) -> None:
    consumer_join(lab)
    (joined,) = classic_join(lab, "c")
    kept = consumer_beat(lab, "m", 1).assignment
    assert kept is not None
    owned = {row.topic_id: frozenset(row.partitions) for row in kept.topic_partitions}
    consumer_beat(lab, "m", 1, owned=owned)
    live(lab, REBALANCE_MS + BEAT_MS, ("c", joined.generation_id), consumer=2)
    assert set(consumer_group(lab).members) == {"m"}


def test_a_member_that_follows_stays(lab: GroupLab) -> None:
    stable(lab, "c")
    consumer_join(lab)
    generation, _ = settle_classic(lab, "c", [0, 1, 2, 3])
    live(lab, 2 * REBALANCE_MS, ("c", generation), consumer=2)
    assert set(consumer_group(lab).members) == {"c", "m"}


# -- downgrade


def mixed(lab: GroupLab) -> int:
    """Make a group with a member of each protocol. Return the generation."""
    stable(lab, "c")
    consumer_join(lab)
    generation, _ = settle_classic(lab, "c", [0, 1, 2, 3])
    consumer_beat(lab, "m", generation)
    return generation


def assert_classic(lab: GroupLab, generation: int) -> None:
    """Check that the group is a classic one, which rebalances, and that it comes to rest."""
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    assert lab.group.generation_id == generation
    (joined,) = classic_join(lab, "c")
    assert (joined.error_code, joined.leader) == (ErrorCode.NONE, "c")
    every = encode_assignment(parts(range(PARTITIONS)))
    lab.sync("c", joined.generation_id, {"c": every})
    assert lab.beat("c", joined.generation_id) == ErrorCode.NONE


def test_the_group_is_classic_again_when_the_last_consumer_member_leaves(lab: GroupLab) -> None:
    generation = mixed(lab)
    lab.commit({("a", 0): 7}, "c", generation)
    assert consumer_beat(lab, "m", LEAVES).error_code == ErrorCode.NONE
    assert_classic(lab, generation)
    for _ in range(2):
        assert lab.committed() == {("a", 0): 7}
        assert set(lab.group.members) == {"c"}
        lab.resign()
        lab.elect()


def test_the_group_is_classic_again_when_the_session_of_the_last_one_ends(lab: GroupLab) -> None:
    generation = mixed(lab)
    live(lab, 45_000 + BEAT_MS, ("c", generation))
    assert_classic(lab, generation)


def test_the_group_is_classic_again_when_an_administrator_removes_the_last_one(
    lab: GroupLab,
) -> None:
    generation = mixed(lab)
    (row,) = lab.coordinator.leave(GROUP, [MemberIdentity("m")])
    assert row.error_code == ErrorCode.NONE
    assert_classic(lab, generation)


def test_a_new_coordinator_has_the_classic_group_with_the_targets(lab: GroupLab) -> None:
    generation = mixed(lab)
    consumer_beat(lab, "m", LEAVES)
    lab.resign()
    lab.elect()
    assert (lab.group.state, lab.group.generation_id) == (GroupState.STABLE, generation)
    assigned = decode_assignment(lab.group.members["c"].assignment)
    assert len(assigned) == PARTITIONS // 2


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE])
def test_a_policy_without_downgrades_leaves_consumer_groups(policy: MigrationPolicy) -> None:
    lab = lab_of(policy)
    mixed(lab)
    consumer_beat(lab, "m", LEAVES)
    assert set(consumer_group(lab).members) == {"c"}
    assert settle_classic(lab, "c", [])[1] == [0, 1, 2, 3]


def test_a_group_too_large_for_a_classic_one_stays(lab: GroupLab) -> None:
    lab = lab_of(group_max_size=1)
    consumer_join(lab)
    for name in "cd":
        classic_join(lab, name)
    consumer_beat(lab, "m", LEAVES)
    assert set(consumer_group(lab).members) == {"c", "d"}


def test_a_downgrade_that_is_not_stored_leaves_a_consumer_group(lab: GroupLab) -> None:
    generation = mixed(lab)
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = consumer_beat(lab, "m", LEAVES)
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.log.refusal = None
    assert set(consumer_group(lab).members) == {"c", "m"}
    assert lab.beat("c", generation) == ErrorCode.NONE
    lab.clock.advance(SESSION_MS)
    assert set(consumer_group(lab).members) == {"m"}  # the sessions go on


def test_a_static_member_that_changes_its_protocol_makes_the_group_classic(lab: GroupLab) -> None:
    consumer_join(lab, instance_id="i")
    (joined,) = classic_join(lab, "", instance="i", new_id="c")
    assert joined.error_code == ErrorCode.NONE
    assert lab.group.state is GroupState.STABLE
    (response,) = lab.sync("c", joined.generation_id, instance="i")
    assert len(decode_assignment(response.assignment)) == PARTITIONS
    assert lab.beat("c", joined.generation_id, "i") == ErrorCode.NONE


def test_a_commit_in_flight_survives_the_downgrade(lab: GroupLab) -> None:
    generation = mixed(lab)
    lab.log.held = True
    response = lab.commit({("a", 0): 7}, "c", generation)
    lab.consumer_beat("m", LEAVES)
    lab.log.release()
    assert set(response.values()) == {ErrorCode.NONE}
    assert lab.committed() == {("a", 0): 7}
    assert any(isinstance(record, GroupStored) for record in lab.log.records())


# -- members of the classic protocol


def test_join_and_sync_wait_for_the_log(lab: GroupLab) -> None:
    consumer_join(lab)
    lab.log.held = True
    joined = classic_join(lab, "c")
    answer = lab.sync("c", 2)
    assert (joined, answer) == ([], [])
    lab.log.release()
    assert joined[0].generation_id == 2
    assert answer[0].error_code == ErrorCode.NONE


def test_a_join_that_is_not_stored_changes_nothing(lab: GroupLab) -> None:
    consumer_join(lab)
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    (refused,) = classic_join(lab, "c")
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(consumer_group(lab).members) == {"m"}
    assert lab.beat("c", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_malformed_subscription_is_refused(lab: GroupLab) -> None:
    consumer_join(lab)
    (refused,) = lab.join("c", metadata=b"x")
    assert refused.error_code != ErrorCode.NONE
    assert set(consumer_group(lab).members) == {"m"}


def test_a_full_group_takes_no_classic_member() -> None:
    lab = GroupLab(consumer=ConsumerGroupConfig(max_size=1))
    lab.make_topics(a=PARTITIONS)
    consumer_join(lab)
    (refused,) = classic_join(lab, "c")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_producer_of_old_commits_without_a_member_id(lab: GroupLab) -> None:
    consumer_join(lab)
    committed = lab.commit({("a", 0): 7}, transaction=InTransaction(9, 0))
    assert set(committed.values()) == {ErrorCode.NONE}
