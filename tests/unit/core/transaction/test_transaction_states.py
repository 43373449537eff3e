"""The table of transaction states, and the records of ``__transaction_state``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.transaction.records import TransactionStored, decode_record, encode_record
from minikafka.core.transaction.transaction import (
    VALID_PREVIOUS_STATES,
    Transaction,
    TransactionFacts,
    TransactionState,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.buffer import DecodeError

S = TransactionState


def test_the_table_is_kafkas() -> None:
    """Kafka: TransactionState.validPreviousStates."""
    assert {state: set(VALID_PREVIOUS_STATES[state]) for state in S} == {
        S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.ONGOING: {S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.PREPARE_COMMIT: {S.ONGOING},
        S.PREPARE_ABORT: {
            S.ONGOING,
            S.PREPARE_EPOCH_FENCE,
            S.EMPTY,
            S.COMPLETE_COMMIT,
            S.COMPLETE_ABORT,
        },
        S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
        S.COMPLETE_ABORT: {S.PREPARE_ABORT},
        S.DEAD: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.PREPARE_EPOCH_FENCE: {S.ONGOING},
    }
    titles = "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead"
    assert " ".join(state.title for state in S) == f"{titles} PrepareEpochFence"


def test_illegal_transitions_are_asserted() -> None:
    transaction = Transaction("t", TransactionFacts(1, 0, 1000, S.EMPTY))
    with pytest.raises(AssertionError):
        transaction.prepare(S.PREPARE_COMMIT)
    transaction.prepare(S.ONGOING)
    with pytest.raises(AssertionError):
        transaction.prepare(S.ONGOING)


partitions = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c"]), st.integers(0, 5)), max_size=6
)


@given(
    producer_id=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([s for s in S if s not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]),
    written_to=partitions,
    times=st.tuples(st.integers(-1, 2**50), st.integers(-1, 2**50)),
)
def test_records_come_back(
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    state: TransactionState,
    written_to: frozenset[TopicPartition],
    times: tuple[int, int],
) -> None:
    if state is S.EMPTY:
        written_to = frozenset()
    facts = TransactionFacts(producer_id, epoch, timeout_ms, state, written_to, *times)
    stored = TransactionStored("some id", facts)
    assert decode_record(*encode_record(stored)) == stored


def test_a_record_byte_for_byte() -> None:
    """Written by hand from Kafka's TransactionLogKey.json and TransactionLogValue.json."""
    where = frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)})
    facts = TransactionFacts(7, 3, 60_000, S.ONGOING, where, 1002, 1001)
    key, value = encode_record(TransactionStored("tx", facts))
    assert key.hex(" ") == "00 00 00 02 74 78"
    assert value is not None
    assert value.hex() == (
        "0000" + "0000000000000007" + "0003" + "0000ea60" + "01"
        "00000002" + "000161" + "00000002" + "00000000" + "00000002"
        "000162" + "00000001" + "00000001" + "00000000000003ea" + "00000000000003e9"
    )
    assert encode_record(TransactionStored("tx", None)) == (key, None)
    _, value = encode_record(TransactionStored("tx", TransactionFacts(7, 3, 60_000, S.EMPTY)))
    assert value is not None
    assert value[16:].hex() == "00" + "ffffffff" + "ff" * 8 + "ff" * 8  # null, not no partitions


def test_records_that_cannot_be_decoded() -> None:
    key, value = encode_record(TransactionStored("t", TransactionFacts(1, 0, 1, S.EMPTY)))
    assert value is not None
    with pytest.raises(DecodeError):
        decode_record(key, value[:16] + b"\x63" + value[17:])
    with pytest.raises(DecodeError):
        decode_record(key, value[:9])
    assert decode_record(b"\0\x05later", value) is None
    assert decode_record(key, None) == TransactionStored("t", None)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(TransactionFacts(7, 3, 60_000, S.DEAD), id="dead"),
        pytest.param(TransactionFacts(7, 3, 60_000, S.PREPARE_EPOCH_FENCE), id="being fenced"),
        pytest.param(TransactionFacts(7, -1, 60_000, S.ONGOING), id="no epoch"),
        pytest.param(TransactionFacts(-1, 3, 60_000, S.EMPTY), id="no producer"),
    ],
)
def test_impossible_facts_are_not_decoded(facts: TransactionFacts) -> None:
    """The next request for that id would fail an assertion of the coordinator."""
    with pytest.raises(DecodeError):
        decode_record(*encode_record(TransactionStored("tx", facts)))
