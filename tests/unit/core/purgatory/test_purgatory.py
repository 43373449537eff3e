"""Delayed operations: what completes them, in which order, exactly once."""

from collections.abc import Callable

import pytest

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.core.timer import Timer


class Operation(DelayedOperation):
    """Completes when ``ready``; writes what happens to it into a shared trace."""

    __slots__ = ("after", "name", "ready", "trace", "tries")

    def __init__(self, name: str, delay_ms: int = 100, trace: list[str] | None = None) -> None:
        super().__init__(delay_ms)
        self.name = name
        self.ready = False
        self.tries = 0
        self.trace = [] if trace is None else trace
        self.after: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        self.tries += 1
        self.trace.append(f"{self.name}: try")
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.trace.append(f"{self.name}: complete")
        self.after()

    def on_expiration(self) -> None:
        self.trace.append(f"{self.name}: expired")

    @property
    def completions(self) -> int:
        return self.trace.count(f"{self.name}: complete")


@pytest.mark.interpreted
@pytest.mark.mission("PUR-9")
def test_the_template_methods_have_to_be_filled_in() -> None:
    assert DelayedOperation.__abstractmethods__ == {"try_complete", "on_complete", "on_expiration"}
    with pytest.raises(TypeError):
        DelayedOperation(5)  # type: ignore[abstract]


@pytest.mark.mission("PUR-1")
def test_force_complete_has_one_winner() -> None:
    operation = Operation("a")
    assert not operation.is_completed
    assert operation.force_complete()
    assert operation.is_completed
    assert not operation.force_complete()
    assert not operation.expire()
    assert operation.trace == ["a: complete"]


@pytest.mark.mission("PUR-1")
def test_a_completed_operation_gets_no_time_out() -> None:
    operation = Operation("a")
    operation.force_complete()
    with pytest.raises(AssertionError, match="must not expire"):
        operation.attach_timer(Timer[Operation](start_ms=0).add(operation, 5))


@pytest.mark.mission("PUR-1")
def test_a_completion_that_sets_a_time_out_is_a_bug() -> None:
    """By going around ``attach_timer``, which refuses it."""
    operation = Operation("a")
    entry = Timer[Operation](start_ms=0).add(operation, 5)
    operation.after = lambda: setattr(operation, "_timer_entry", entry)
    with pytest.raises(AssertionError, match="must not expire"):
        operation.force_complete()


def test_an_operation_leaves_no_more_watch_lists_than_it_entered() -> None:
    purgatory = Purgatory[Operation]("Test")
    operation = Operation("a")
    purgatory.try_complete_else_watch(operation, ["k", "l"], now_ms=0)
    operation.force_complete()
    assert purgatory.check_and_complete("k") == 0
    assert operation.watch_lists == 1
    operation.watch_lists = 0
    with pytest.raises(AssertionError, match="in more watch lists than it was counted for"):
        purgatory.check_and_complete("l")


def test_immediately_complete_operation_is_neither_watched_nor_timed() -> None:
    purgatory = Purgatory[Operation]("Test")
    operation = Operation("a")
    operation.ready = True
    assert purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
    assert (purgatory.watched, purgatory.delayed) == (0, 0)
    assert purgatory.next_expiration_ms() is None
    assert operation.trace == ["a: try", "a: complete"]


def test_an_operation_has_to_watch_something() -> None:
    with pytest.raises(AssertionError):
        Purgatory[Operation]("Test").try_complete_else_watch(Operation("a"), [], now_ms=0)


@pytest.mark.mission("PUR-1", "PUR-9")
def test_time_out_forces_completion_and_then_calls_on_expiration() -> None:
    purgatory = Purgatory[Operation]("Test")
    operation = Operation("a", delay_ms=100)
    assert not purgatory.try_complete_else_watch(operation, ["k"], now_ms=1_000)
    assert purgatory.delayed == 1
    assert purgatory.advance(1_099) == 0
    assert not operation.is_completed
    assert purgatory.advance(1_100) == 1
    assert operation.trace == ["a: try", "a: try", "a: complete", "a: expired"]
    assert purgatory.advance(5_000) == 0


