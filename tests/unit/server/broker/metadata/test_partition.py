"""A single partition: roles, acknowledgements, and the requests that it rejects."""

from __future__ import annotations

import pytest

from minikafka.core.replication.partition_state import IsrState
from minikafka.kernel.cluster import LeaderAndIsr, ReplicaAssignment
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.server.broker.replication.partition import Instruction, Partition
from minikafka.server.storage.log.unified_log import LogConfig, UnifiedLog
from tests.support.broker.replicas import TP, batch
from tests.support.storage.instant_files import InstantFiles

LAG_MS = 1_000


class Submitted(list[Partition]):
    def __call__(self, partition: Partition) -> None:
        self.append(partition)


def partition(
    live: tuple[int, ...] = (1, 2, 3), moved: list[Partition] | None = None
) -> tuple[Partition, Submitted]:
    submitted = Submitted()
    made = Partition(TP, 1, LAG_MS, live, submitted, [] if moved is None else moved)
    files = InstantFiles()
    files.make_directories("/data/flights-0")
    made.open_log(UnifiedLog(files, "/data/flights-0", TP, LogConfig()), 0)
    return made, submitted


def instruction(
    leader: int = 1, isr: tuple[int, ...] = (1, 2, 3), epoch: int = 0, zk_version: int = 0
) -> Instruction:
    return Instruction(
        TP,
        LeaderAndIsr(leader, epoch, isr, zk_version),
        ReplicaAssignment((1, 2, 3)),
        controller_epoch=1,
    )


def append(made: Partition, value: str, acks: int = -1) -> int:
    return made.append_as_leader(bytearray(batch(value)), acks, 0, 0)[0].first_offset


def test_a_partition_without_a_role_serves_nothing() -> None:
    made = Partition(TP, 1, LAG_MS, (), Submitted(), [])
    with pytest.raises(KafkaError) as raised:
        made.readable_log(-1, leader_only=False)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError):
        append(made, "a")
    assert made.acknowledged(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert made.maybe_shrink(0) == ()
    assert not made.advance_high_watermark(0)


def test_an_older_state_znode_changes_nothing() -> None:
    made, _ = partition()
    assert made.make_leader(instruction(zk_version=5), 0)
    assert not made.make_leader(instruction(isr=(1,), epoch=1, zk_version=4), 0)
    assert made.state.isr.committed == (1, 2, 3)
    assert not made.make_follower(instruction(leader=2, epoch=1, zk_version=4))
    assert made.is_leader


def test_too_few_in_sync_when_it_is_acknowledged() -> None:
    made, _ = partition()
    made.make_leader(instruction(isr=(1, 2)), 0)
    append(made, "a")
    assert made.acknowledged(1) is None
    assert made.record_follower_fetch(2, 1, 0, 10)
    assert made.acknowledged(1) is ErrorCode.NONE
    made.configure(TopicConfig(min_insync_replicas=3))
    assert made.acknowledged(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_only_a_live_follower_that_has_reached_the_epoch_joins() -> None:
    made, submitted = partition(live=(1, 2))
    made.make_leader(instruction(isr=(1,)), 0)
    append(made, "a", acks=1)
    made.make_follower(instruction(leader=2, isr=(2,), epoch=1))
    made.make_leader(instruction(isr=(1,), epoch=2), 0)
    made.record_follower_fetch(3, 1, 0, 5)
    assert submitted == []  # not alive
    made.record_follower_fetch(2, 0, 0, 5)
    assert submitted == []  # not far enough
    made.record_follower_fetch(2, 1, 0, 6)
    assert submitted == [made]
    assert made.state.isr.proposed == (1, 2)
    made.record_follower_fetch(2, 1, 0, 7)
    assert submitted == [made]  # one change at a time


def test_a_pending_expansion_already_holds_the_high_watermark() -> None:
    made, _ = partition()
    made.make_leader(instruction(isr=(1,)), 0)
    made.record_follower_fetch(2, 0, 0, 5)
    assert made.state.isr.proposed == (1, 2)
    append(made, "a", acks=1)
    assert made.high_watermark == 0
    made.isr_written(1, 6)
    assert made.state.isr.committed == (1, 2)
    assert made.high_watermark == 0
    assert made.record_follower_fetch(2, 1, 0, 7)
    assert made.high_watermark == 1


@pytest.mark.mission("MIX-3")
def test_a_new_controller_that_knows_the_same_state_leaves_a_change_in_flight() -> None:
    made, _ = partition()
    made.make_leader(instruction(isr=(1,)), 0)
    made.record_follower_fetch(2, 0, 0, 5)
    assert made.state.isr.proposed == (1, 2)
    # The new controller has read the znode just before the change was written to it.
    made.make_leader(instruction(isr=(1,)), 6)
    append(made, "a", acks=1)
    assert not made.advance_high_watermark(LAG_MS * 9)  # the follower has not fetched for long
    made.isr_written(1, LAG_MS * 9)
    assert made.state.isr.committed == (1, 2)
    made.make_leader(instruction(isr=(1,), zk_version=2), 8)
    assert made.state.isr == IsrState((1,))


def test_a_refused_isr_change_is_not_requested_again() -> None:
    made, submitted = partition()
    made.make_leader(instruction(), 0)
    append(made, "a")
    assert made.maybe_shrink(LAG_MS + 1) == (2, 3)
    made.isr_refused()
    assert made.maybe_shrink(LAG_MS * 9) == ()
    made.record_follower_fetch(2, 1, 0, LAG_MS * 9)
    assert submitted == [made]
    assert made.state.isr.maximal == {1, 2, 3}


def test_the_high_watermark_follows_the_leader_within_the_log() -> None:
    made, _ = partition()
    made.make_follower(instruction(leader=2))
    made.append_as_follower(batch("a", "b"))
    assert made.follow_high_watermark(9)
    assert made.high_watermark == 2
    made.truncate_to(0)
    assert made.high_watermark == 0
    made.truncate_fully_and_start_at(7)
    assert (made.high_watermark, made.log.log_end_offset) == (7, 7)


@pytest.mark.mission("FET-16")
def test_a_partition_says_that_its_high_watermark_has_moved() -> None:
    moved: list[Partition] = []

    def has_moved() -> bool:
        """Whether it has, since the last call. It says so once."""
        found = list(moved)
        moved.clear()
        assert len(found) <= 1
        for each in found:
            each.is_moved = False
        return bool(found)

    made, _ = partition(moved=moved)
    assert has_moved()  # the log was opened
    made.make_leader(instruction(isr=(1,)), 0)
    assert not has_moved()
    append(made, "a", acks=1)
    append(made, "b", acks=1)
    assert made.high_watermark == 2
    assert has_moved()
    made.make_follower(instruction(leader=2, epoch=1, zk_version=1))
    assert not made.follow_high_watermark(2)
    assert not has_moved()
    made.truncate_to(1)
    assert has_moved()
    made.truncate_fully_and_start_at(5)
    assert has_moved()
    made.close()
    assert has_moved()
