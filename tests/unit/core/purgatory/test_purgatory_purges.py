"""What lingers in watch lists, when that is a reason to purge; and cancelling by key."""

from __future__ import annotations

import pytest

from minikafka.core.purgatory import LINGERING_PLACES, DelayedOperation, Purgatory


class Parked(DelayedOperation):
    def __init__(self, delay_ms: int = 100) -> None:
        super().__init__(delay_ms)
        self.ready = False
        self.ended: list[str] = []

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.ended.append("completed")

    def on_expiration(self) -> None:
        self.ended.append("expired")


def park(purgatory: Purgatory[Parked], *keys: str, delay_ms: int = 100, now_ms: int = 0) -> Parked:
    operation = Parked(delay_ms)
    purgatory.try_complete_else_watch(operation, keys, now_ms)
    return operation


@pytest.mark.mission("PUR-5")
def test_operations_that_have_left_all_their_lists_are_no_reason_to_purge() -> None:
    purgatory = Purgatory[Parked]("Test", purge_interval=3)
    for _ in range(20):
        park(purgatory, "k").ready = True
        purgatory.check_and_complete("k")
        assert not purgatory.purge_due
    assert purgatory.watched_keys == 0
    for _ in range(4):  # those that came before do not make up for these
        park(purgatory, "hot", "cold").ready = True
        purgatory.check_and_complete("hot")
    assert purgatory.purge_due


@pytest.mark.mission("PUR-5")
def test_operations_that_were_cancelled_are_no_reason_to_purge() -> None:
    purgatory = Purgatory[Parked]("Test", purge_interval=3)
    for _ in range(20):
        park(purgatory, "k")
        purgatory.cancel_for_key("k")
    assert not purgatory.purge_due


@pytest.mark.mission("PUR-5")
def test_a_purge_is_due_once_more_than_the_interval_linger() -> None:
    purgatory = Purgatory[Parked]("Test", purge_interval=3)
    waiting = park(purgatory, "cold", "hot", delay_ms=10_000)
    for round_ in range(3):
        for lingering in range(5):
            assert purgatory.watched == 2 + lingering
            assert purgatory.purge_due == (lingering > 3)
            if lingering < 4:
                park(purgatory, "hot", "cold").ready = True
                purgatory.check_and_complete("hot")
        purgatory.advance(now_ms=round_)
        assert (purgatory.watched, purgatory.watched_keys) == (2, 2)
        assert not purgatory.purge_due
    assert not waiting.is_completed


@pytest.mark.mission("PUR-5")
def test_operations_that_expired_are_purged_as_well() -> None:
    purgatory = Purgatory[Parked]("Test", purge_interval=3)
    operations = [park(purgatory, f"k{i}", delay_ms=10) for i in range(4)]
    assert purgatory.advance(10) == 4
    assert [operation.ended for operation in operations] == [["completed", "expired"]] * 4
    assert (purgatory.watched, purgatory.watched_keys) == (0, 0)


def test_purge_is_not_due_again_for_operations_it_could_not_remove() -> None:
    purgatory = Purgatory[Parked]("Test", purge_interval=3)
    for i in range(10):
        park(purgatory, "gone", f"still-{i}")
    purgatory.cancel_for_key("gone")  # they wait on, without a time-out
    assert purgatory.purge_due
    purgatory.advance(1)
    assert purgatory.watched == 10
    assert not purgatory.purge_due


def test_cancelling_a_key_leaves_the_operation_to_events_of_its_other_keys() -> None:
    purgatory = Purgatory[Parked]("Test")
    operation = park(purgatory, "a", "b")
    assert purgatory.cancel_for_key("a") == [operation]
    operation.ready = True
    assert purgatory.check_and_complete("a") == 0
    assert purgatory.advance(1_000) == 0
    assert purgatory.check_and_complete("b") == 1
    assert operation.ended == ["completed"]


def test_cancel_for_key_omits_completed_operations() -> None:
    purgatory = Purgatory[Parked]("Test")
    done, waiting = park(purgatory, "a"), park(purgatory, "a")
    done.force_complete()
    assert purgatory.cancel_for_key("a") == [waiting]
    assert purgatory.watched == 0


