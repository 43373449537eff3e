"""Corner cases of groups: late and failed appends, repeated requests, defaults."""

import pytest

from minikafka.core.coordinator_shard import DeferredReply, InTransaction
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.group import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    GroupConfig,
    GroupState,
    subscribed_topics,
)
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.records import (
    CommittedOffset,
    GroupStored,
    OffsetCommitted,
    decode_record,
    encode_record,
)
from minikafka.core.group.shard import GroupShard
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.protocol.messages.offsets_log import GroupMetadataValue
from tests.support.coordinator.group_lab import GROUP, GroupLab

NONE = ErrorCode.NONE
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SUBSCRIBED_TO_T = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab()


def completing(lab: GroupLab, *names: str) -> None:
    """The members have joined generation 1. The first one leads and has not sent SyncGroup."""
    for name in names:
        lab.join(new_id=name)
    lab.clock.advance(6_000)
    assert lab.group.state is GroupState.COMPLETING_REBALANCE


def end_first_write(lab: GroupLab, error: ErrorCode) -> None:
    done, offset = lab.log.waiting.popleft()
    done(error, offset)


def leave(lab: GroupLab, name: str) -> None:
    assert lab.coordinator.leave(GROUP, [MemberIdentity(name)])[0].error_code == NONE


def levels_of(lab: GroupLab, event: str) -> list[str]:
    return [level for level, said, _ in lab.events.events if said == event]


# -- SyncGroup


def test_a_sync_of_a_stable_group_starts_the_session_again(lab: GroupLab) -> None:
    generation, _ = lab.stable("a")
    lab.clock.advance(9_000)
    assert lab.sync("a", generation)[0].assignment == b"a"
    lab.clock.advance(9_999)
    assert list(lab.group.members) == ["a"]
    lab.clock.advance(1)
    assert not lab.group.members


def test_a_sync_may_name_the_protocol_that_the_group_has(lab: GroupLab) -> None:
    generation, _ = lab.stable("a")
    response = lab.sync("a", generation, protocol_type="consumer", protocol_name="range")[0]
    assert (response.error_code, response.assignment) == (NONE, b"a")


