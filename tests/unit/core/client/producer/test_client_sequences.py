"""Sequence numbers after every kind of error, against a broker that checks them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minikafka.core.client.producer.accumulator import Accumulator, AccumulatorConfig, ProducerBatch
from minikafka.core.client.producer.producer_batch import record_size_bytes
from minikafka.core.client.producer.sequences import BatchOutcome, Sequences, Stamp
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.records.compression import Compression
from tests.support.client.fake_partition import FakePartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def batch(count: int = 1, tp: TopicPartition = TP) -> ProducerBatch[int]:
    made: ProducerBatch[int] = ProducerBatch(tp, 0)
    for number in range(count):
        made.append((0, None, b"v", []), number, 30)
    return made


def ready(*sent: ProducerBatch[int]) -> Sequences:
    """One batch acknowledged, then others on their way."""
    sequences = Sequences()
    sequences.set_producer(7, 0)
    first = batch()
    assert sequences.stamp(first, False)
    sequences.acknowledged(first)
    for number, each in enumerate(sent):
        assert sequences.stamp(each, number > 0)
    return sequences


def test_sequences_count_records() -> None:
    a, b = batch(3), batch(2)
    ready(a, b)
    assert (a.stamp, b.stamp) == (Stamp(7, 0, 1), Stamp(7, 0, 4))


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    sequences = Sequences()
    assert not sequences.stamp(batch(), False), "no producer id yet"
    sequences.set_producer(7, 0)
    first = batch()
    assert sequences.stamp(first, False)
    assert not sequences.stamp(batch(), True)
    sequences.acknowledged(first)
    assert sequences.stamp(batch(), True)


def test_behind_a_batch_that_failed_for_good_sequences_close_up() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    assert sequences.refused(a, ErrorCode.MESSAGE_TOO_LARGE, False) is BatchOutcome.FAIL
    sequences.given_up(a)
    assert sequences.refused(b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False) is BatchOutcome.RETRY
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 0, 1), "the place of the one that is not there"


def test_behind_a_batch_in_doubt_that_expired_the_epoch_rises() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    sequences.refused(a, ErrorCode.NETWORK_EXCEPTION, True)
    sequences.given_up(a)
    assert sequences.refused(b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False) is BatchOutcome.RETRY
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 1, 0)


def test_acknowledged_later_batch_shows_that_the_expired_one_was_written() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    for each in (a, b):
        sequences.refused(each, ErrorCode.REQUEST_TIMED_OUT, True)
    sequences.given_up(a)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 0, 4), "as before, or it might be doubled"
    sequences.acknowledged(b)
    c = batch()
    assert sequences.stamp(c, False)
    assert c.stamp == Stamp(7, 0, 6), "no new epoch is needed"


def test_a_broker_that_lost_its_log() -> None:
    a = batch()
    sequences = ready(a)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sequences.refused(a, code, False) is BatchOutcome.FAIL, (
        "acknowledged records are missing"
    )
    b = batch()
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 1, 0)
    assert sequences.refused(b, ErrorCode.UNKNOWN_PRODUCER_ID, False) is BatchOutcome.RETRY
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 2, 0)
    assert (
        sequences.refused(b, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, False) is BatchOutcome.DELIVERED
    )
    c = batch()
    assert sequences.stamp(c, False)
    assert c.stamp == Stamp(7, 2, 1), "b is written"


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    a = batch()
    sequences = Sequences()
    sequences.set_producer(7, 32_767)  # epochs have 16 bits
    sequences.stamp(a, False)
    sequences.refused(a, ErrorCode.UNKNOWN_PRODUCER_ID, False)
    assert not sequences.stamp(a, False)
    assert (sequences.is_ready, sequences.producer_id, sequences.epoch) == (False, -1, -1)
    sequences.set_producer(8, 0)
    assert sequences.stamp(a, False)
    assert a.stamp == Stamp(8, 0, 0)


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_broker_may_have_written_a_batch_that_it_refused(code: ErrorCode) -> None:
    a, b = batch(3), batch()
    sequences = ready(a)
    sequences.refused(a, code, code.retriable)
    sequences.given_up(a)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 1, 0), "with a's numbers it would be taken for a, and be lost"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
def test_batch_refused_before_the_append_frees_its_sequence_numbers(code: ErrorCode) -> None:
    a, b = batch(3), batch()
    sequences = ready(a)
    sequences.refused(a, code, True)
    sequences.given_up(a)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 0, 1)


def test_a_producer_id_may_be_zero() -> None:
    sequences = Sequences()
    assert (sequences.producer_id, sequences.epoch, sequences.is_ready) == (-1, -1, False)
    sequences.set_producer(0, 0)
    a = batch()
    assert sequences.is_ready
    assert sequences.stamp(a, False)
    assert a.stamp == Stamp(0, 0, 0)


def test_with_a_new_producer_id_nothing_of_the_old_one_counts() -> None:
    a, b = batch(), batch()
    sequences = ready(a)
    sequences.set_producer(8, 0)
    assert not sequences.stamp(b, True), "the first goes alone"
    sequences.acknowledged(a)
    sequences.given_up(a)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(8, 0, 0)


def test_a_batch_that_was_sent_before_waits_for_the_others() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    sequences.refused(b, ErrorCode.NOT_ENOUGH_REPLICAS, True)
    assert not sequences.stamp(b, True)
    sequences.acknowledged(a)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 0, 4)


def test_behind_a_gap_nothing_is_in_doubt() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    sequences.refused(a, ErrorCode.MESSAGE_TOO_LARGE, False)
    sequences.given_up(a)
    sequences.refused(b, ErrorCode.NETWORK_EXCEPTION, True)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(7, 0, 1)


def test_a_transaction_does_not_make_up_an_epoch() -> None:
    sequences = Sequences(transactional=True)
    sequences.set_producer(7, 3)
    a = batch()
    sequences.stamp(a, False)
    sequences.refused(a, ErrorCode.NETWORK_EXCEPTION, True)
    sequences.given_up(a)
    assert not sequences.stamp(batch(), False)
    assert (sequences.producer_id, sequences.epoch) == (7, 3)


@pytest.mark.parametrize("in_doubt", [False, True])
def test_the_epoch_that_one_partition_brought_is_the_next_of_all(in_doubt: bool) -> None:
    a = batch()
    sequences = ready(a)
    other: ProducerBatch[int] = ProducerBatch(TopicPartition("t", 1), 0)
    other.append((0, None, b"v", []), 0, 30)
    sequences.stamp(other, False)
    code = ErrorCode.NETWORK_EXCEPTION if in_doubt else ErrorCode.NOT_ENOUGH_REPLICAS
    sequences.refused(other, code, True)
    sequences.refused(a, ErrorCode.UNKNOWN_PRODUCER_ID, False)
    sequences.stamp(a, False)
    assert a.stamp == Stamp(7, 1, 0)
    assert sequences.stamp(other, False)
    assert other.stamp == (Stamp(7, 0, 0) if in_doubt else Stamp(7, 1, 0))
    sequences.acknowledged(other)
    later: ProducerBatch[int] = ProducerBatch(TopicPartition("t", 1), 0)
    later.append((0, None, b"v", []), 0, 30)
    assert sequences.stamp(later, False)
    assert later.stamp == Stamp(7, 1, 0 if in_doubt else 1)


def test_a_duplicate_too_old_for_the_broker_to_remember_is_delivered() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    sequences.acknowledged(b)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sequences.refused(a, code, False) is BatchOutcome.DELIVERED
    later = batch()
    assert sequences.stamp(later, False)
    assert later.stamp == Stamp(7, 0, 6)


def test_a_batch_of_a_partition_that_starts_over_is_sent_again() -> None:
    a, b = batch(3), batch(2)
    sequences = ready(a, b)
    assert sequences.refused(b, ErrorCode.UNKNOWN_PRODUCER_ID, False) is BatchOutcome.RETRY
    assert sequences.refused(a, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False) is BatchOutcome.RETRY
    assert sequences.stamp(a, False)
    assert a.stamp == Stamp(7, 1, 0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_broker_that_forgot_the_producer_has_not_written_a_batch_in_doubt(
    code: ErrorCode,
) -> None:
    a = batch()
    sequences = ready(a)
    assert sequences.refused(a, ErrorCode.NETWORK_EXCEPTION, True) is BatchOutcome.RETRY
    assert sequences.refused(a, code, False) is BatchOutcome.RETRY
    assert sequences.stamp(a, False)
    assert a.stamp == Stamp(7, 1, 0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_transaction_fails_when_the_broker_forgot_its_producer(code: ErrorCode) -> None:
    sequences = Sequences(transactional=True)
    sequences.set_producer(7, 3)
    a = batch()
    assert sequences.stamp(a, False)
    assert sequences.refused(a, ErrorCode.NOT_ENOUGH_REPLICAS, True) is BatchOutcome.RETRY
    assert sequences.refused(a, code, False) is BatchOutcome.FAIL


@pytest.mark.parametrize("highest_first", [False, True])
def test_every_batch_given_up_in_doubt_has_to_be_passed(highest_first: bool) -> None:
    """An acknowledgement from between two of them says nothing about the second."""
    a, between, b = batch(3), batch(2), batch(2)
    sequences = ready(a, between, b)
    for each in (b, a) if highest_first else (a, b):
        sequences.refused(each, ErrorCode.REQUEST_TIMED_OUT, True)
        sequences.given_up(each)
    sequences.acknowledged(between)
    later = batch()
    assert sequences.stamp(later, False)
    assert later.stamp == Stamp(7, 1, 0)


@pytest.mark.parametrize("retriable", [False, True])
def test_responses_for_an_old_producer_id_are_ignored(retriable: bool) -> None:
    a, b = batch(3), batch()
    sequences = ready(a)
    sequences.set_producer(8, 0)
    sequences.acknowledged(a)
    verdict = sequences.refused(a, ErrorCode.NETWORK_EXCEPTION, retriable)
    assert verdict is (BatchOutcome.RETRY if retriable else BatchOutcome.FAIL)
    sequences.given_up(a)
    assert sequences.stamp(b, False)
    assert b.stamp == Stamp(8, 0, 0)


def test_two_partitions_that_lost_their_logs_share_one_new_epoch() -> None:
    a, other = batch(), batch(tp=OTHER)
    sequences = ready(a)
    sequences.stamp(other, False)
    for each in (a, other):
        sequences.refused(each, ErrorCode.UNKNOWN_PRODUCER_ID, False)
    assert sequences.stamp(a, False)
    assert sequences.stamp(other, False)
    assert (a.stamp, other.stamp) == (Stamp(7, 1, 0), Stamp(7, 1, 0))


def test_a_batch_in_doubt_keeps_its_stamp_when_another_partition_brings_an_epoch() -> None:
    gone, in_doubt, other = batch(3), batch(2), batch(tp=OTHER)
    sequences = ready(gone, in_doubt)
    sequences.refused(gone, ErrorCode.MESSAGE_TOO_LARGE, False)
    sequences.given_up(gone)
    sequences.refused(in_doubt, ErrorCode.NETWORK_EXCEPTION, True)
    sequences.stamp(other, False)
    sequences.refused(other, ErrorCode.UNKNOWN_PRODUCER_ID, False)
    assert sequences.stamp(other, False)
    assert other.stamp == Stamp(7, 1, 0)
    assert sequences.stamp(in_doubt, False)
    assert in_doubt.stamp == Stamp(7, 0, 4), "the broker may have written it under this one"


# What happens to a request: the response, and whether the batch is appended before.
FATES = {
    "ok": (ErrorCode.NONE, True),
    "lost request": (ErrorCode.NETWORK_EXCEPTION, False),
    "lost answer": (ErrorCode.NETWORK_EXCEPTION, True),
    "not leader": (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
    "leader no more": (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
    "topic deleted": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    "few replicas": (ErrorCode.NOT_ENOUGH_REPLICAS, False),
    "too large": (ErrorCode.MESSAGE_TOO_LARGE, False),
}


@pytest.mark.parametrize("seed", range(0, 300, 100))
def test_nothing_is_doubled_or_reordered_whatever_gets_lost(seed: int) -> None:
    """A hundred runs each."""
    for number in range(seed, seed + 100):
        play(random.Random(number))


def play(dice: random.Random) -> None:
    """Check that acknowledged batches are written once and in order, while requests and responses
    are lost and batches fail permanently or expire. Brokers receive requests in order, and respond
    in any order."""
    config = AccumulatorConfig(batch_size=1, in_flight=5)
    accumulator: Accumulator[int] = Accumulator(config)
    sequences = Sequences()
    sequences.set_producer(7, 0)
    broker = FakePartition(1)
    fates = iter([dice.choice(list(FATES)) for _ in range(dice.randrange(60))])
    expiries = {dice.randrange(40) for _ in range(dice.randrange(4))}
    told: set[int] = set()
    failed: set[int] = set()
    for number in range(20):
        record: Any = (0, None, b"%d" % number, [])
        accumulator.append(TP, record, record_size_bytes(record), number, 0)
    flying: list[tuple[ProducerBatch[int], ErrorCode]] = []
    for step in range(400):
        drained = accumulator.drain([TP], sequences.stamp)
        for sent in drained:
            answer, appended = FATES[next(fates, "ok")]
            code = ErrorCode.NONE
            if appended:
                code, _ = broker.produce(sent.build(Compression.NONE))
            if code is ErrorCode.NONE or answer is ErrorCode.NETWORK_EXCEPTION:
                code = answer
            flying.append((sent, code))
        if flying and (len(flying) == 5 or not drained or dice.randrange(5) > 2):
            sent, code = flying.pop(dice.randrange(len(flying)))
            if code is ErrorCode.NONE:
                sequences.acknowledged(sent)
                accumulator.complete(sent)
                told.update(sent.tokens)
                continue
            verdict = sequences.refused(sent, code, code.retriable)
            if verdict is BatchOutcome.DELIVERED:
                accumulator.complete(sent)
                told.update(sent.tokens)
            elif (
                step in expiries
                or verdict is BatchOutcome.FAIL
                or not accumulator.retry(sent, 0, 0)
            ):
                sequences.given_up(sent)
                accumulator.complete(sent)
                failed.update(sent.tokens)
    written = [int(record.value or b"") for record in broker.records()]
    assert written == sorted(set(written))
    assert told <= set(written)
    assert told | failed == set(range(20))