@pytest.mark.mission("TW-24")
def test_operation_cancelled_while_others_expire_does_not_expire() -> None:
    purgatory = Purgatory[Parked]("Test")

    class Cancelling(Parked):
        def on_complete(self) -> None:
            purgatory.cancel_for_key("other")

    purgatory.try_complete_else_watch(Cancelling(10), ["k"], now_ms=0)
    other = park(purgatory, "other", delay_ms=11)
    assert purgatory.advance(50) == 1
    assert other.ended == []
    assert not other.is_completed


def test_parking_again_after_a_cancellation_sets_a_new_time_out() -> None:
    purgatory = Purgatory[Parked]("Test")
    operation = park(purgatory, "k", delay_ms=100)
    purgatory.cancel_for_key("k")
    purgatory.try_complete_else_watch(operation, ["k"], now_ms=60)
    assert purgatory.delayed == 1
    assert purgatory.advance(159) == 0
    assert purgatory.advance(160) == 1
    assert operation.ended == ["completed", "expired"]


def test_parking_again_without_a_cancellation_forgets_the_first_time_out() -> None:
    purgatory = Purgatory[Parked]("Test")
    operation = park(purgatory, "a", delay_ms=100)
    purgatory.try_complete_else_watch(operation, ["b"], now_ms=60)
    assert purgatory.delayed == 1
    assert purgatory.advance(159) == 0
    assert purgatory.advance(160) == 1


@pytest.mark.parametrize("delay_ms", [0, -1, -30_000])
def test_a_deadline_that_is_past_expires_at_the_next_advance(delay_ms: int) -> None:
    purgatory = Purgatory[Parked]("Test")
    waiting = park(purgatory, "k", delay_ms=50, now_ms=1_000)
    operation = park(purgatory, "k", delay_ms=delay_ms, now_ms=1_000)
    due_ms = purgatory.next_expiration_ms()
    assert due_ms is not None
    assert due_ms <= 1_000
    assert operation.ended == []
    assert purgatory.advance(1_000) == 1
    assert operation.ended == ["completed", "expired"]
    assert not waiting.is_completed


def test_a_late_operation_that_an_event_completes_does_not_expire() -> None:
    purgatory = Purgatory[Parked]("Test")
    operation = park(purgatory, "k", delay_ms=-5)
    operation.ready = True
    assert purgatory.check_and_complete("k") == 1
    assert purgatory.advance(10) == 0
    assert operation.ended == ["completed"]


def test_events_that_complete_everything_leave_nothing_to_wake_for() -> None:
    purgatory = Purgatory[Parked]("Test")
    operations = [park(purgatory, "k", delay_ms=30_000) for _ in range(5)]
    assert purgatory.next_expiration_ms() is not None
    for operation in operations:
        operation.ready = True
    assert purgatory.check_and_complete("k") == 5
    assert purgatory.next_expiration_ms() is None


@pytest.mark.mission("PUR-5")
def test_watch_entries_of_pending_operations_do_not_make_a_purge_due_again() -> None:
    """An operation that waits on very many keys, as a follower's fetch does, is looked through by
    one purge, and by the next only once the places have doubled."""
    purgatory = Purgatory[Parked]("Test")
    keys = [str(number) for number in range(LINGERING_PLACES + 1)]
    operation = Parked(10_000)
    purgatory.try_complete_else_watch(operation, keys, now_ms=0)
    assert purgatory.purge_due
    purgatory.advance(1)
    assert purgatory.watched == len(keys)
    assert not purgatory.purge_due


@pytest.mark.mission("PUR-5")
def test_the_next_purge_is_due_above_twice_the_places_that_the_last_one_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minikafka.core.purgatory.LINGERING_PLACES", 10)
    purgatory = Purgatory[Parked]("Test")
    park(purgatory, *map(str, range(11)), delay_ms=10_000)
    purgatory.advance(1)
    park(purgatory, *map(str, range(11 + 10)), delay_ms=10_000)
    assert (purgatory.watched, purgatory.purge_due) == (2 * 11 + 10, False)
    park(purgatory, "one more", delay_ms=10_000)
    assert purgatory.purge_due


def test_an_operation_parked_at_time_zero_gets_its_whole_delay() -> None:
    purgatory = Purgatory[Parked]("Test")
    park(purgatory, "k", delay_ms=1, now_ms=0)
    assert purgatory.advance(0) == 0
    assert purgatory.advance(1) == 1