def test_a_sync_in_the_joining_phase_fails_with_rebalance_in_progress(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    lab.join("a")
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    assert lab.sync("b", generation)[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_without_an_assignment_get_an_empty_one_and_a_warning(lab: GroupLab) -> None:
    completing(lab, "a", "b")
    forgotten = lab.sync("b", 1)
    lab.sync("a", 1, {"a": b"x"})
    assert (forgotten[0].error_code, forgotten[0].assignment) == (NONE, b"")
    found = [facts for _, event, facts in lab.events.events if event == "assignments_left_empty"]
    assert found == [{"group": GROUP, "members": ["b"], "generation": 1}]
    assert levels_of(lab, "assignments_left_empty") == ["warning"]


def test_no_warning_when_every_member_has_an_assignment(lab: GroupLab) -> None:
    lab.stable("a", "b")
    assert levels_of(lab, "assignments_left_empty") == []


def test_an_assignment_stored_after_the_next_rebalance_began_has_no_effect(lab: GroupLab) -> None:
    completing(lab, "a", "b")
    lab.log.held = True
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    lab.join(new_id="c")
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    lab.log.release()
    assert lab.group.state is GroupState.PREPARING_REBALANCE


def test_a_failed_second_assignment_does_not_disturb_the_first(lab: GroupLab) -> None:
    completing(lab, "a")
    lab.log.held = True
    for _ in range(2):
        response = lab.sync("a", 1, {"a": b"x"})
    end_first_write(lab, NONE)
    assert response[0].assignment == b"x"
    end_first_write(lab, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert lab.group.state is GroupState.STABLE
    assert lab.beat("a", 1) is NONE


def test_a_failed_old_assignment_does_not_disturb_the_next_generation(
    lab: GroupLab,
) -> None:
    completing(lab, "a", "b")
    lab.log.held = True
    lab.sync("a", 1, {"a": b"x", "b": b"y"})
    leave(lab, "b")
    assert lab.join("a")[0].generation_id == 2
    response = lab.sync("a", 2, {"a": b"all"})
    end_first_write(lab, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not response
    assert lab.group.state is GroupState.COMPLETING_REBALANCE
    end_first_write(lab, NONE)
    assert response[0].assignment == b"all"


# -- JoinGroup


def test_a_leader_that_has_joined_stays_leader_before_older_members(
    lab: GroupLab,
) -> None:
    times = {"session_ms": 60_000, "rebalance_ms": 8_000}
    lab.join(new_id="old", instance="i", **times)  # type: ignore[arg-type]
    lab.join(new_id="b", **times)  # type: ignore[arg-type]
    lab.clock.advance(6_000)
    lab.sync("old", 1, {"old": b"x", "b": b"y"}, instance="i")
    lab.sync("b", 1)
    lab.join(new_id="c", **times)  # type: ignore[arg-type]
    response = lab.join("b", **times)  # type: ignore[arg-type]
    lab.clock.advance(8_000)  # without the old leader
    assert response[0].leader == "b"
    lab.sync("b", 2, {"old": b"x", "b": b"y", "c": b"z"})
    responses = [lab.join(name, **times) for name in "bc"]  # type: ignore[arg-type]
    responses.append(lab.join("old", instance="i", **times))  # type: ignore[arg-type]
    assert [(found[0].generation_id, found[0].leader) for found in responses] == [(3, "b")] * 3


def test_a_refused_join_leaves_an_empty_group_with_its_generation(lab: GroupLab) -> None:
    lab.stable("a")
    leave(lab, "a")
    assert lab.join(protocols=[])[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (lab.group.state, lab.group.generation_id) == (GroupState.EMPTY, 2)


def test_a_joining_leader_must_assign(lab: GroupLab) -> None:
    """Only a static leader that has restarted may skip the assignment (KIP-814)."""
    response = lab.join(new_id="a", can_skip=True)
    lab.clock.advance(6_000)
    assert not response[0].skip_assignment
    assert not lab.join("a", can_skip=True)[0].skip_assignment


def test_a_failed_replacement_leaves_no_session_of_the_new_id(lab: GroupLab) -> None:
    lab.join(new_id="a", instance="i")
    lab.join(new_id="b")
    lab.clock.advance(6_000)
    lab.sync("b", 1)
    lab.sync("a", 1, {"a": b"x", "b": b"y"}, instance="i")
    lab.log.held = True
    response = lab.join(instance="i", new_id="a2")
    lab.join(new_id="c")
    lab.join("b")
    assert response[0].generation_id == 2
    lab.log.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert list(lab.group.members) == ["a", "b", "c"]
    assert lab.heartbeats.purgatory.delayed == 3


# -- OffsetCommit


def test_generation_0_of_an_unknown_group_is_illegal(lab: GroupLab) -> None:
    assert lab.commit({("t", 0): 1}, "a", 0) == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert lab.find_group(GROUP) is None


def test_each_offset_of_a_commit_has_its_own_error(lab: GroupLab) -> None:
    offsets = {T0: CommittedOffset(1, metadata="x" * 4_097), T1: CommittedOffset(2)}
    response: dict[TopicPartition, ErrorCode] = {}
    lab.coordinator.commit(GROUP, CommitFacts("", None, -1, offsets), response.update)
    assert response == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: NONE}
    assert lab.committed() == {("t", 1): 2}


def test_a_commit_pending_at_a_deletion_does_not_restore_the_offset(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1, ("t", 1): 1})
    lab.log.held = True
    lab.commit({("t", 0): 2})
    lab.coordinator.delete_offsets(GROUP, [T0], lambda _: None)
    lab.log.release()
    assert lab.committed() == {("t", 1): 1}
    lab.resign()
    lab.elect()
    assert lab.committed() == {("t", 1): 1}


def test_a_group_does_not_await_offsets_of_its_deleted_namesake(
    lab: GroupLab,
) -> None:
    lab.log.held = True
    lab.commit({("t", 0): 1}, transaction=InTransaction(7, 0))
    lab.coordinator.delete_groups([GROUP], lambda _: None)
    lab.commit({("t", 1): 1})
    lab.log.release()
    assert lab.committed() == {("t", 1): 1}
    (found,) = lab.coordinator.fetch(GROUP, [T0], require_stable=True)
    assert found.error is NONE


@pytest.mark.parametrize(
    "refusal",
    [
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_FETCH_SIZE,
    ],
)
def test_errors_of_records_too_large_for_the_log(lab: GroupLab, refusal: ErrorCode) -> None:
    lab.log.refusal = refusal
    assert lab.commit({("t", 0): 1}) == {T0: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    completing(lab, "a")
    response = lab.sync("a", 1, {"a": b"x"})
    assert response[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# -- deletion


def test_a_group_of_one_generation_is_deleted_with_its_last_offset(lab: GroupLab) -> None:
    lab.join(new_id="a")
    leave(lab, "a")
    lab.clock.advance(6_000)
    assert (lab.group.state, lab.group.generation_id) == (GroupState.EMPTY, 1)
    lab.commit({("t", 0): 1})
    lab.coordinator.delete_offsets(GROUP, [T0], lambda _: None)
    assert lab.find_group(GROUP) is None
    lab.resign()
    lab.elect()
    assert lab.find_group(GROUP) is None


def test_an_empty_group_stays_when_its_tombstone_is_not_stored(lab: GroupLab) -> None:
    lab.stable("a")
    leave(lab, "a")
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    lab.expire()
    assert (lab.group.state, lab.group.generation_id) == (GroupState.EMPTY, 2)


def test_a_generation_without_members_that_is_not_stored_is_logged(lab: GroupLab) -> None:
    lab.stable("a")
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    leave(lab, "a")
    assert levels_of(lab, "empty_group_not_stored") == ["warning"]


def test_the_log_says_with_how_many_offsets_a_group_was_deleted(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1, ("t", 1): 1})
    lab.coordinator.delete_groups([GROUP], lambda _: None)
    found = [facts for _, event, facts in lab.events.events if event == "group_deleted"]
    assert found == [{"group": GROUP, "offsets": 2}]


class TestWhileADeletionIsWritten:
    """The shard alone, while deletions are being appended."""

    @pytest.fixture
    def shard(self) -> GroupShard:
        """With the empty group of generation 3."""
        shard = GroupShard(GroupConfig())
        shard.replay(GroupStored(GROUP, GroupMetadataValue("consumer", 3, None, None, 0, [])), 0)
        shard.loaded(0)
        return shard

    def test_a_group_with_a_new_member_is_not_deleted(self, shard: GroupShard) -> None:
        errors: list[ErrorCode] = []
        (append,) = shard.delete_group(shard.groups[GROUP], errors.append).appends
        facts = JoinFacts("", None, "c", "/h", 1, 1, "consumer", (("range", b""),), "a")
        shard.join(GROUP, facts, lambda response: None, MetadataImage(), 0)
        group = shard.groups[GROUP]
        settled = shard.settle(append, NONE, 1, 0)
        assert settled.replies == [DeferredReply(errors.append, ErrorCode.NON_EMPTY_GROUP)]
        assert shard.groups == {GROUP: group}
        assert list(group.members) == ["a"]

    def test_a_second_deletion_succeeds_without_effect(self, shard: GroupShard) -> None:
        errors: list[ErrorCode] = []
        (first,), (second,) = (
            shard.delete_group(shard.groups[GROUP], errors.append).appends for _ in range(2)
        )
        assert shard.settle(first, NONE, 1, 0).replies == [DeferredReply(errors.append, NONE)]
        assert shard.groups == {}
        assert shard.settle(second, NONE, 2, 0).replies == [DeferredReply(errors.append, NONE)]


# -- subscriptions


def test_the_topics_of_the_members_are_known_of_consumer_groups_alone() -> None:
    assert subscribed_topics("consumer", "range", [SUBSCRIBED_TO_T]) == frozenset({"t"})
    assert subscribed_topics("connect", "range", [SUBSCRIBED_TO_T]) is None
    assert subscribed_topics("consumer", None, [SUBSCRIBED_TO_T]) is None


def test_a_consumer_group_without_members_subscribes_to_nothing() -> None:
    assert subscribed_topics("consumer", None, []) == frozenset()


# -- defaults and bounds


def test_a_group_has_kafkas_defaults() -> None:
    assert GroupConfig() == GroupConfig(
        group_min_session_timeout_ms=6_000,
        group_max_session_timeout_ms=1_800_000,
        group_initial_rebalance_delay_ms=3_000,
        group_max_size=2_147_483_647,
        offset_metadata_max_bytes=4_096,
        offsets_retention_ms=604_800_000,
    )
    assert NEW_MEMBER_JOIN_TIMEOUT_MS == 300_000


def test_join_facts_default_to_old_versions() -> None:
    """Before version 4 no member id is required, before version 9 no assignment is skipped."""
    facts = JoinFacts("", None, "c", "/h", 1, 1, "consumer", (), "a")
    assert (facts.must_know_id, facts.can_skip_assignment) == (False, False)


def test_an_offset_has_no_epoch_metadata_or_times_by_default() -> None:
    assert CommittedOffset(5) == CommittedOffset(5, -1, "", -1, -1)
    assert decode_record(*encode_record(OffsetCommitted(GROUP, T0, CommittedOffset(5)))) == (
        OffsetCommitted(GROUP, T0, CommittedOffset(5, -1, "", -1, -1))
    )


def test_the_highest_loadable_generation_is_loaded() -> None:
    record = GroupStored(GROUP, GroupMetadataValue("consumer", 2_147_483_646, None, None, 0, []))
    assert decode_record(*encode_record(record)) == record