@pytest.mark.mission("PUR-2", "PUR-9")
def test_an_event_completes_before_the_time_out_and_stops_the_timer() -> None:
    purgatory = Purgatory[Operation]("Test")
    operation = Operation("a", delay_ms=100)
    purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
    assert purgatory.check_and_complete("k") == 0
    operation.ready = True
    assert purgatory.check_and_complete("k") == 1
    assert operation.completions == 1
    assert (purgatory.watched, purgatory.watched_keys, purgatory.delayed) == (0, 0, 0)
    assert purgatory.advance(1_000) == 0
    assert "a: expired" not in operation.trace


@pytest.mark.mission("PUR-8")
def test_order_of_the_two_tries() -> None:
    purgatory = Purgatory[Operation]("Test")
    seen: list[tuple[int, int]] = []

    class Watching(Operation):
        def try_complete(self) -> bool:
            seen.append((purgatory.watched, purgatory.delayed))
            return super().try_complete()

    purgatory.try_complete_else_watch(Watching("a"), ["k1", "k2"], now_ms=0)
    # The first try sees it unwatched, the second watched but not yet timed.
    assert seen == [(0, 0), (2, 0)]
    assert (purgatory.watched, purgatory.delayed) == (2, 1)


@pytest.mark.mission("PUR-8")
@pytest.mark.parametrize("by_itself", [True, False])
def test_completion_between_the_two_tries(by_itself: bool) -> None:
    purgatory = Purgatory[Operation]("Test")

    class Racing(Operation):
        def try_complete(self) -> bool:
            done = super().try_complete()
            if self.tries == 1:
                self.ready = True  # what the second try is there for
            elif not by_itself:
                return False
            return done

    operation = Racing("a")
    assert purgatory.try_complete_else_watch(operation, ["k"], now_ms=0) is by_itself
    assert operation.completions == 1
    assert purgatory.delayed == 0, "a completed operation does not enter the timer"
    assert purgatory.check_and_complete("k") == 0
    assert operation.completions == 1
    assert purgatory.watched_keys == 0


@pytest.mark.mission("PUR-4")
def test_an_event_touches_its_own_key_only() -> None:
    purgatory = Purgatory[Operation]("Test")
    first, second, both = Operation("1"), Operation("2"), Operation("12")
    purgatory.try_complete_else_watch(first, ["k1"], now_ms=0)
    purgatory.try_complete_else_watch(second, ["k2"], now_ms=0)
    purgatory.try_complete_else_watch(both, ["k1", "k2"], now_ms=0)
    tries = (first.tries, second.tries, both.tries)
    purgatory.check_and_complete("k1")
    assert (first.tries, second.tries, both.tries) == (tries[0] + 1, tries[1], tries[2] + 1)
    assert purgatory.check_and_complete("k3") == 0


def test_several_watchers_of_one_key_are_tried_in_the_order_they_came() -> None:
    purgatory = Purgatory[Operation]("Test")
    trace: list[str] = []
    operations = [Operation(name, trace=trace) for name in "abc"]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
    operations[0].ready = operations[2].ready = True
    trace.clear()
    assert purgatory.check_and_complete("k") == 2
    assert trace == ["a: try", "a: complete", "b: try", "c: try", "c: complete"]
    assert purgatory.watched == 1


def test_an_event_on_many_keys_tries_each_operation_once() -> None:
    trace: list[str] = []
    purgatory = Purgatory[Operation]("Test")
    many = [f"k{i}" for i in range(1_000)]
    for name in ("a", "b", "c"):
        purgatory.try_complete_else_watch(operation := Operation(name, trace=trace), many, 0)
        operation.ready = name == "b"
    trace.clear()
    assert purgatory.check_all_and_complete([*many, "of nobody"]) == 1
    assert trace == ["a: try", "b: try", "b: complete", "c: try"]
    assert purgatory.watched == 2 * len(many)


