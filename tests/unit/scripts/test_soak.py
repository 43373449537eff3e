"""The checker of a soak finds losses that are planted, and its figures are those of their names."""

from __future__ import annotations

import threading

import pytest

from scripts.lib.bench.harness import percentile
from scripts.lib.bench.soak.ledger import Fate, Ledger
from scripts.lib.bench.soak.waits import SHARES, Waits, drift, due_times, slope

GROUPS = ("first", "second")
TOPIC = "soak"


def ledger_of(count: int, fate: Fate = Fate.ACKNOWLEDGED) -> Ledger:
    """Return a ledger of a topic whose records all groups have seen once."""
    ledger = Ledger(GROUPS)
    for _ in range(count):
        number = ledger.next_number(TOPIC)
        ledger.settle(TOPIC, number, fate)
        for group in GROUPS:
            ledger.see(group, TOPIC, number)
    return ledger


def test_a_soak_without_losses_is_clean() -> None:
    verdict = ledger_of(100).verdict()

    assert verdict.is_clean
    assert verdict.acknowledged == 100


@pytest.mark.mission("RUN-1")
@pytest.mark.parametrize("seen_later", [True, False], ids=["in the middle", "at the end"])
def test_one_record_that_one_group_has_not_seen_is_lost(seen_later: bool) -> None:
    ledger = ledger_of(100)
    lost = ledger.next_number(TOPIC)
    ledger.settle(TOPIC, lost, Fate.ACKNOWLEDGED)
    ledger.see("first", TOPIC, lost)
    if seen_later:
        number = ledger.next_number(TOPIC)
        ledger.settle(TOPIC, number, Fate.ACKNOWLEDGED)
        for group in GROUPS:
            ledger.see(group, TOPIC, number)

    assert ledger.verdict().lost == 1
    assert not ledger.verdict().is_clean


@pytest.mark.mission("RUN-1")
def test_a_record_that_was_refused_may_be_there_or_not() -> None:
    ledger = ledger_of(1, Fate.REFUSED)
    ledger.settle(TOPIC, ledger.next_number(TOPIC), Fate.REFUSED)

    verdict = ledger.verdict()

    assert (verdict.refused, verdict.lost, verdict.doubled) == (2, 0, 0)


@pytest.mark.mission("RUN-2")
def test_a_record_that_is_seen_again_is_doubled() -> None:
    ledger = ledger_of(100)
    ledger.see("second", TOPIC, 40)
    ledger.see("second", TOPIC, 40)

    assert ledger.verdict().doubled == 2


@pytest.mark.mission("RUN-2")
def test_a_record_of_an_aborted_transaction_must_not_be_seen() -> None:
    ledger = ledger_of(3, Fate.ABORTED)

    assert ledger.verdict().aborted_seen == 3 * len(GROUPS)


def test_a_record_without_a_response_is_counted() -> None:
    ledger = ledger_of(1)
    ledger.next_number(TOPIC)

    assert ledger.verdict().unanswered == 1
    assert not ledger.verdict().is_clean


@pytest.mark.mission("RUN-3")
@pytest.mark.parametrize("found", [[], [1], [3, 2]], ids=["nothing", "an older one", "disorder"])
def test_the_last_record_of_a_key_must_be_found(found: list[int]) -> None:
    ledger = Ledger(GROUPS)
    ledger.keep_last(b"key", 3)
    for number in found:
        ledger.find_last(b"key", number)

    assert ledger.verdict().stale_keys == 1


@pytest.mark.mission("RUN-3")
def test_a_compacted_topic_with_all_last_records_is_clean() -> None:
    ledger = Ledger(GROUPS)
    for number in (3, 2):  # responses may come in another order than the records
        ledger.keep_last(b"key", number)
    for number in (2, 3):
        ledger.find_last(b"key", number)

    assert ledger.verdict().is_clean


@pytest.mark.mission("RUN-4")
def test_a_client_that_is_held_up_finds_all_that_was_due() -> None:
    waits, stop = Waits(interval_s=1.0), threading.Event()
    waits.began = 100.0
    held_up_until = 101.5
    for due in due_times(10.0, waits.began, stop):
        waits.add("stream", due, max(due, held_up_until))
        if due >= 103.0:
            stop.set()

    assert waits.of("stream", 0) == pytest.approx([600 + 100 * n for n in range(10)])
    assert percentile(waits.of("stream", 1), SHARES["max"]) == pytest.approx(500)
    assert percentile(waits.of("stream", 2), SHARES["max"]) == 0


def test_percentiles_are_nearest_ranks() -> None:
    ordered = [float(number) for number in range(1000)]

    assert [percentile(ordered, share) for share in SHARES.values()] == [500, 990, 999, 999]


def test_drift_compares_the_last_quarter_with_the_first() -> None:
    assert drift([1, 1, 1, 5, 5, 5, 5, 5, 5, 2, 2, 2]) == 2
    assert drift([7]) == 1


@pytest.mark.mission("RUN-5")
def test_growth_is_a_fitted_line() -> None:
    steady = [(float(hour), 50.0) for hour in range(100)]
    growing = [(hour, 50 + 3 * hour) for hour, _ in steady]
    with_a_peak = [*steady[:50], (50.0, 90.0), *steady[51:]]

    assert slope(growing) == pytest.approx(3)
    assert abs(slope(with_a_peak)) < 0.01
    assert slope(steady[:1]) == 0
