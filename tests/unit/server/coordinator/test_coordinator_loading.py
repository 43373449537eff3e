"""Loading groups from the log: complete, and despite damage in it."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.group.group import Group, GroupConfig, GroupState
from minikafka.core.group.records import (
    CommittedOffset,
    GroupStored,
    OffsetCommitted,
    encode_record,
)
from minikafka.core.group.shard import GroupShard
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.offsets_log import GroupMetadataValue, MemberMetadata
from minikafka.protocol.records.batch import TRANSACTIONAL_FLAG, parse_batch
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import ControlRecordType, EndTxnMarker
from minikafka.protocol.records.control import encode_end_txn_marker as encode_marker
from minikafka.protocol.records.record import encode_record as record_bytes
from minikafka.server.coordinator.loader import CoordinatorLoader
from tests.support.coordinator.group_lab import GroupLab, LabClock, MemoryLog, run
from tests.support.storage.stored_batches import stamp, stored_batch
from tests.support.world.recording_log import RecordingLog
from tests.support.world.turns import most_calls_in_a_turn, pause_at_every_element


def value(
    *members: tuple[str, str | None],
    leader: str | None,
    protocol: str | None = "range",
    generation: int = 3,
) -> GroupMetadataValue:
    stored = [MemberMetadata(m, i, "c", "/h", 10_000, 10_000, b"", b"") for m, i in members]
    return GroupMetadataValue("consumer", generation, protocol, leader, 0, stored)


def write(lab: GroupLab, *records: tuple[bytes, bytes | None]) -> None:
    lab.log.append_on_leader(
        0, build_batch([(0, *record, ()) for record in records]), lambda *_: None
    )


def reload(lab: GroupLab) -> None:
    lab.resign()
    lab.elect()


# -- damage


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(value(("a", "i"), ("b", "i"), leader="a"), id="one instance twice"),
        pytest.param(value(("a", None), ("a", None), leader="a"), id="one member twice"),
        pytest.param(value(("a", None), leader="ghost"), id="a leader that is no member"),
        pytest.param(value(leader="ghost", protocol=None), id="a leader of nobody"),
        pytest.param(value(("a", None), leader="a", protocol=None), id="no protocol"),
        pytest.param(value(leader=None, generation=-1), id="before the first generation"),
        pytest.param(value(leader=None, generation=2**31 - 1), id="none after it"),
    ],
)
def test_a_record_of_an_inconsistent_group_is_skipped(bad: GroupMetadataValue) -> None:
    """A client with write access to the topic could append it. It must not stop the coordinator."""
    lab = GroupLab()
    lab.commit({("t", 0): 7})
    write(lab, encode_record(GroupStored("g", bad)))
    reload(lab)
    assert lab.said().count("malformed_record_skipped") == 1
    assert lab.committed() == {("t", 0): 7}
    lab.stable("x", "y")
    assert lab.group.state is GroupState.STABLE


def test_without_a_leader_the_first_member_becomes_leader() -> None:
    lab = GroupLab()
    write(lab, encode_record(GroupStored("g", value(("a", None), ("b", None), leader=None))))
    reload(lab)
    assert lab.group.leader_id == "a"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param((61, b"\xff\xff\xff\xff"), id="a record"),
        pytest.param((70, b"\0"), id="a byte that only the checksum tells of"),
        pytest.param((17, b"\0\0\0\0"), id="the checksum"),
        pytest.param((23, b"\x7f\xff\xff\xff"), id="where it ends"),
    ],
)
def test_a_damaged_batch_is_skipped(damage: tuple[int, bytes]) -> None:
    lab = GroupLab()
    for offset in (1, 2, 3):
        lab.commit({("t", offset): offset})
    position, new = damage
    batch = lab.log.batches[1]
    lab.log.batches[1] = batch[:position] + new + batch[position + len(new) :]
    assert lab.log.batches[1] != batch
    reload(lab)
    assert lab.committed() == {("t", 1): 1, ("t", 3): 3}
    assert lab.said().count("batch_skipped") == 1


def test_after_a_damaged_header_the_records_before_it_are_served() -> None:
    lab = GroupLab()
    for offset in (1, 2, 3):
        lab.commit({("t", offset): offset})
    batch = lab.log.batches[1]
    lab.log.batches[1] = batch[:16] + b"\x09" + batch[17:]  # the magic
    reload(lab)
    assert lab.committed() == {("t", 1): 1}
    assert "log_damaged" in lab.said()
    assert lab.commit({("t", 4): 4}) == {TopicPartition("t", 4): ErrorCode.NONE}


def test_a_batch_that_overlaps_the_previous_one_is_skipped() -> None:
    """The checksum does not cover the base offset: a damaged one may repeat offsets."""
    lab = GroupLab()
    lab.commit({("t", 1): 1, ("t", 2): 2})
    lab.commit({("t", 1): 3, ("t", 2): 3})
    overlapping = bytearray(lab.log.batches[1])
    assert parse_batch(overlapping, 0).base_offset == 2
    stamp(overlapping, 1, 0)
    lab.log.batches[1] = bytes(overlapping)
    reload(lab)
    assert lab.committed() == {("t", 1): 1, ("t", 2): 2}
    assert lab.said().count("batch_skipped") == 1


class RefusingLog(MemoryLog):
    """``refusals`` are the errors of the next reads. ``start`` is the log start offset."""

    start = 0

    def __init__(self, *refusals: Exception) -> None:
        super().__init__()
        self.refusals = list(refusals)

    def bounds(self, partition: int) -> tuple[int, int]:
        return self.start, self.end

    async def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        if self.refusals:
            raise self.refusals.pop(0)
        if offset < self.start:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return b"".join(self.batches[offset : offset + 1])


class PatientClock(LabClock):
    async def sleep(self, delay_ms: int) -> None:
        return


def load(log: MemoryLog, events: RecordingLog, clock: PatientClock | None = None) -> GroupShard:
    shard = GroupShard(GroupConfig())
    loader = CoordinatorLoader(clock or PatientClock(), log, 1 << 20, events)
    outcome: list[bool] = []

    async def whole() -> None:
        outcome.append(await loader.load(0, cast(Any, shard), lambda: True))

    run(whole())
    assert outcome == [True]
    return shard


def commits(log: MemoryLog, count: int) -> None:
    for number in range(count):
        where = TopicPartition("t", number)
        record = encode_record(OffsetCommitted("g", where, CommittedOffset(number)))
        log.append(0, build_batch([(0, *record, ())]), lambda *_: None)


def test_transient_read_errors_are_retried_and_damage_is_not() -> None:
    storage = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    log, events = RefusingLog(OSError("I/O error"), storage), RecordingLog()
    commits(log, 3)
    assert len(load(log, events).groups["g"].offsets) == 3
    assert [name for _, name, _ in events.events] == ["loading_failed", "loading_failed"]
    broken = RefusingLog(KafkaError(ErrorCode.CORRUPT_MESSAGE))
    commits(broken, 3)
    assert not load(broken, events).groups
    assert events.events[-1][1] == "log_damaged"


def test_a_log_may_end_above_its_last_batch() -> None:
    """After a truncation inside a batch, or a gap left by compaction."""
    log, events = RefusingLog(), RecordingLog()
    commits(log, 3)
    log.end += 2
    assert len(load(log, events).groups["g"].offsets) == 3
    assert events.events == []


def test_records_deleted_while_loading_are_skipped() -> None:
    log = RefusingLog()
    commits(log, 5)
    read = log.read

    async def read_and_delete(partition: int, offset: int, max_bytes: int) -> bytes:
        data = await read(partition, offset, max_bytes)
        log.start = 3
        return data

    log.read = read_and_delete  # type: ignore[method-assign]
    shard = load(log, RecordingLog())
    assert [tp.partition for tp in shard.groups["g"].offsets] == [0, 3, 4]


async def test_loading_yields_to_other_requests_even_with_small_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, count = MemoryLog(), 40
    commits(log, count)
    loader = CoordinatorLoader(PatientClock(), log, 1 << 20, RecordingLog())
    work = partial(loader.load, 0, cast(Any, GroupShard(GroupConfig())), lambda: True)
    _, most_at_once = await most_calls_in_a_turn(work())
    pause_at_every_element(monkeypatch)
    _, most = await most_calls_in_a_turn(work())
    assert most * 4 < most_at_once


# -- loading compared with a replay record by record

GROUPS, PARTITIONS, PRODUCERS = ("g", "h"), (0, 1), (7, 8)
groups, partitions = st.sampled_from(GROUPS), st.sampled_from(PARTITIONS)
producers = st.sampled_from(PRODUCERS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), groups, partitions, st.none() | producers),
        st.tuples(st.just("delete"), groups, partitions, st.none() | producers),
        st.tuples(st.just("group"), groups, st.booleans()),
        st.tuples(st.just("end"), producers, st.booleans()),
    ),
    max_size=25,
)


def _append(log: MemoryLog, number: int, step: tuple[Any, ...]) -> None:
    kind, *facts = step
    options: dict[str, Any] = {}
    if kind == "end":
        producer_id, committed = facts
        outcome = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
        record: tuple[bytes, bytes | None] = encode_marker(EndTxnMarker(outcome, 0))
        options = {"producer_id": producer_id, "transactional": True, "control": True}
    elif kind == "group":
        group_id, lives = facts
        stored = value(("a", None), leader="a", generation=number) if lives else None
        record = encode_record(GroupStored(group_id, stored))
    else:
        group_id, partition, producer_id = facts
        new = CommittedOffset(number) if kind == "commit" else None
        record = encode_record(OffsetCommitted(group_id, TopicPartition("t", partition), new))
        if producer_id is not None:
            options = {"producer_id": producer_id, "transactional": True}
    if options:
        options["producer_epoch"] = 0
    log.append(0, build_batch([(0, *record, ())], **options), lambda *_: None)


def _replayed(steps: list[tuple[Any, ...]]) -> GroupShard:
    shard = GroupShard(GroupConfig())
    for number, (kind, *facts) in enumerate(steps):
        if kind == "end":
            shard.replay_end_transaction_marker(facts[0], number, facts[1])
        elif kind == "group":
            stored = value(("a", None), leader="a", generation=number) if facts[1] else None
            shard.replay(GroupStored(facts[0], stored), number)
        else:
            new = CommittedOffset(number) if kind == "commit" else None
            record = OffsetCommitted(facts[0], TopicPartition("t", facts[1]), new)
            shard.replay(record, number, facts[2])
    return shard


def _seen(shard: GroupShard) -> list[Any]:
    """The state now, and after committing the open transactions. Which offsets are unstable until
    then depends on tombstones that compaction removes, so it is not compared."""
    shard.loaded(0)
    found = [_state(shard)]
    for producer_id in PRODUCERS:
        shard.replay_end_transaction_marker(producer_id, 1_000_000, committed=True)
        found.append(_state(shard))
    return found


def _state(shard: GroupShard) -> dict[str, Any]:
    where = [TopicPartition("t", partition) for partition in PARTITIONS]
    return {
        group_id: (
            group.generation_id if isinstance(group, Group) else group.epoch,
            list(group.members),
            [group.offsets.get(tp) for tp in where],
        )
        for group_id, group in sorted(shard.groups.items())
    }


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_loading_gives_the_same_state_as_replaying_every_record(
    steps: list[tuple[Any, ...]],
) -> None:
    log = MemoryLog()
    for number, step in enumerate(steps):
        _append(log, number, step)
    assert [parse_batch(batch, 0).base_offset for batch in log.batches] == list(range(len(steps)))
    assert _seen(load(log, RecordingLog())) == _seen(_replayed(steps))


def test_loading_and_resigning_are_logged_with_the_number_of_groups() -> None:
    """At level debug for a partition without groups: a broker leads many."""
    lab = GroupLab()
    lab.commit({("t", 0): 1})
    lab.commit({("t", 0): 1}, group_id="h")
    reload(lab)
    found = [
        (level, name, facts["groups"])
        for level, name, facts in lab.events.events
        if name in ("groups_loaded", "coordinator_resigned")
    ]
    assert found == [
        ("debug", "groups_loaded", 0),
        ("info", "coordinator_resigned", 2),
        ("info", "groups_loaded", 2),
    ]


# -- loaded groups


def loaded(stored: GroupMetadataValue) -> GroupLab:
    lab = GroupLab()
    write(lab, encode_record(GroupStored("g", stored)))
    reload(lab)
    return lab


def test_a_group_is_loaded_with_its_leader_protocol_and_time() -> None:
    group = loaded(value(("a", None), ("b", None), leader="b")).group
    assert (group.leader_id, group.protocol_name, group.state_since_ms) == ("b", "range", 0)


def test_the_time_of_a_group_may_be_unknown() -> None:
    stored = value(leader=None, protocol=None)
    stored.current_state_timestamp = -1
    assert loaded(stored).group.state_since_ms is None


def test_a_group_of_offsets_alone_counts_from_its_loading() -> None:
    lab = GroupLab()
    lab.commit({("t", 0): 1})
    lab.clock.advance(1_000)
    reload(lab)
    assert (lab.group.protocol_type, lab.group.state_since_ms) == (None, lab.clock.wall_ms())
    stored = value(leader=None, protocol=None)
    stored.protocol_type, stored.current_state_timestamp = "", 5
    write(lab, encode_record(GroupStored("g", stored)))
    reload(lab)
    assert (lab.group.protocol_type, lab.group.state_since_ms) == (None, 5)
    assert lab.group.state is GroupState.EMPTY


def test_a_loaded_group_keeps_its_subscribed_topics() -> None:
    lab = GroupLab()
    lab.commit({("t", 0): 1, ("u", 0): 1})
    lab.stable("a", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
    reload(lab)
    errors: dict[TopicPartition, ErrorCode] = {}
    t, u = TopicPartition("t", 0), TopicPartition("u", 0)
    lab.coordinator.delete_offsets("g", [t, u], errors.update)
    assert errors == {t: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, u: ErrorCode.NONE}


def test_offsets_of_a_group_survive_the_tombstone_of_the_group() -> None:
    lab = GroupLab()
    lab.commit({("t", 0): 1})
    lab.stable("a")
    write(lab, encode_record(GroupStored("g", None)))
    reload(lab)
    assert (lab.committed(), lab.group.generation_id) == ({("t", 0): 1}, 0)
    lab = loaded(value(("a", None), leader="a"))
    write(lab, encode_record(GroupStored("g", None)))
    reload(lab)
    assert lab.find_group("g") is None


def test_a_group_that_does_not_exist_has_no_members() -> None:
    refused = GroupLab().join("stranger", protocols=[])[0]
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")


def test_a_loaded_group_of_the_greatest_size_stays_stable() -> None:
    lab = GroupLab(group_max_size=2)
    lab.stable("a", "b")
    reload(lab)
    assert lab.group.state is GroupState.STABLE


def test_a_parked_sync_fails_when_the_coordinator_resigns() -> None:
    lab = GroupLab()
    for name in "ab":
        lab.join(new_id=name)
    lab.clock.advance(6_000)
    waiting = lab.sync("b", 1)
    lab.resign()
    assert [response.error_code for response in waiting] == [ErrorCode.NOT_COORDINATOR]


# -- batches that an admin client wrote


@pytest.mark.mission("SAFE-63")
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL_FLAG])
@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 7), (-1, 0)])
def test_a_batch_whose_offsets_cannot_be_is_skipped(
    deltas: tuple[int, int], attributes: int
) -> None:
    log, events = RefusingLog(), RecordingLog()
    payload = b"".join(
        record_bytes(delta, 0, b"\x00\x01k", b"%d" % number) for number, delta in enumerate(deltas)
    )
    log.append(0, stored_batch(payload, 2, attributes=attributes), lambda *_: None)
    commits(log, 2)
    log.batches.insert(1, b"")  # what is read at the offset inside of the batch
    shard = load(log, events)
    assert len(shard.groups["g"].offsets) == 2
    assert "batch_skipped" in [name for _, name, _ in events.events]


@pytest.mark.mission("SAFE-63")
def test_the_headers_of_records_are_not_parsed() -> None:
    log, events = RefusingLog(), RecordingLog()
    where = TopicPartition("t", 0)
    record = encode_record(OffsetCommitted("g", where, CommittedOffset(0)))
    whole = record_bytes(0, 0, *record, [("h", b"")])
    broken = whole[:-3] + b"\xff\xff\xff"
    log.append(0, stored_batch(broken, 1), lambda *_: None)
    assert len(load(log, events).groups["g"].offsets) == 1
