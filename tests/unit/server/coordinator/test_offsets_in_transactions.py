"""Offsets in transactions: pending until the marker, and fenced by KIP-447."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from minikafka.core.coordinator_shard import InTransaction
from minikafka.core.group.group import GroupState
from minikafka.core.group.offsets import GroupOffsets
from minikafka.core.group.records import CommittedOffset, OffsetCommitted
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.records.batch import parse_batch
from minikafka.server.coordinator.runtime import CoordinatorState
from tests.support.coordinator.group_lab import GROUP, PARTITION, GroupLab
from tests.support.storage.stored_batches import stamp
from tests.support.storage.transactions import marker

E = ErrorCode
PID = 7
WHERE = ("flights", 0)
TP = TopicPartition(*WHERE)
TXN = InTransaction(PID, 0)


def unstable(lab: GroupLab) -> bool:
    (found,) = lab.coordinator.fetch(GROUP, [TP], require_stable=True)
    return found.error is E.UNSTABLE_OFFSET_COMMIT


def marked(lab: GroupLab, committed: bool, producer_id: int = PID) -> int:
    """The marker is in the log, at this offset."""
    offset = lab.log.end
    batch = bytearray(marker(producer_id, 0, committed))
    stamp(batch, offset, 0)
    lab.log.batches.append(bytes(batch))
    lab.log.end += 1
    return offset


def marker_replicated(lab: GroupLab, offset: int, committed: bool, producer_id: int = PID) -> None:
    """The marker there is replicated."""
    lab.coordinator.transaction_ended(producer_id, {PARTITION: offset}, committed)


def ended(lab: GroupLab, committed: bool, producer_id: int = PID) -> None:
    marker_replicated(lab, marked(lab, committed, producer_id), committed, producer_id)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("reloaded", [True, False])
def test_offsets_take_effect_when_the_transaction_is_committed(
    committed: bool, reloaded: bool
) -> None:
    lab = GroupLab()
    assert lab.commit({WHERE: 5}, transaction=TXN) == {TP: E.NONE}
    assert lab.committed() == {}
    assert unstable(lab)
    if reloaded:
        lab.resign()
        lab.elect()
        assert unstable(lab)
    ended(lab, committed)
    assert lab.committed() == ({WHERE: 5} if committed else {})
    assert not unstable(lab)
    lab.resign()
    lab.elect()
    assert lab.committed() == ({WHERE: 5} if committed else {})


def test_the_batch_belongs_to_the_transaction() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=InTransaction(PID, 3))
    batch = parse_batch(lab.log.batches[-1], 0)
    assert (batch.producer_id, batch.producer_epoch) == (PID, 3)
    assert (batch.is_transactional, batch.is_control, batch.base_sequence) == (True, False, -1)


def test_pending_transactional_offsets_are_unstable() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 1})
    lab.log.held = True
    response = lab.commit({WHERE: 5}, transaction=TXN)
    assert response == {}
    assert unstable(lab)
    lab.log.release(E.NOT_ENOUGH_REPLICAS)
    assert response == {TP: E.COORDINATOR_NOT_AVAILABLE}
    assert not unstable(lab)
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 1}


def test_the_later_record_of_two_commits_wins() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    lab.commit({WHERE: 9})
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 9}


def test_markers_of_other_producers_do_not_matter() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    ended(lab, True, producer_id=8)
    assert lab.committed() == {}
    ended(lab, True)
    assert lab.committed() == {WHERE: 5}


def test_a_marker_is_not_applied_directly_while_the_partition_is_loading() -> None:
    """The loader may not have come to the end of the transaction before yet: that is not the one
    that ends now."""
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    ended(lab, committed=True)
    lab.resign()
    lab.elect()
    context = lab.coordinator.runtime.active_in(PARTITION)
    assert context is not None
    context.state = CoordinatorState.LOADING
    group = context.shard.groups[GROUP]
    group.offsets.replay_in_transaction(PID, TP, 9, group.offsets.get(TP))
    marker_replicated(lab, 10, committed=False)
    assert group.offsets.is_unstable(TP)


# -- settled in another order than that of the log: one fetch of a follower replicates several
# batches


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_may_be_replayed_before_the_offsets_that_it_ends(committed: bool) -> None:
    lab = GroupLab()
    lab.log.held = True
    lab.commit({WHERE: 5}, transaction=TXN)
    ended(lab, committed)
    assert unstable(lab)
    lab.log.release()
    assert not unstable(lab)
    lab.log.held = False
    assert lab.committed() == ({WHERE: 5} if committed else {})
    lab.commit({("flights", 1): 1}, transaction=InTransaction(PID, 1))
    ended(lab, committed=True)
    assert lab.committed() == {("flights", 1): 1} | ({WHERE: 5} if committed else {})
    live = lab.committed()
    lab.resign()
    lab.elect()
    assert lab.committed() == live


def test_a_failed_offset_is_not_committed_by_the_marker() -> None:
    lab = GroupLab()
    lab.log.held = True
    lab.commit({WHERE: 5}, transaction=TXN)
    ended(lab, committed=True)
    lab.log.release(E.NOT_ENOUGH_REPLICAS)
    assert (lab.committed(), unstable(lab)) == ({}, False)


def test_a_marker_replayed_late_does_not_end_the_next_transaction() -> None:
    """It was written twice, since its first response was lost while it waited for other markers."""
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    first = marked(lab, committed=True)
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 5}
    lab.commit({WHERE: 9}, transaction=TXN)
    marker_replicated(lab, first, committed=True)
    assert (lab.committed(), unstable(lab)) == ({WHERE: 5}, True)
    ended(lab, committed=False)
    assert (lab.committed(), unstable(lab)) == ({WHERE: 5}, False)


@pytest.mark.parametrize("seed", range(30))
def test_every_order_of_replay_gives_the_state_of_the_log(seed: int) -> None:
    """The dumb twin is another coordinator that reads the same log. A producer begins nothing new
    before its last marker is marker_replicated of."""
    dice = Random(seed)
    lab = GroupLab()
    lab.log.held = True
    news: list[Callable[[], None]] = []
    for number in range(40):
        producer_id = dice.randrange(2)
        where = ("flights", dice.randrange(2))
        lab.commit({where: number}, transaction=InTransaction(producer_id, 0))
        news += [partial(done, E.NONE, at) for done, at in lab.log.waiting]
        lab.log.waiting.clear()
        if dice.random() < 0.4:
            committed = dice.random() < 0.6
            news.append(
                partial(
                    marker_replicated,
                    lab,
                    marked(lab, committed, producer_id),
                    committed,
                    producer_id,
                )
            )
            dice.shuffle(news)
            while news:
                news.pop()()
    for producer_id in range(2):
        ended(lab, True, producer_id)
    while news:
        news.pop(dice.randrange(len(news)))()
    live = lab.committed()
    assert not any(lab.group.offsets.awaits(producer_id) for producer_id in range(2))
    lab.resign()
    lab.elect()
    assert lab.committed() == live


def test_a_marker_visits_only_the_groups_of_its_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The partition may have thousands of other groups."""
    lab = GroupLab()
    for number in range(50):
        lab.commit({WHERE: number}, group_id=f"other-{number}")
    lab.commit({WHERE: 5}, transaction=TXN)
    lab.commit({WHERE: 6}, group_id="g2", transaction=TXN)
    looked_at: list[int] = []
    end = GroupOffsets.end_transaction

    def counted(self: GroupOffsets, producer_id: int, *rest: Any) -> None:
        looked_at.append(producer_id)
        end(self, producer_id, *rest)

    monkeypatch.setattr(GroupOffsets, "end_transaction", counted)
    ended(lab, committed=True)
    ended(lab, committed=True)
    assert looked_at == [PID, PID]
    assert (lab.committed(), lab.committed("g2")) == ({WHERE: 5}, {WHERE: 6})


