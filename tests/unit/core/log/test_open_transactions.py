"""Up to where committed records may be read, against a twin that walks the whole log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.open_transactions import OpenTransactions
from minikafka.core.log.producer_snapshot import decode_snapshot, encode_snapshot
from minikafka.core.log.producer_state import ProducerStates
from minikafka.protocol.records.batch import RecordBatch, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)

pytestmark = pytest.mark.mission("DOP-5")


def plain(producer_id: int) -> RecordBatch:
    return parse_batches(build_batch([(0, None, b"", [])], producer_id=producer_id))[0]


def transactional(producer_id: int) -> RecordBatch:
    data = build_batch([(0, None, b"", [])], producer_id=producer_id, transactional=True)
    return parse_batches(data)[0]


def marker(producer_id: int) -> RecordBatch:
    key, value = encode_end_txn_marker(EndTxnMarker(ControlRecordType.COMMIT, 0))
    data = build_batch(
        [(0, key, value, [])], producer_id=producer_id, control=True, transactional=True
    )
    return parse_batches(data)[0]


class TestOneTransaction:
    def test_holds_readers_back_until_its_marker_is_committed(self) -> None:
        states = ProducerStates()
        states.update(plain(1), 0, 0)
        assert states.transactions.first_unstable_offset is None
        states.update(transactional(1), 1, 0)
        states.update(transactional(1), 2, 0)
        states.transactions.committed_up_to(3)
        assert states.transactions.first_unstable_offset == 1
        states.update(marker(1), 3, 0)
        assert states.transactions.first_unstable_offset == 1  # decided, and not yet committed
        states.transactions.committed_up_to(3)
        assert states.transactions.first_unstable_offset == 1
        states.transactions.committed_up_to(4)
        assert states.transactions.first_unstable_offset is None

    def test_a_marker_without_a_transaction_changes_nothing(self) -> None:
        states = ProducerStates()
        states.update(marker(1), 0, 0)
        assert states.transactions.first_unstable_offset is None
        assert not states.transactions.unreplicated

    def test_survives_the_snapshot(self) -> None:
        states = ProducerStates()
        states.update(transactional(1), 5, 0)
        states.update(transactional(2), 4, 0)
        again = ProducerStates()
        again.load(decode_snapshot(encode_snapshot(states.entries)))
        assert again.transactions.ongoing == (4, 5)
        assert again.transactions.first_unstable_offset == 4
        again.clear()
        assert again.transactions.first_unstable_offset is None


class TestSeveralTransactions:
    def test_each_holds_readers_back_until_its_own_marker_is_committed(self) -> None:
        transactions = OpenTransactions()
        transactions.begin(0)
        transactions.begin(2)
        transactions.end(0, 3)
        transactions.end(2, 5)
        held_back = []
        for high_watermark in range(3, 7):
            transactions.committed_up_to(high_watermark)
            held_back.append(transactions.first_unstable_offset)
        assert held_back == [0, 2, 2, None]

    def test_a_high_watermark_at_a_marker_has_not_committed_it(self) -> None:
        transactions = OpenTransactions()
        for first_offset, marker_offset in ((0, 1), (2, 3), (4, 5)):
            transactions.begin(first_offset)
            transactions.end(first_offset, marker_offset)
        transactions.committed_up_to(5)
        assert transactions.first_unstable_offset == 4

    def test_one_that_ends_late_stands_for_those_that_began_after_it(self) -> None:
        transactions = OpenTransactions()
        for first_offset in (1, 3, 5):
            transactions.begin(first_offset)
        transactions.end(1, 6)
        transactions.end(5, 7)
        transactions.end(3, 8)
        held_back = []
        for high_watermark in (6, 7, 8, 9):
            transactions.committed_up_to(high_watermark)
            held_back.append(transactions.first_unstable_offset)
        assert held_back == [1, 3, 3, None]

    def test_the_first_ongoing_one_is_the_first_without_a_marker(self) -> None:
        transactions = OpenTransactions()
        assert transactions.first_ongoing is None
        transactions.begin(4)
        transactions.begin(2)
        assert transactions.first_ongoing == 2
        transactions.end(2, 5)
        assert transactions.first_ongoing == 4
        assert transactions.first_unstable_offset == 2

    def test_a_snapshot_replaces_all_that_was_known(self) -> None:
        transactions = OpenTransactions()
        transactions.begin(1)
        transactions.end(1, 2)
        transactions.load([7, 4])
        assert (transactions.ongoing, transactions.first_unstable_offset) == ((4, 7), 4)
        transactions.end(4, 8)
        transactions.load([])
        assert transactions.first_unstable_offset is None

    def test_another_log_takes_them_over_as_they_are(self) -> None:
        source = OpenTransactions()
        source.begin(1)
        source.begin(3)
        source.end(1, 4)
        copy = OpenTransactions()
        copy.begin(0)
        copy.take_over(source)
        assert copy.first_unstable_offset == 1
        copy.committed_up_to(5)
        assert (copy.ongoing, copy.first_unstable_offset) == ((3,), 3)


class CountedOffset(int):
    """An offset that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        CountedOffset.compared += 1
        return super().__lt__(other)

    def __gt__(self, other: int) -> bool:
        CountedOffset.compared += 1
        return super().__gt__(other)


def test_each_of_many_uncommitted_transactions_costs_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a log is recovered, or a follower takes in what it missed, no marker is committed."""
    monkeypatch.setattr(CountedOffset, "compared", 0)
    transactions = OpenTransactions()
    transactions.begin(CountedOffset(0))  # open all the while
    number = 4_000
    for offset in range(1, 4 * number, 4):
        transactions.begin(CountedOffset(offset))
        transactions.begin(CountedOffset(offset + 1))
        transactions.end(CountedOffset(offset), offset + 2)
        transactions.end(CountedOffset(offset + 1), offset + 3)
    assert CountedOffset.compared < 20 * number
    assert transactions.first_unstable_offset == 0
    transactions.end(CountedOffset(0), 4 * number)
    assert list(transactions.unreplicated) == [(0, 4 * number)]  # all others began later


STEPS = st.lists(
    st.tuples(st.sampled_from("tttmmmhs"), st.integers(1, 4), st.integers(0, 5)), max_size=40
)


def first_unstable(log: list[tuple[str, int]], high_watermark: int) -> int | None:
    """The dumb twin: of each transaction ever begun, is its marker below the high watermark?"""
    unstable = []
    begun: dict[int, int] = {}
    for offset, (kind, producer_id) in enumerate(log):
        if kind == "t":
            begun.setdefault(producer_id, offset)
        elif producer_id in begun:
            first = begun.pop(producer_id)
            if offset >= high_watermark:
                unstable.append(first)
    return min([*unstable, *begun.values()], default=None)


@given(steps=STEPS)
def test_as_the_twin_finds(steps: list[tuple[str, int, int]]) -> None:
    states = ProducerStates()
    log: list[tuple[str, int]] = []
    high_watermark = 0
    for kind, producer_id, number in steps:
        if kind == "h":
            high_watermark = min(len(log), high_watermark + number)
            states.transactions.committed_up_to(high_watermark)
        elif kind == "s":  # from a snapshot taken where all is committed
            if high_watermark == len(log):
                states.load(decode_snapshot(encode_snapshot(states.entries)))
        else:
            batch = transactional(producer_id) if kind == "t" else marker(producer_id)
            assert states.check(batch, AppendOrigin.COORDINATOR) is None
            states.update(batch, len(log), 0)
            log.append((kind, producer_id))
        assert states.transactions.first_unstable_offset == first_unstable(log, high_watermark)
