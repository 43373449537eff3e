"""Decisions of the transaction shard: producers, outcomes, time-outs, expiry."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.core.coordinator_shard import CoordinatorResult
from minikafka.core.transaction.description import described, is_listed
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.result import ProducerResult
from minikafka.core.transaction.shard import TransactionConfig, TransactionShard
from minikafka.core.transaction.transaction import (
    MAX_EPOCH,
    Transaction,
    TransactionFacts,
    begun,
    is_exhausted,
    refusal_to_begin,
    rotates,
)
from minikafka.core.transaction.transaction import TransactionState as S
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode

E = ErrorCode
LAST = MAX_EPOCH - 1  # the last epoch that a producer gets
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def facts(epoch: int = 3, state: S = S.EMPTY, **more: Any) -> TransactionFacts:
    """The facts of producer 5, the successor of producer 4."""
    return TransactionFacts(5, epoch, 1000, state, **({"last_producer_id": 4} | more))


def producer(producer_id: int, epoch: int) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer_id, epoch)


@pytest.mark.parametrize(
    ("known", "expected", "refusal"),
    [
        (facts(), None, None),
        (facts(), producer(5, 3), None),
        (facts(), producer(5, 2), None),  # fenced later, or a question that is repeated
        (facts(), producer(6, 3), E.PRODUCER_FENCED),
        (facts(), producer(4, LAST), None),  # it took over from that one
        (facts(), producer(4, LAST - 1), E.PRODUCER_FENCED),  # which had epochs left then
        (facts(), producer(6, LAST), E.PRODUCER_FENCED),
        (facts(state=S.ONGOING), None, None),
        (facts(state=S.ONGOING), producer(5, 3), None),
        (facts(state=S.ONGOING), producer(5, 2), E.PRODUCER_FENCED),
        (facts(state=S.PREPARE_COMMIT), None, E.CONCURRENT_TRANSACTIONS),
        (facts(state=S.PREPARE_ABORT), producer(5, 3), E.CONCURRENT_TRANSACTIONS),
        (facts(state=S.PREPARE_ABORT), producer(6, 3), E.PRODUCER_FENCED),
        (facts(state=S.COMPLETE_ABORT), producer(5, 3), None),
        (facts(-1), producer(6, 3), None),  # the id is new here: it may have expired
    ],
)
def test_admission_of_producers(
    known: TransactionFacts, expected: ProducerIdAndEpoch | None, refusal: ErrorCode | None
) -> None:
    transaction = Transaction("tx", known)
    assert refusal_to_begin(transaction, expected) is refusal
    transaction.pending = S.ONGOING
    assert refusal_to_begin(transaction, expected) is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("known", "expected", "given"),
    [
        (facts(), None, (5, 4, -1)),
        (facts(-1), None, (5, 0, -1)),
        (facts(-1), producer(6, 9), (5, 0, -1)),
        (facts(), producer(5, 3), (5, 4, 3)),
        (facts(last_epoch=2), producer(5, 2), (5, 3, 2)),  # a repeated request
        (facts(last_epoch=1), producer(5, 2), None),
        (facts(LAST - 1), None, (5, LAST, -1)),
        (facts(LAST), None, (9, 0, -1)),
        (facts(LAST), producer(5, LAST), (9, 0, LAST)),
        (facts(LAST, last_epoch=2), producer(5, 2), (5, LAST, 2)),
        (
            facts(0, last_epoch=LAST),
            producer(4, LAST),
            (5, 0, LAST),
        ),  # a repeated request for a new id
    ],
)
def test_producer_id_and_epoch_of_the_next_producer(
    known: TransactionFacts,
    expected: ProducerIdAndEpoch | None,
    given: tuple[int, int, int] | None,
) -> None:
    after = begun(known, 2000, expected, fresh_id=9, now_ms=77)
    if given is None:
        assert after is None
        return
    assert after is not None
    assert (after.producer_id, after.producer_epoch, after.last_epoch) == given
    assert (after.timeout_ms, after.last_update_ms, after.last_producer_id) == (2000, 77, 5)
    assert (after.state, after.partitions, after.start_ms) == (S.EMPTY, frozenset(), -1)
    assert rotates(known, expected) == (given[0] == 9)


def test_one_epoch_is_reserved_for_fencing() -> None:
    assert [is_exhausted(epoch) for epoch in (LAST - 1, LAST, MAX_EPOCH)] == [False, True, True]
    assert facts(LAST, S.ONGOING).fenced(0, 1).producer_epoch == MAX_EPOCH
    assert facts(MAX_EPOCH, S.ONGOING).fenced(0, 1).producer_epoch == MAX_EPOCH


# ---- the shard


def shard_with(**by_id: TransactionFacts) -> TransactionShard:
    config = TransactionConfig(transaction_max_timeout_ms=900, transactional_id_expiration_ms=5000)
    shard = TransactionShard(config, lambda: 0)
    for transactional_id, known in by_id.items():
        shard.replay(TransactionStored(transactional_id, known), 0)
    return shard


@pytest.mark.parametrize(
    ("timeout_ms", "accepted"), [(-1, False), (0, False), (1, True), (900, True), (901, False)]
)
def test_bounds_of_the_transaction_timeout(timeout_ms: int, accepted: bool) -> None:
    received: list[ProducerResult] = []
    result = shard_with().init_producer_id("tx", timeout_ms, None, 9, received.append, 0)
    assert bool(result.appends) is accepted
    assert [reply.response.error for reply in result.replies] == (
        [] if accepted else [E.INVALID_TRANSACTION_TIMEOUT]
    )


def test_a_transaction_is_aborted_when_it_has_been_open_for_too_long() -> None:
    shard = shard_with(
        late=facts(state=S.ONGOING, start_ms=0),
        in_time=facts(state=S.ONGOING, start_ms=1),
        idle=facts(state=S.COMPLETE_COMMIT, start_ms=0),
    )
    assert shard.abort_timed_out(1000).appends == []
    result = shard.abort_timed_out(1001)
    (append,) = result.appends
    (stored,) = append.records
    assert stored.transactional_id == "late"
    assert stored.facts is not None
    assert (stored.facts.state, stored.facts.producer_epoch) == (S.PREPARE_ABORT, 4)
    assert [(event.name, event.facts) for event in result.events] == [
        ("transaction_timed_out", {"transactional_id": "late", "timeout_ms": 1000})
    ]
    assert shard.abort_timed_out(1001).appends == []  # it is on its way


def test_an_unused_id_expires() -> None:
    shard = shard_with(
        old=facts(last_update_ms=1000),
        young=facts(last_update_ms=1001),
        open=facts(state=S.ONGOING, last_update_ms=0),
        decided=facts(state=S.PREPARE_ABORT, last_update_ms=0),
    )
    assert shard.expire(5999).appends == []
    (append,) = shard.expire(6000).appends
    assert append.records == (TransactionStored("old", None),)
    assert shard.expire(6000).appends == []
    result = shard.settle(append, E.NONE, 0, 6000)
    assert "old" not in shard.transactions
    assert [event.name for event in result.events] == ["transactional_id_expired"]


def test_an_id_whose_tombstone_failed_is_usable_and_expires_later() -> None:
    shard = shard_with(old=facts(last_update_ms=1000))
    (append,) = shard.expire(6000).appends
    result = shard.settle(append, E.NOT_ENOUGH_REPLICAS, 0, 6000)
    assert (result.events, result.retries) == ([], [])
    assert shard.transactions["old"].pending is None
    assert len(shard.expire(6000).appends) == 1


@pytest.mark.parametrize("committed", [True, False])
def test_a_loaded_decision_continues_with_its_markers(committed: bool) -> None:
    state = S.PREPARE_COMMIT if committed else S.PREPARE_ABORT
    written_to = frozenset({P1, P0})
    shard = shard_with(
        decided=facts(state=state, partitions=written_to),
        open=facts(state=S.ONGOING, partitions=written_to),
    )
    (markers,) = shard.loaded(50).effects
    assert (markers.producer_id, markers.producer_epoch) == (5, 3)
    assert (markers.committed, markers.partitions) == (committed, (P0, P1))
    assert shard.markers_written(markers, [P0], 60).appends == []
    (append,) = shard.markers_written(markers, [P1], 60).appends
    assert append.records[0].facts is not None
    assert append.records[0].facts.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
    assert shard.markers_written(markers, [P1], 60).appends == []  # that is known already


def test_verification_by_partition() -> None:
    shard = shard_with(
        tx=facts(state=S.ONGOING, partitions=frozenset({P0})), decided=facts(state=S.PREPARE_COMMIT)
    )
    mine = producer(5, 3)
    assert shard.verify_partitions("tx", mine, [P0, P1]) == {
        P0: E.NONE,
        P1: E.TRANSACTION_ABORTABLE,
    }
    assert shard.verify_partitions("decided", mine, [P0]) == {P0: E.CONCURRENT_TRANSACTIONS}
    assert shard.verify_partitions("other", mine, [P0]) == {P0: E.INVALID_PRODUCER_ID_MAPPING}
    assert shard.verify_partitions("tx", producer(6, 3), [P0]) == {
        P0: E.INVALID_PRODUCER_ID_MAPPING
    }
    assert shard.verify_partitions("tx", producer(5, 2), [P0]) == {P0: E.PRODUCER_FENCED}


@pytest.mark.parametrize(
    ("state", "committed", "response"),
    [
        (S.EMPTY, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_COMMIT, True, E.NONE),
        (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, E.NONE),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
        (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE),
    ],
)
def test_end_txn_without_an_open_transaction(
    state: S, committed: bool, response: ErrorCode
) -> None:
    received: list[ProducerResult] = []
    result = shard_with(tx=facts(state=state)).end(
        "tx", producer(5, 3), committed, 0, None, received.append, 50
    )
    assert [reply.response for reply in result.replies] == [ProducerResult(response)]
    assert result.appends == []


def test_a_transaction_begins_with_its_first_partition() -> None:
    begun_at_50 = facts(state=S.COMPLETE_COMMIT, start_ms=1).with_partitions(frozenset({P0}), 0, 50)
    assert (begun_at_50.start_ms, begun_at_50.partitions) == (50, frozenset({P0}))
    wider = begun_at_50.with_partitions(frozenset({P1}), 0, 60)
    assert (wider.start_ms, wider.last_update_ms, wider.partitions) == (50, 60, frozenset({P0, P1}))


@pytest.mark.parametrize(
    ("committed", "prepared", "complete"),
    [
        (True, S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
        (False, S.PREPARE_ABORT, S.COMPLETE_ABORT),
    ],
)
def test_a_transaction_is_decided_and_then_complete(
    committed: bool, prepared: S, complete: S
) -> None:
    decided = facts(state=S.ONGOING, partitions=frozenset({P0})).ended(committed, 60)
    assert (decided.state, decided.partitions, decided.last_update_ms) == (
        prepared,
        frozenset({P0}),
        60,
    )
    done = decided.completed(70)
    assert (done.state, done.partitions, done.last_update_ms) == (complete, frozenset(), 70)


@pytest.mark.parametrize(
    ("longer_than_ms", "listed_ones"), [(-1, ["old", "new"]), (0, ["old"]), (9, ["old"]), (10, [])]
)
def test_transactions_are_listed_by_their_age(longer_than_ms: int, listed_ones: list[str]) -> None:
    shard = shard_with(
        old=facts(state=S.ONGOING, start_ms=90), new=facts(state=S.ONGOING, start_ms=100)
    )
    if longer_than_ms < 0:  # no filter, even if the clock has gone back
        assert is_listed(shard.transactions["new"], None, (), longer_than_ms, 50)
    found = [t for t in shard.transactions.values() if is_listed(t, None, (), longer_than_ms, 100)]
    assert [t.transactional_id for t in found] == listed_ones


def test_new_and_expiring_ids_are_not_listed() -> None:
    coming = Transaction("tx", facts(-1))
    going = Transaction("tx", facts())
    going.prepare(S.DEAD)
    for transaction in (coming, going, None):
        found = described("tx", transaction)
        assert found.error_code is E.TRANSACTIONAL_ID_NOT_FOUND
        assert transaction is None or not is_listed(transaction, None, (), -1, 0)


def test_partitions_without_a_marker_are_described() -> None:
    shard = shard_with(tx=facts(state=S.PREPARE_COMMIT, partitions=frozenset({P0, P1})))
    (markers,) = shard.loaded(50).effects
    shard.markers_written(markers, [P0], 60)
    (topic,) = described("tx", shard.transactions["tx"]).topics
    assert (topic.topic, topic.partitions) == ("t", [1])


def test_only_new_partitions_are_appended() -> None:
    shard = shard_with(tx=facts(state=S.ONGOING, partitions=frozenset({P0, P1})))
    received: list[ErrorCode] = []
    other = TopicPartition("u", 0)

    def add(*partitions: TopicPartition) -> CoordinatorResult[Any, Any, Any, Any]:
        wanted = frozenset(partitions)
        return shard.add_partitions("tx", producer(5, 3), wanted, 0, received.append, 50)

    for known in ((P0,), (P0, P1)):
        result = add(*known)
        assert ([reply.response for reply in result.replies], result.appends) == ([E.NONE], [])
    (append,) = add(P0, other).appends
    assert append.records[0].facts is not None
    assert append.records[0].facts.partitions == {P0, P1, other}
    assert [reply.response for reply in add(P0).replies] == [E.CONCURRENT_TRANSACTIONS]
    assert [reply.response for reply in shard.settle(append, E.NONE, 0, 50).replies] == [E.NONE]
    assert [reply.response for reply in add(other).replies] == [E.NONE]


def test_a_failed_initialization_returns_the_error_without_an_id() -> None:
    shard = shard_with()
    received: list[ProducerResult] = []
    (append,) = shard.init_producer_id("tx", 500, None, 9, received.append, 0).appends
    (reply,) = shard.settle(append, E.REQUEST_TIMED_OUT, 0, 0).replies
    assert reply.response == ProducerResult(E.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert "tx" not in shard.transactions  # nothing of it is in the log as far as is known
    (append,) = shard.init_producer_id("tx", 500, None, 9, received.append, 0).appends
    (reply,) = shard.settle(append, E.NONE, 0, 0).replies
    assert reply.response == ProducerResult(E.NONE, 9, 0)


def test_a_completion_is_retried_until_the_shard_is_unloaded() -> None:
    shard = shard_with(tx=facts(state=S.PREPARE_COMMIT, partitions=frozenset({P0})))
    (markers,) = shard.loaded(50).effects
    (append,) = shard.markers_written(markers, [P0], 60).appends
    assert shard.settle(append, E.NOT_ENOUGH_REPLICAS, 0, 60).retries == [append]
    shard.unloaded(70)
    assert shard.settle(append, E.NOT_ENOUGH_REPLICAS, 0, 70) == CoordinatorResult(None)
    assert shard.transactions == {}


def test_written_markers_are_ignored_after_unloading() -> None:
    shard = shard_with(tx=facts(state=S.PREPARE_COMMIT, partitions=frozenset({P0})))
    (markers,) = shard.loaded(50).effects
    shard.unloaded(60)
    assert shard.markers_written(markers, [P0], 70) == CoordinatorResult(None)


def test_a_transaction_without_partitions_completes_at_once() -> None:
    shard = shard_with(tx=facts(state=S.PREPARE_COMMIT))
    result = shard.loaded(50)
    assert result.effects == []
    (append,) = result.appends
    assert append.records[0].facts is not None
    assert append.records[0].facts.state is S.COMPLETE_COMMIT
    assert shard.settle(append, E.NONE, 0, 60) == CoordinatorResult(None)


def test_a_second_producer_fails_while_the_first_record_is_pending() -> None:
    shard = shard_with(used_up=facts(LAST))
    received: list[ProducerResult] = []
    for transactional_id in ("new", "used_up"):
        assert shard.needs_producer_id(transactional_id, None)
        assert shard.init_producer_id(transactional_id, 500, None, 9, received.append, 0).appends
        assert not shard.needs_producer_id(transactional_id, None)
        second = shard.init_producer_id(transactional_id, 500, None, None, received.append, 0)
        assert [reply.response.error for reply in second.replies] == [E.CONCURRENT_TRANSACTIONS]


def test_a_failed_fence_returns_its_error() -> None:
    shard = shard_with(tx=facts(state=S.ONGOING, partitions=frozenset({P0})))
    received: list[ProducerResult] = []
    (append,) = shard.init_producer_id("tx", 500, None, None, received.append, 0).appends
    (reply,) = shard.settle(append, E.NOT_LEADER_OR_FOLLOWER, 0, 0).replies
    assert reply.response == ProducerResult(E.NOT_COORDINATOR)


def test_outdated_markers_are_ignored() -> None:
    shard = shard_with(tx=facts(state=S.PREPARE_COMMIT, partitions=frozenset({P0})))
    (before,) = shard.loaded(50).effects
    (now,) = shard.loaded(60).effects
    assert (shard.is_current(before), shard.is_current(now)) == (False, True)
    assert shard.markers_written(before, [P0], 70).appends == []
    assert len(shard.markers_written(now, [P0], 70).appends) == 1


def test_numbers_are_kafkas() -> None:
    assert TransactionConfig() == TransactionConfig(900_000, 604_800_000)
    assert MAX_EPOCH == 32_767
    assert [int(state) for state in S] == list(range(8))
    new = TransactionFacts(5, 0, 1000, S.EMPTY)
    assert (new.last_producer_id, new.last_epoch, new.start_ms, new.last_update_ms) == (-1,) * 4
