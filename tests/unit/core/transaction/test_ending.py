"""EndTxn in transactions of version 2, by the state, the epoch and the outcome."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.transaction.ending import ends_with_new_id, refusal_to_end
from minikafka.core.transaction.records import (
    TransactionStored,
    decode_record,
    encode_record,
)
from minikafka.core.transaction.transaction import (
    MAX_EPOCH,
    Transaction,
    TransactionFacts,
)
from minikafka.core.transaction.transaction import TransactionState as S
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode

E = ErrorCode
LAST = MAX_EPOCH - 1
ENDS = None
# The responses to an abort and to a commit, as the comment above Kafka's ``endTransaction`` has
# them, and the two prepared states.
REPEATED = {
    S.EMPTY: (E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    S.ONGOING: (E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    S.PREPARE_ABORT: (E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE),
    S.PREPARE_COMMIT: (E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
    S.COMPLETE_ABORT: (E.NONE, E.INVALID_TXN_STATE),
    S.COMPLETE_COMMIT: (E.INVALID_TXN_STATE, E.NONE),
}
CURRENT = {
    S.EMPTY: (ENDS, E.INVALID_TXN_STATE),
    S.ONGOING: (ENDS, ENDS),
    S.PREPARE_ABORT: (E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    S.PREPARE_COMMIT: (E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    S.COMPLETE_ABORT: (ENDS, E.INVALID_TXN_STATE),
    S.COMPLETE_COMMIT: (ENDS, E.INVALID_TXN_STATE),
}


def transaction(
    state: S, epoch: int, producer_id: int = 5, last_producer_id: int = 5
) -> Transaction:
    facts = TransactionFacts(
        producer_id, epoch, 1000, state, last_producer_id=last_producer_id, start_ms=1
    )
    return Transaction("tx", facts)


def refusal(known: Transaction, producer_id: int, epoch: int, committed: bool) -> ErrorCode | None:
    return refusal_to_end(known, ProducerIdAndEpoch(producer_id, epoch), committed, 2)


@pytest.mark.mission("TV2-2")
@pytest.mark.parametrize("state", REPEATED)
@pytest.mark.parametrize("committed", [False, True])
def test_the_epoch_tells_a_repeated_end_from_the_next_one(state: S, committed: bool) -> None:
    known = transaction(state, 7)
    assert refusal(known, 5, 6, committed) is REPEATED[state][committed]
    assert refusal(known, 5, 7, committed) is CURRENT[state][committed]
    for other in (5, 8):
        assert refusal(known, 5, other, committed) is E.PRODUCER_FENCED
    assert refusal(known, 4, 7, committed) is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.mission("TV2-2")
@pytest.mark.parametrize("state", [S.COMPLETE_ABORT, S.COMPLETE_COMMIT])
def test_an_end_in_the_last_epoch_of_an_id_may_be_repeated(state: S) -> None:
    known = transaction(state, 0, producer_id=9, last_producer_id=5)
    for committed in (False, True):
        assert refusal(known, 5, LAST, committed) is REPEATED[state][committed]
        assert refusal(known, 5, LAST - 1, committed) is E.INVALID_PRODUCER_ID_MAPPING


def test_a_pending_record_comes_first() -> None:
    """The producer may know the producer id in it already."""
    known = transaction(S.ONGOING, 7)
    known.pending = S.PREPARE_COMMIT
    assert refusal(known, 99, 3, True) is E.CONCURRENT_TRANSACTIONS


def test_no_producer_gets_the_epoch_that_is_for_fencing() -> None:
    known = transaction(S.COMPLETE_ABORT, MAX_EPOCH)
    assert refusal(known, 5, LAST, False) is E.PRODUCER_FENCED
    assert refusal(known, 5, MAX_EPOCH, False) is E.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("epoch", "state", "version", "needs"),
    [
        (LAST, S.ONGOING, 2, True),
        (LAST, S.EMPTY, 2, False),
        (LAST - 1, S.ONGOING, 2, False),
        (LAST, S.ONGOING, 0, False),
    ],
)
def test_the_last_epoch_ends_with_a_new_id(epoch: int, state: S, version: int, needs: bool) -> None:
    known, producer = transaction(state, epoch), ProducerIdAndEpoch(5, epoch)
    assert ends_with_new_id(known, producer, True, version) is needs


partitions = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 2)), max_size=4
)


@given(
    producer_id=st.integers(0, 2**60),
    next_id=st.integers(-1, 2**60),
    last_id=st.integers(0, 2**60),
    epoch=st.integers(0, MAX_EPOCH),
    written_to=partitions,
    version=st.sampled_from([0, 1, 2]),
)
def test_flexible_records_come_back(
    producer_id: int,
    next_id: int,
    last_id: int,
    epoch: int,
    written_to: frozenset[TopicPartition],
    version: int,
) -> None:
    facts = TransactionFacts(
        producer_id,
        epoch,
        1000,
        S.PREPARE_COMMIT,
        written_to,
        5,
        4,
        last_producer_id=last_id,
        next_producer_id=next_id,
        client_version=version,
    )
    read = decode_record(*encode_record(TransactionStored("tx", facts), 2))
    assert read is not None
    assert read.facts is not None
    known = -1 if last_id == producer_id else last_id
    assert read.facts.last_producer_id == known
    assert (read.facts.next_producer_id, read.facts.client_version) == (next_id, version)
    assert read.facts.partitions == written_to


@pytest.mark.mission("TV2-5")
def test_a_flexible_record_byte_for_byte() -> None:
    """Written by hand from Kafka's TransactionLogValue.json."""
    where = frozenset({TopicPartition("b", 1), TopicPartition("a", 0)})
    facts = TransactionFacts(
        7, 3, 60_000, S.ONGOING, where, 1002, 1001, last_producer_id=7, client_version=2
    )
    _, value = encode_record(TransactionStored("tx", facts), 1)
    assert value is not None
    assert value.hex() == (
        "0001" + "0000000000000007" + "0003" + "0000ea60" + "01"
        "03" + "0261" + "02" + "00000000" + "00" + "0262" + "02" + "00000001" + "00"
        "00000000000003ea" + "00000000000003e9" + "01" + "02" + "02" + "0002"
    )
    _, value = encode_record(TransactionStored("tx", TransactionFacts(7, 3, 1, S.EMPTY)), 2)
    assert value is not None
    assert value.hex().endswith("00" + "00" + "ff" * 16 + "00")