def test_a_group_may_be_deleted_before_the_marker_is_replayed() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 1})
    lab.commit({WHERE: 5}, transaction=TXN)
    marker_replicated: dict[str, E] = {}
    lab.coordinator.delete_groups([GROUP], marker_replicated.update)
    assert marker_replicated == {GROUP: E.NONE}
    assert lab.find_group(GROUP) is None
    ended(lab, committed=True)
    assert lab.find_group(GROUP) is None
    lab.resign()
    lab.elect()
    assert lab.find_group(GROUP) is None
    ended(lab, committed=True)


def test_a_group_recreated_while_an_old_transaction_ends() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    lab.coordinator.delete_groups([GROUP], lambda _: None)
    lab.commit({WHERE: 1})
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 1}
    lab.resign()
    lab.elect()
    assert lab.committed() == {WHERE: 1}


def test_a_client_that_names_its_member_must_be_in_this_generation() -> None:
    """KIP-447. Before it producers did not name their member."""
    lab = GroupLab()
    generation, (member,) = lab.stable("a")
    assert lab.commit({WHERE: 1}, transaction=TXN) == {TP: E.NONE}
    assert lab.commit({WHERE: 1}, member, generation, transaction=TXN) == {TP: E.NONE}
    stale = lab.commit({WHERE: 1}, member, generation - 1, transaction=TXN)
    assert stale == {TP: E.ILLEGAL_GENERATION}
    stranger = lab.commit({WHERE: 1}, "x", generation, transaction=TXN)
    assert stranger == {TP: E.UNKNOWN_MEMBER_ID}
    unknown = lab.commit({WHERE: 1}, "x", 1, group_id="none", transaction=TXN)
    assert unknown == {TP: E.UNKNOWN_MEMBER_ID}


