"""Which transactional batches compaction removes, and which aborted transactions stay indexed."""

from __future__ import annotations

from minikafka.core.log.compaction_transactions import CleanedTransactions
from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.protocol.records.batch import RecordBatch, parse_batches
from minikafka.protocol.records.builder import build_batch
from tests.support.storage.transactions import marker


def data(producer_id: int, offset: int, transactional: bool = True) -> RecordBatch:
    return parse_batches(
        build_batch(
            [(0, b"k", b"v", [])],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )[0]


def ended(producer_id: int, offset: int, commit: bool) -> RecordBatch:
    return parse_batches(marker(producer_id, 0, commit, base_offset=offset))[0]


def taken_away(transactions: CleanedTransactions, *batches: RecordBatch) -> list[int]:
    return [batch.base_offset for batch in batches if transactions.takes_away(batch)]


def test_abort_marker_stays_in_the_transaction_index_when_its_records_are_removed() -> None:
    transactions = CleanedTransactions()
    aborted = AbortedTxn(1, 0, 3, 1)
    transactions.expect([aborted])
    log = (data(1, 0), data(2, 1, transactional=False), data(1, 2), ended(1, 3, commit=False))
    assert taken_away(transactions, *log) == [0, 2]
    assert transactions.retained == [aborted]


def test_an_abort_marker_whose_records_have_gone_goes_too() -> None:
    transactions = CleanedTransactions()
    transactions.expect([AbortedTxn(1, 0, 3, 1)])
    assert taken_away(transactions, ended(1, 3, commit=False), ended(2, 4, commit=False)) == [3, 4]
    assert transactions.retained == []


def test_a_commit_marker_is_kept_for_its_own_records_alone() -> None:
    transactions = CleanedTransactions()
    log = (data(1, 0), ended(1, 1, commit=True), ended(1, 2, commit=True), ended(2, 3, commit=True))
    assert taken_away(transactions, *log) == [2, 3]
    assert transactions.retained == []


def test_a_plain_batch_is_of_no_transaction() -> None:
    transactions = CleanedTransactions()
    log = (data(1, 0, transactional=False), ended(1, 1, commit=True))
    assert taken_away(transactions, *log) == [1]


def test_a_marker_that_was_emptied_goes() -> None:
    header = bytearray(marker(1, 0, True, base_offset=5)[:61])
    header[8:12] = (61 - 12).to_bytes(4, "big")
    header[57:61] = bytes(4)
    (emptied,) = parse_batches(bytes(header))
    assert taken_away(CleanedTransactions(), emptied) == [5]


def test_a_producer_goes_on_after_an_abort() -> None:
    transactions = CleanedTransactions()
    first, second = AbortedTxn(1, 0, 1, 2), AbortedTxn(1, 4, 5, 6)
    transactions.expect([second, first])
    log = (
        data(1, 0),
        ended(1, 1, commit=False),
        data(1, 2),
        ended(1, 3, commit=True),
        data(1, 4),
        ended(1, 5, commit=False),
    )
    assert taken_away(transactions, *log) == [0, 4]
    assert transactions.retained == [first, second]


def test_other_control_records_stay() -> None:
    key = (0).to_bytes(2, "big") + (99).to_bytes(2, "big")
    other = build_batch([(0, key, b"", [])], producer_id=1, control=True, transactional=True)
    assert taken_away(CleanedTransactions(), parse_batches(other)[0]) == []
