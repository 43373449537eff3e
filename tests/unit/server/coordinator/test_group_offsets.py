"""Offsets are committed, fetched and deleted; groups are deleted, listed and loaded."""

from collections.abc import Mapping

import pytest

from minikafka.core.coordinator_shard import BATCH_BYTES
from minikafka.core.group.group import GroupConfig, GroupState
from minikafka.core.group.records import (
    CommittedOffset,
    GroupStored,
    OffsetCommitted,
    decode_record,
    encode_record,
)
from minikafka.core.group.shard import GroupShard
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.protocol.messages.offsets_log import GroupMetadataValue, MemberMetadata
from minikafka.protocol.records.batch import parse_batch
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from tests.support.coordinator.group_lab import GROUP, GroupLab

NONE = ErrorCode.NONE
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SUBSCRIBED_TO_T = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"


@pytest.fixture
def lab() -> GroupLab:
    return GroupLab()


def test_a_self_assigning_consumer_commits_and_resumes(lab: GroupLab) -> None:
    assert lab.commit({("t", 0): 5, ("t", 1): 7}) == {T0: NONE, T1: NONE}
    assert lab.committed() == {("t", 0): 5, ("t", 1): 7}
    lab.resign()
    lab.elect()
    assert lab.committed() == {("t", 0): 5, ("t", 1): 7}


def test_only_members_commit_while_there_are_members(lab: GroupLab) -> None:
    generation, _ = lab.stable("a")
    where = {("t", 0): 1}
    assert lab.commit(where) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert lab.commit(where, "stranger", generation) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert lab.commit(where, "a", generation - 1) == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert lab.commit(where, "a", -1) == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert lab.commit(where, "a", generation) == {T0: NONE}
    lab.clock.advance(10_000)
    assert lab.commit(where, "a", generation) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert lab.commit(where) == {T0: NONE}


def test_a_generation_of_an_unknown_group_is_illegal(lab: GroupLab) -> None:
    assert lab.commit({("t", 0): 1}, "a", 3) == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert lab.find_group(GROUP) is None