def test_a_group_with_offsets_in_a_transaction_is_not_removed() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    lab.expire()
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 5}


def test_a_generation_or_instance_id_names_a_member() -> None:
    lab = GroupLab()
    generation, (member,) = lab.stable("a")
    for claimed in (0, generation):
        assert lab.commit({WHERE: 1}, "", claimed, transaction=TXN) == {TP: E.UNKNOWN_MEMBER_ID}
    by_instance = lab.commit({WHERE: 1}, "", -1, instance="i", transaction=TXN)
    assert by_instance == {TP: E.UNKNOWN_MEMBER_ID}
    lab.join(member, protocols=["range", "other"])
    assert lab.group.state is GroupState.COMPLETING_REBALANCE
    assert lab.commit({WHERE: 1}, member, generation + 1, transaction=TXN) == {TP: E.NONE}


def test_refused_offsets_await_no_marker() -> None:
    lab = GroupLab()
    marker_replicated = lab.commit({WHERE: 1}, metadata="x" * 4097, transaction=TXN)
    assert marker_replicated == {TP: E.OFFSET_METADATA_TOO_LARGE}
    assert not lab.group.offsets.has_pending


def test_deleting_a_group_deletes_its_transactional_offsets() -> None:
    lab = GroupLab()
    lab.commit({("flights", 1): 1})
    lab.commit({WHERE: 5}, transaction=TXN)
    lab.log.held = True
    lab.commit({("flights", 2): 5}, transaction=InTransaction(8, 0))
    before = lab.log.end
    lab.coordinator.delete_groups([GROUP], lambda _: None)
    tombstones = {
        record.topic_partition.partition
        for record in list(lab.log.records())[before:]
        if isinstance(record, OffsetCommitted)
    }
    assert tombstones == {0, 1, 2}


class TestOffsetsOfOneTransaction:
    NEW, OLD = CommittedOffset(9), CommittedOffset(5)
    OTHER = TopicPartition("flights", 1)

    def test_a_tombstone_in_the_transaction_removes_its_offset(self) -> None:
        offsets = GroupOffsets()
        offsets.replay_in_transaction(PID, TP, 1, self.NEW)
        offsets.replay_in_transaction(PID, TP, 2, None)
        assert not offsets.awaits(PID)
        offsets.end_transaction(PID, 3, committed=True)
        assert offsets.get(TP) is None

    def test_the_later_record_wins_even_if_it_is_replayed_first(self) -> None:
        offsets = GroupOffsets()
        offsets.replay_in_transaction(PID, TP, 9, self.NEW)
        offsets.replay_in_transaction(PID, TP, 5, self.OLD)
        offsets.end_transaction(PID, 10, committed=True)
        assert offsets.get(TP) == self.NEW

    def test_deleting_one_offset_keeps_the_others(self) -> None:
        offsets = GroupOffsets()
        for topic_partition in (TP, self.OTHER):
            offsets.replay_in_transaction(PID, topic_partition, 1, self.NEW)
        offsets.remove(TP)
        offsets.end_transaction(PID, 3, committed=True)
        assert (offsets.get(TP), offsets.get(self.OTHER)) == (None, self.NEW)

    def test_a_marker_replayed_first_ends_only_the_offsets_before_it(self) -> None:
        offsets = GroupOffsets()
        offsets.begin_in_transaction(PID, [TP, self.OTHER])
        offsets.end_transaction(PID, 10, committed=True)
        offsets.replay_in_transaction(PID, TP, 5, self.OLD)
        offsets.replay_in_transaction(PID, self.OTHER, 11, self.NEW)
        assert (offsets.get(TP), offsets.get(self.OTHER)) == (self.OLD, None)
        assert offsets.awaits(PID)

    def test_each_kind_of_pending_commit_is_pending(self) -> None:
        offsets = GroupOffsets()
        assert not offsets.has_pending
        offsets.begin({TP: self.NEW})
        assert offsets.has_pending
        offsets.fail(TP, self.NEW)
        offsets.begin_in_transaction(PID, [TP])
        assert offsets.has_pending
        offsets.settle_in_transaction(PID, TP)
        offsets.replay_in_transaction(PID, TP, 1, self.NEW)
        assert offsets.has_pending
        offsets.end_transaction(PID, 2, committed=False)
        assert not offsets.has_pending

    def test_a_record_at_the_end_of_the_log_is_not_older_than_it(self) -> None:
        offsets = GroupOffsets()
        offsets.replay(TP, 5, self.OLD)
        assert (offsets.is_older(TP, 5), offsets.is_older(TP, 6)) == (False, True)