def test_an_event_on_many_keys_drops_the_lists_that_it_empties() -> None:
    purgatory = Purgatory[Operation]("Test")
    purgatory.try_complete_else_watch(operation := Operation("a"), ["k1", "k2"], 0)
    operation.ready = True
    assert purgatory.check_all_and_complete(["k1", "k2"]) == 1
    assert (purgatory.watched, purgatory.watched_keys) == (0, 0)


def test_check_does_not_try_an_operation_completed_during_the_same_check() -> None:
    purgatory = Purgatory[Operation]("Test")
    first, second = Operation("a"), Operation("b")
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation, ["k"], 0)
    first.ready = True
    first.after = second.force_complete
    tries = second.tries
    assert purgatory.check_all_and_complete(["k"]) == 1
    assert (second.tries, second.completions) == (tries, 1)


@pytest.mark.mission("PUR-5")
def test_completed_operations_are_purged_from_the_lists_of_other_keys() -> None:
    purgatory = Purgatory[Operation]("Test")
    assert purgatory.purge_interval == 1_000
    for i in range(1_001):
        operation = Operation(f"{i}", delay_ms=60_000)
        purgatory.try_complete_else_watch(operation, ["hot", f"cold-{i}"], now_ms=0)
        operation.ready = True
        purgatory.check_and_complete("hot")
        if i < 1_000:
            assert not purgatory.purge_due
            purgatory.advance(now_ms=i)
    # Each lingers in the list of the key on which nothing happened.
    assert purgatory.watched == 1_001
    waiting = Operation("waiting", delay_ms=60_000)
    purgatory.try_complete_else_watch(waiting, ["cold-7"], now_ms=1_000)
    assert purgatory.purge_due
    purgatory.advance(now_ms=1_001)
    assert not purgatory.purge_due
    assert (purgatory.watched, purgatory.watched_keys) == (1, 1)


@pytest.mark.mission("PUR-5")
def test_operations_on_very_many_keys_are_purged_sooner() -> None:
    purgatory = Purgatory[Operation]("Test")
    keys = range(10_000)
    for now_ms in range(10):
        assert not purgatory.purge_due
        purgatory.try_complete_else_watch(Operation("a", delay_ms=1), keys, now_ms)
        purgatory.advance(now_ms + 1)
    assert purgatory.watched == 100_000
    purgatory.try_complete_else_watch(waiting := Operation("b", delay_ms=500), keys, 10)
    assert purgatory.purge_due
    purgatory.advance(11)
    assert not purgatory.purge_due
    assert purgatory.watched == waiting.watch_lists == 10_000


def test_cancelling_a_key_completes_nothing_and_stops_the_timers() -> None:
    purgatory = Purgatory[Operation]("Test")
    operation, other = Operation("a"), Operation("b")
    purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
    purgatory.try_complete_else_watch(other, ["k2"], now_ms=0)
    assert purgatory.cancel_for_key("k") == [operation]
    assert purgatory.cancel_for_key("k") == []
    assert not operation.is_completed
    assert (purgatory.watched, purgatory.delayed) == (1, 1)
    assert purgatory.advance(1_000) == 1
    assert not operation.is_completed
    assert operation.force_complete()


@pytest.mark.mission("PUR-3", "PUR-6")
def test_every_purgatory_has_wheels_of_its_own() -> None:
    produce, fetch = Purgatory[Operation]("Produce"), Purgatory[Operation]("Fetch")
    produce.try_complete_else_watch(Operation("a", delay_ms=30_000), ["k"], now_ms=0)
    assert sum(sum(row.tasks_by_slot) for row in produce.levels()) == 1
    assert sum(sum(row.tasks_by_slot) for row in fetch.levels()) == 0
    assert (len(produce.levels()), len(fetch.levels())) == (4, 1)