def test_commits_around_a_rebalance(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    lab.join("a")
    assert lab.group.state is GroupState.PREPARING_REBALANCE
    assert lab.commit({("t", 0): 1}, "b", generation) == {T0: NONE}
    lab.join("b")
    received = lab.commit({("t", 0): 2}, "b", generation + 1)
    assert received == {T0: ErrorCode.REBALANCE_IN_PROGRESS}


def test_a_commit_counts_as_heartbeat(lab: GroupLab) -> None:
    generation, _ = lab.stable("a")
    for n in range(5):
        lab.clock.advance(8_000)
        assert lab.commit({("t", 0): n}, "a", generation) == {T0: NONE}


def test_metadata_may_be_too_long(lab: GroupLab) -> None:
    assert lab.commit({("t", 0): 1}, metadata="x" * 4097) == {
        T0: ErrorCode.OFFSET_METADATA_TOO_LARGE
    }
    assert lab.commit({("t", 0): 1}, metadata="x" * 4096) == {T0: NONE}


def test_an_offset_is_not_fetched_before_it_is_replicated(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.log.held = True
    response = lab.commit({("t", 0): 2})
    assert not response
    assert lab.committed() == {("t", 0): 1}
    unstable = lab.coordinator.fetch(GROUP, [T0, T1], require_stable=True)
    assert [(f.committed.offset, f.error) for f in unstable] == [
        (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT),
        (-1, NONE),
    ]
    lab.log.release()
    assert response == {T0: NONE}
    assert lab.committed() == {("t", 0): 2}


@pytest.mark.parametrize(
    ("refusal", "received"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_errors_of_a_failed_commit(lab: GroupLab, refusal: ErrorCode, received: ErrorCode) -> None:
    lab.log.refusal = refusal
    assert lab.commit({("t", 0): 1}) == {T0: received}
    assert lab.committed() == {}
    assert not lab.group.offsets.has_pending


def test_a_text_too_long_for_a_record(lab: GroupLab) -> None:
    huge = "g" * 40_000
    assert lab.commit({("t", 0): 1}, group_id=huge) == {T0: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def test_offsets_of_an_unknown_group_are_none(lab: GroupLab) -> None:
    found = lab.coordinator.fetch("nobody", [T0], require_stable=True)
    assert [(f.committed.offset, f.committed.metadata, f.error) for f in found] == [(-1, "", NONE)]
    assert lab.coordinator.fetch_all("nobody", require_stable=False) == []


# -- deletion


def deleted(lab: GroupLab, *group_ids: str) -> dict[str, ErrorCode]:
    response: dict[str, ErrorCode] = {}
    lab.coordinator.delete_groups(group_ids, response.update)
    return response


def test_groups_without_members_are_deleted(lab: GroupLab) -> None:
    lab.commit({("t", n): n for n in range(3)})
    lab.stable("a")
    assert deleted(lab, GROUP, "nobody") == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    lab.clock.advance(10_000)
    assert deleted(lab, GROUP, GROUP) == {GROUP: NONE}
    assert lab.find_group(GROUP) is None
    lab.resign()
    lab.elect()
    assert lab.find_group(GROUP) is None, "nor after loading the log"


def test_a_group_with_a_pending_member_is_deleted(lab: GroupLab) -> None:
    """As in Kafka: NONE means that the group is deleted."""
    lab.commit({("t", 0): 1})
    (refused,) = lab.join(must_know_id=True, new_id="a")
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert deleted(lab, GROUP) == {GROUP: NONE}
    assert lab.find_group(GROUP) is None
    assert lab.heartbeats.purgatory.delayed == 0, "no session is left"
    assert lab.join("a")[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_failed_commit_does_not_affect_other_pending_commits(lab: GroupLab) -> None:
    lab.log.held = True
    lab.commit({("t", 0): 1})
    lab.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert lab.commit({("t", 0): 2}) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    lab.log.release()
    assert lab.committed() == {("t", 0): 1}


def test_a_pending_commit_is_dropped_with_its_group(lab: GroupLab) -> None:
    lab.log.held = True
    response = lab.commit({("t", 0): 1})
    assert deleted(lab, GROUP) == {GROUP: NONE}
    lab.log.release()
    assert response == {T0: NONE}
    assert lab.find_group(GROUP) is None
    lab.resign()
    lab.elect()
    assert lab.find_group(GROUP) is None


def test_a_deletion_that_is_not_stored_changes_nothing(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert deleted(lab, GROUP) == {GROUP: ErrorCode.NOT_COORDINATOR}
    assert lab.committed() == {("t", 0): 1}


def test_many_offsets_are_deleted_in_batches_that_fit(lab: GroupLab) -> None:
    """Also with long names."""
    topic = "t" * 249
    count = 2 * BATCH_BYTES // len(topic)
    lab.commit({(topic, n): n for n in range(count)})
    before = len(lab.log.batches)
    assert deleted(lab, GROUP) == {GROUP: NONE}
    batches = lab.log.batches[before:]
    assert len(batches) == 3
    assert all(len(batch) <= BATCH_BYTES for batch in batches)
    assert sum(parse_batch(batch, 0).record_count for batch in batches) == count


def test_offsets_of_topics_that_are_consumed_are_kept(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1, ("u", 0): 2})
    lab.stable("a", metadata=SUBSCRIBED_TO_T)
    response: dict[TopicPartition, ErrorCode] = {}
    lab.coordinator.delete_offsets(GROUP, [T0, TopicPartition("u", 0)], response.update)
    assert response == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, TopicPartition("u", 0): NONE}
    assert lab.committed() == {("t", 0): 1}


def test_offsets_that_cannot_be_deleted(lab: GroupLab) -> None:
    def refusal() -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            lab.coordinator.delete_offsets(GROUP, [T0], lambda _: None)
        return refused.value.code

    assert refusal() is ErrorCode.GROUP_ID_NOT_FOUND
    lab.stable("a", protocol_type="connect")
    assert refusal() is ErrorCode.NON_EMPTY_GROUP


def deleted_offsets(lab: GroupLab, *topic_partitions: TopicPartition) -> list[ErrorCode]:
    responses: list[ErrorCode] = []
    lab.coordinator.delete_offsets(
        GROUP, topic_partitions, lambda response: responses.extend(response.values())
    )
    return responses


def test_deleting_an_unknown_offset_appends_nothing(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    before = len(lab.log.batches)
    assert deleted_offsets(lab, T1) == [NONE]
    assert len(lab.log.batches) == before


@pytest.mark.parametrize("why", ["members", "somebody is to join", "a commit", "another offset"])
def test_a_group_that_is_not_empty_survives_its_last_offset(lab: GroupLab, why: str) -> None:
    lab.stable("a", metadata=SUBSCRIBED_TO_T)
    if why != "members":
        lab.coordinator.leave(GROUP, [MemberIdentity("a")])
        lab.commit({("u", 0): 1})
    else:
        lab.commit({("u", 0): 1}, "a", 1)
    generation = lab.group.generation_id
    if why == "somebody is to join":
        lab.join(new_id="p", must_know_id=True)
    elif why == "a commit":
        lab.log.held = True
        lab.commit({("w", 0): 1})
    elif why == "another offset":
        lab.commit({("w", 0): 1})
    assert deleted_offsets(lab, TopicPartition("u", 0)) == [NONE]
    assert lab.find_group(GROUP) is not None
    lab.log.release()
    lab.resign()
    lab.elect()
    assert lab.group.generation_id == generation, "its own record is still there"


def test_a_deletion_in_several_batches_has_one_response_after_the_last(lab: GroupLab) -> None:
    topic = "t" * 249
    lab.commit({(topic, n): n for n in range(2 * BATCH_BYTES // len(topic))})
    before = len(lab.log.batches)
    batches_by_then: list[int] = []
    lab.coordinator.delete_groups([GROUP], lambda _: batches_by_then.append(len(lab.log.batches)))
    assert batches_by_then == [before + 3]


def test_no_batch_of_a_deletion_waits_for_the_followers(lab: GroupLab) -> None:
    """As in Kafka: the next expiry appends a lost tombstone again."""
    topic = "t" * 249
    lab.commit({(topic, n): n for n in range(2 * BATCH_BYTES // len(topic))})
    lab.log.held = True
    errors: list[Mapping[str, ErrorCode]] = []
    lab.coordinator.delete_groups([GROUP], errors.append)
    assert errors == [{GROUP: ErrorCode.NONE}]
    assert not lab.log.waiting


def test_an_earlier_commit_does_not_restore_a_deleted_offset(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.log.held = True
    lab.commit({("t", 0): 2})
    assert deleted_offsets(lab, T0) == [NONE]
    lab.log.release()
    live = lab.committed()
    assert live == {}
    lab.resign()
    lab.elect()
    assert lab.committed() == live


def test_errors_of_refused_commits_by_kind_of_client(lab: GroupLab) -> None:
    where = {("t", 0): 1}
    lab.commit(where)
    assert lab.commit(where, "a", 0) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    lab.join(new_id="a")
    lab.clock.advance(6_000)
    assert lab.commit(where, "stranger", 1) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert lab.commit(where, "a", 0) == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert lab.commit(where, "a", 1) == {T0: ErrorCode.REBALANCE_IN_PROGRESS}


# -- responses


def test_groups_are_listed_and_described(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1}, group_id="simple")
    lab.stable("a")
    listed = lab.coordinator.list_groups
    error, groups = listed([], [])
    assert error is NONE
    rows = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in groups}
    assert rows == {("simple", "", "Empty", "classic"), (GROUP, "consumer", "Stable", "classic")}
    assert [group.group_id for group in listed(["stable"], ["Classic"])[1]] == [GROUP]
    assert listed(["dead"], [])[1] == []
    assert listed([], ["consumer"])[1] == []
    found = lab.coordinator.describe(GROUP)
    assert (found.group_state, found.protocol_type, found.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    member = found.members[0]
    assert (member.member_id, member.client_id, member.client_host) == (
        "a",
        "client",
        "/127.0.0.1",
    )
    assert member.member_assignment == b"a"
    lab.join("a", protocols=["range"])
    found = lab.coordinator.describe(GROUP)
    assert (found.group_state, found.protocol_data) == ("CompletingRebalance", "")
    assert found.members[0].member_metadata == b""


# -- the log


def test_a_broker_that_does_not_coordinate_responds_not_coordinator() -> None:
    lab = GroupLab(elect=False)
    not_here = ErrorCode.NOT_COORDINATOR
    assert lab.join()[0].error_code == not_here
    assert lab.sync("a", 1)[0].error_code == not_here
    assert lab.beat("a", 1) is not_here
    assert lab.commit({("t", 0): 1}) == {T0: not_here}
    assert deleted(lab, GROUP) == {GROUP: not_here}
    assert lab.coordinator.describe(GROUP).error_code == not_here
    with pytest.raises(KafkaError):
        lab.committed()


def test_parked_requests_fail_when_the_coordinator_resigns(lab: GroupLab) -> None:
    lab.stable("a", "b")
    joining = lab.join("a")
    lab.resign()
    assert joining[0].error_code == ErrorCode.NOT_COORDINATOR
    assert lab.heartbeats.purgatory.delayed == lab.rebalances.purgatory.delayed == 0


def test_a_loaded_group_continues_in_its_generation(lab: GroupLab) -> None:
    generation, _ = lab.stable("a", "b")
    lab.resign()
    lab.elect()
    assert lab.group.state is GroupState.STABLE
    assert lab.beat("a", generation) is NONE
    assert lab.sync("b", generation)[0].assignment == b"b"
    lab.clock.advance(10_000)
    assert not lab.group.members, "sessions run again"


def test_an_older_epoch_changes_nothing(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    lab.coordinator.runtime.resigned(0, 0)
    assert lab.committed() == {("t", 0): 1}


def test_unreadable_records_are_skipped(lab: GroupLab) -> None:
    lab.commit({("t", 0): 1})
    for key, value in ((b"", b""), (b"\0\1\0", None), (b"\0\2\0\1g", b"\0\3\0"), (b"\0\x09x", b"")):
        lab.log.append_on_leader(0, build_batch([(0, key, value, ())]), lambda *_: None)
    lab.commit({("t", 0): 2})
    lab.resign()
    lab.elect()
    assert lab.committed() == {("t", 0): 2}
    assert lab.said().count("malformed_record_skipped") == 3
    assert "unknown_record_skipped" in lab.said()


@pytest.mark.parametrize("outcome", list(ControlRecordType))
def test_offsets_of_a_transaction_take_effect_when_it_is_committed(
    lab: GroupLab, outcome: ControlRecordType
) -> None:
    lab.commit({("t", 0): 1, ("t", 1): 1})
    record = OffsetCommitted(GROUP, T0, CommittedOffset(9, 2, "m", 3))
    batch = build_batch(
        [(0, *encode_record(record), ())], producer_id=7, producer_epoch=0, transactional=True
    )
    lab.log.append_on_leader(0, batch, lambda *_: None)
    lab.resign()
    lab.elect()
    assert lab.group.offsets.is_unstable(T0)
    assert lab.committed()["t", 0] == 1
    marker = build_batch(
        [(0, *encode_end_txn_marker(EndTxnMarker(outcome, 0)), ())],
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    lab.log.append_on_leader(0, marker, lambda *_: None)
    lab.resign()
    lab.elect()
    assert not lab.group.offsets.is_unstable(T0)
    assert lab.committed()["t", 0] == (9 if outcome is ControlRecordType.COMMIT else 1)


@pytest.mark.mission("MIX-15")
@pytest.mark.parametrize(
    ("protocol", "offset_version", "group_version"),
    [("2.0", 1, 1), ("2.1-IV0", 2, 2), ("2.2", 3, 2), ("2.3", 3, 3), ("3.9", 3, 3)],
)
def test_records_have_the_version_of_the_inter_broker_protocol(
    protocol: str, offset_version: int, group_version: int
) -> None:
    known = InterBrokerProtocol.parse(protocol)
    offset = OffsetCommitted("g", T0, CommittedOffset(258, 3, "m", 5))
    key, value = encode_record(offset, known)
    assert value is not None
    assert int.from_bytes(value[:2]) == offset_version
    kept = offset.committed and offset.committed._replace(
        leader_epoch=3 if offset_version == 3 else -1
    )
    assert decode_record(key, value) == offset._replace(committed=kept)
    member = MemberMetadata("m", None, "c", "/h", 5, 6, b"s", b"a")
    group = GroupMetadataValue("consumer", 4, "range", "m", -1, [member])
    key, value = encode_record(GroupStored("g", group), known)
    assert value is not None
    assert int.from_bytes(value[:2]) == group_version
    assert decode_record(key, value) == GroupStored("g", group)


@pytest.mark.mission("MIX-15")
def test_a_coordinator_writes_records_of_its_protocol() -> None:
    shard = GroupShard(GroupConfig(inter_broker_protocol=InterBrokerProtocol.IBP_2_0_IV1))
    _, value = shard.encode(OffsetCommitted("g", T0, CommittedOffset(1)))
    assert value is not None
    assert int.from_bytes(value[:2]) == 1


@pytest.mark.mission("MIX-15")
def test_static_members_need_a_protocol_that_stores_them() -> None:
    old = GroupLab(inter_broker_protocol=InterBrokerProtocol.IBP_2_2_IV1)
    (refused,) = old.join(instance="i")
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    known = GroupLab(inter_broker_protocol=InterBrokerProtocol.IBP_2_3_IV0)
    joined = known.join(instance="i")
    known.clock.advance(10_000)
    assert [response.error_code for response in joined] == [ErrorCode.NONE]


def test_records_are_kafkas_bytes() -> None:
    offset = OffsetCommitted("g", T0, CommittedOffset(258, 3, "m", 5))
    assert encode_record(offset) == (
        b"\0\1" + b"\0\1g" + b"\0\1t" + b"\0\0\0\0",
        b"\0\3" + (258).to_bytes(8, "big") + b"\0\0\0\3" + b"\0\1m" + (5).to_bytes(8, "big"),
    )
    expiring = OffsetCommitted("g", T0, CommittedOffset(1, -1, "", 5, 6))
    assert encode_record(expiring)[1] == (
        b"\0\1" + (1).to_bytes(8, "big") + b"\0\0" + (5).to_bytes(8, "big") + (6).to_bytes(8, "big")
    )
    assert encode_record(OffsetCommitted("g", T0, None))[1] is None
    assert encode_record(GroupStored("g", None)) == (b"\0\2\0\1g", None)
    member = MemberMetadata("m", "i", "c", "/h", 5, 6, b"s", b"a")
    stored = GroupStored("g", GroupMetadataValue("consumer", 1, "range", "m", 9, [member]))
    _, value = encode_record(stored)
    assert value is not None
    assert value[:2] == b"\0\3"
    for record in (offset, expiring, stored):
        assert decode_record(*encode_record(record)) == record


def test_a_group_record_before_kafka_0_10_1_uses_the_session_timeout() -> None:
    shard = GroupShard(GroupConfig())
    value = (
        b"\0\0" + b"\0\x08consumer" + b"\0\0\0\1" + b"\0\1r" + b"\0\1m"
        + b"\0\0\0\1" + b"\0\1m\0\1c\0\2/h" + b"\0\0\0\x09" + b"\0\0\0\0" + b"\0\0\0\0"
    )  # fmt: skip
    record = decode_record(b"\0\2\0\1g", value)
    assert record is not None
    shard.replay(record, 0)
    assert shard.groups["g"].members["m"].rebalance_timeout_ms == 9
