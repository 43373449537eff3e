"""Offsets that are committed in transactions: pending until the marker, checked as KIP-447 says."""

import pytest

from minikafka.core.group.result import InTransaction
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.records.batch import parse_batch, stamp
from tests.support.group_lab import GROUP, PARTITION, GroupLab
from tests.support.transactions import marker

E = ErrorCode
PID = 7
WHERE = ("flights", 0)
TP = TopicPartition(*WHERE)
TXN = InTransaction(PID, 0)


def unstable(lab: GroupLab) -> bool:
    (found,) = lab.service.fetch(GROUP, [TP], require_stable=True)
    return found.error is E.UNSTABLE_OFFSET_COMMIT


def ended(lab: GroupLab, committed: bool, producer_id: int = PID) -> None:
    """The marker is in the log, and that is told."""
    batch = bytearray(marker(producer_id, 0, committed))
    stamp(batch, 0, lab.log.end, 0)
    lab.log.batches.append(bytes(batch))
    lab.log.end += 1
    lab.service.transaction_ended(producer_id, [PARTITION], committed)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("reloaded", [True, False])
def test_they_count_when_the_transaction_is_committed(committed: bool, reloaded: bool) -> None:
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


def test_the_batch_is_of_the_transaction() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=InTransaction(PID, 3))
    batch = parse_batch(lab.log.batches[-1], 0)
    assert (batch.producer_id, batch.producer_epoch) == (PID, 3)
    assert (batch.is_transactional, batch.is_control, batch.base_sequence) == (True, False, -1)


def test_they_are_unstable_on_their_way_to_the_log() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 1})
    lab.log.held = True
    answer = lab.commit({WHERE: 5}, transaction=TXN)
    assert answer == {}
    assert unstable(lab)
    lab.log.release(E.NOT_ENOUGH_REPLICAS)
    assert answer == {TP: E.COORDINATOR_NOT_AVAILABLE}
    assert not unstable(lab)
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 1}


def test_of_two_commits_the_later_record_counts() -> None:
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


def test_a_marker_told_of_while_groups_are_loaded_waits_for_its_turn() -> None:
    """The loader may not have come to the end of the transaction before yet: that is not the one
    that ends now."""
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    ended(lab, committed=True)
    lab.resign()
    lab.elect()
    runtime = lab.shards.of_partition(PARTITION)
    assert runtime is not None
    runtime.loading = True
    group = runtime.shard.groups[GROUP]
    group.offsets.replay_in_transaction(PID, TP, 9, group.offsets.get(TP))
    lab.service.transaction_ended(PID, [PARTITION], False)
    assert group.offsets.is_unstable(TP)


def test_who_says_who_he_is_has_to_be_a_member_of_this_generation() -> None:
    """KIP-447; before it, producers did not say."""
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


def test_a_group_with_a_transaction_under_way_is_not_forgotten() -> None:
    lab = GroupLab()
    lab.commit({WHERE: 5}, transaction=TXN)
    lab.expire()
    ended(lab, committed=True)
    assert lab.committed() == {WHERE: 5}