def test_a_first_operation_late_in_the_clocks_life_is_aimed_finely() -> None:
    purgatory = Purgatory[Operation]("Test")
    now = 86_400_000 * 30 + 7
    purgatory.try_complete_else_watch(Operation("a", delay_ms=15), ["k"], now_ms=now)
    assert purgatory.next_expiration_ms() == now + 15
    assert len(purgatory.levels()) == 1


class TestCallingBackIn:
    """A completion runs the broker's code, which calls the purgatory again."""

    def test_watching_the_same_key_again(self) -> None:
        purgatory = Purgatory[Operation]("Test")
        first, second = Operation("a"), Operation("b")
        first.after = lambda: purgatory.try_complete_else_watch(second, ["k"], now_ms=5)
        purgatory.try_complete_else_watch(first, ["k"], now_ms=0)
        first.ready = True
        assert purgatory.check_and_complete("k") == 1
        assert not second.is_completed
        assert purgatory.watched == 1
        second.ready = True
        assert purgatory.check_and_complete("k") == 1

    def test_a_nested_check_sees_those_which_the_outer_one_has_passed(self) -> None:
        purgatory = Purgatory[Operation]("Test")
        first, second = Operation("a"), Operation("b")

        def make_ready() -> None:
            first.ready = True
            purgatory.check_and_complete("k")

        second.after = make_ready
        for operation in (first, second):
            purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
        second.ready = True
        assert purgatory.check_and_complete("k") == 1  # the other one was the nested call's
        assert first.completions == second.completions == 1
        assert (purgatory.watched, purgatory.watched_keys, purgatory.delayed) == (0, 0, 0)

    def test_chained_completion_can_empty_and_refill_the_watch_list(self) -> None:
        purgatory = Purgatory[Operation]("Test")
        first, second, third = Operation("a"), Operation("b"), Operation("c")

        def complete_second_then_watch_third() -> None:
            second.ready = True
            purgatory.check_and_complete("k")
            purgatory.try_complete_else_watch(third, ["k"], now_ms=0)

        first.after = complete_second_then_watch_third
        for operation in (first, second):
            purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
        first.ready = True
        purgatory.check_and_complete("k")
        assert second.completions == 1
        assert purgatory.watched == 1
        third.ready = True
        assert purgatory.check_and_complete("k") == 1

    def test_expiry_that_completes_another_due_one(self) -> None:
        purgatory = Purgatory[Operation]("Test")
        trace: list[str] = []
        first, second = Operation("a", 10, trace), Operation("b", 11, trace)

        def complete_second() -> None:
            second.ready = True
            purgatory.check_and_complete("k")

        first.after = complete_second
        for operation in (first, second):
            purgatory.try_complete_else_watch(operation, ["k"], now_ms=0)
        trace.clear()
        assert purgatory.advance(100) == 1
        assert trace == ["a: complete", "b: try", "b: complete", "a: expired"]

    def test_expiry_that_parks_an_operation_that_is_due_already(self) -> None:
        purgatory = Purgatory[Operation]("Test")
        first, second = Operation("a", 10), Operation("b", 0)
        first.after = lambda: purgatory.try_complete_else_watch(second, ["k"], now_ms=10)
        purgatory.try_complete_else_watch(first, ["k"], now_ms=0)
        assert purgatory.advance(10) == 1
        due_ms = purgatory.next_expiration_ms()
        assert due_ms is not None
        assert due_ms <= 10
        assert purgatory.advance(10) == 1
        assert second.completions == 1


@pytest.mark.mission("GLASS-57")
def test_completed_and_expired_operations_are_counted() -> None:
    purgatory: Purgatory[Operation] = Purgatory("p")
    operations = [Operation(name) for name in "abcd"]
    for operation, key in zip(operations, "kklm", strict=True):
        purgatory.try_complete_else_watch(operation, [key], 0)
    operations[0].ready = operations[2].ready = True
    purgatory.check_and_complete("k")
    purgatory.check_all_and_complete(["k", "l", "m"])
    assert (purgatory.completed, purgatory.expired) == (2, 0)
    purgatory.advance(100)
    assert (purgatory.completed, purgatory.expired) == (2, 2)
