"""What a purgatory shows of itself: bounded in work, soonest first."""

from __future__ import annotations

import pytest

from minikafka.core.purgatory import DelayedOperation, Purgatory


class Parked(DelayedOperation):
    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None: ...

    def on_expiration(self) -> None: ...


def purgatory_with(*delays: int, now_ms: int = 1_000) -> Purgatory[Parked]:
    purgatory = Purgatory[Parked]("Test")
    for delay_ms in delays:
        purgatory.try_complete_else_watch(Parked(delay_ms), ["k"], now_ms)
    return purgatory


def test_waiting_lists_operations_by_expiration() -> None:
    delays = (30_000, 7, 450, 0, 19, 350, 8_000_000)
    waiting = purgatory_with(*delays).waiting(100)
    assert [expiration_ms - 1_000 for expiration_ms, _ in waiting] == sorted(delays)
    assert all(operation.delay_ms == at_ms - 1_000 for at_ms, operation in waiting)


def test_waiting_stops_at_the_limit() -> None:
    purgatory = purgatory_with(*range(1, 1_000))
    assert [operation.delay_ms for _, operation in purgatory.waiting(5)] == [1, 2, 3, 4, 5]
    assert purgatory.waiting(0) == []
    assert len(purgatory.waiting(10_000)) == 999


def test_waiting_shows_nothing_that_is_completed() -> None:
    purgatory = purgatory_with(0, 5, 500)
    for _, operation in purgatory.waiting(2):
        operation.force_complete()
    assert [operation.delay_ms for _, operation in purgatory.waiting(10)] == [500]


def test_waiting_follows_the_hand_of_the_wheel() -> None:
    purgatory = purgatory_with(30, 50, 390)
    purgatory.advance(1_037)
    purgatory.try_complete_else_watch(Parked(2), ["k"], 1_037)
    assert [at_ms for at_ms, _ in purgatory.waiting(10)] == [1_039, 1_050, 1_390]


def test_an_operation_names_no_keys_unless_its_kind_does() -> None:
    purgatory = purgatory_with(5)
    ((_, operation),) = purgatory.waiting(1)
    assert tuple(operation.watched_keys()) == ()
    assert purgatory.name == "Test"


@pytest.mark.mission("TW-3")
def test_every_wheel_shows_its_tick_size_and_interval() -> None:
    rows = purgatory_with(500).levels()
    assert [(row.level, row.tick_ms, row.wheel_size, row.interval_ms) for row in rows] == [
        (1, 1, 20, 20),
        (2, 20, 20, 400),
        (3, 400, 20, 8_000),
    ]
    assert all(row.interval_ms == row.tick_ms * row.wheel_size for row in rows)


def test_slots_are_counted_up_to_a_limit() -> None:
    purgatory = purgatory_with(*[7] * 50, 9)
    assert [n for n in purgatory.levels()[0].tasks_by_slot if n] == [50, 1]
    assert [n for n in purgatory.levels(10)[0].tasks_by_slot if n] == [10, 1]
