"""The reaper: one pending wake-up, at the right time, by the monotonic clock."""

from __future__ import annotations

import pytest

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.server.broker.purgatories import PURGE_PERIOD_MS, Reaper, expiration_reaper_name
from tests.support.world.manual_clock import ManualClock


class HandClock(ManualClock):
    """The wall may be moved without the monotonic time."""

    wall = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.wall

    async def sleep(self, delay_ms: int) -> None:
        raise AssertionError("a reaper never sleeps")

    @property
    def pending(self) -> list[int]:
        return [timer.due_ms for timer in self.timers if not timer.cancelled]

    def move_to(self, now_ms: int) -> None:
        self.advance(now_ms - self.now_ms)


class Operation(DelayedOperation):
    def __init__(self, clock: HandClock, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.clock = clock
        self.ready = False
        self.completed_at: list[int] = []
        self.expired = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.completed_at.append(self.clock.now_ms)

    def on_expiration(self) -> None:
        self.expired = True


@pytest.fixture
def clock() -> HandClock:
    return HandClock(50_000)


@pytest.fixture
def reaper(clock: HandClock) -> Reaper[Operation]:
    return Reaper(clock, Purgatory("Produce"), expiration_reaper_name(3, "Produce"))


@pytest.mark.mission("PUR-7")
def test_its_name_is_kafkas(reaper: Reaper[Operation]) -> None:
    assert reaper.name == "ExpirationReaper-3-Produce"


@pytest.mark.mission("PUR-1", "TW-21")
def test_an_operation_expires_to_the_millisecond(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    operation = Operation(clock, 450)
    assert not reaper.try_complete_else_watch(operation, ["k"])
    clock.move_to(50_449)
    assert operation.completed_at == []
    clock.move_to(60_000)
    assert operation.completed_at == [50_450]
    assert operation.expired
    assert clock.pending == []


@pytest.mark.mission("PUR-2")
def test_an_event_completes_at_once(clock: HandClock, reaper: Reaper[Operation]) -> None:
    operation = Operation(clock, 450)
    reaper.try_complete_else_watch(operation, ["k"])
    clock.move_to(50_100)
    operation.ready = True
    assert reaper.check_and_complete("k") == 1
    clock.move_to(60_000)
    assert operation.completed_at == [50_100]
    assert not operation.expired


def test_an_operation_completed_at_once_arms_no_timer(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    operation = Operation(clock, 450)
    operation.ready = True
    assert reaper.try_complete_else_watch(operation, ["k"])
    assert clock.pending == []


@pytest.mark.mission("TW-20", "TW-21", "PUR-3")
def test_one_wake_up_is_pending_whatever_waits(clock: HandClock, reaper: Reaper[Operation]) -> None:
    operations = [Operation(clock, delay) for delay in (15, 17, 9, 12, 9)]
    for operation in operations:
        reaper.try_complete_else_watch(operation, ["k"])
        assert len(clock.pending) == 1
    assert clock.pending == [50_009]
    clock.move_to(50_100)
    assert [op.completed_at for op in operations] == [
        [50_015],
        [50_017],
        [50_009],
        [50_012],
        [50_009],
    ]
    assert reaper.wake_ups == 4


@pytest.mark.mission("TW-20")
def test_an_idle_reaper_never_wakes(clock: HandClock, reaper: Reaper[Operation]) -> None:
    clock.move_to(10_000_000)
    assert reaper.wake_ups == 0


@pytest.mark.mission("TW-23")
def test_a_late_wake_up_drains_all_that_is_due(clock: HandClock, reaper: Reaper[Operation]) -> None:
    operations = [Operation(clock, delay) for delay in range(10, 19)]
    for operation in operations:
        reaper.try_complete_else_watch(operation, ["k"])
    clock.now_ms = 50_050  # the loop was busy
    clock.move_to(50_050)
    assert all(operation.completed_at == [50_050] for operation in operations)
    assert reaper.wake_ups == 1


@pytest.mark.mission("TW-14")
def test_a_step_of_the_wall_clock_fires_nothing(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    operation = Operation(clock, 1_000)
    reaper.try_complete_else_watch(operation, ["k"])
    clock.wall += 86_400_000
    clock.move_to(50_999)
    assert operation.completed_at == []
    clock.wall -= 2 * 86_400_000
    clock.move_to(51_000)
    assert operation.completed_at == [51_000]


def test_a_delay_of_zero_expires_in_the_next_turn(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    operation = Operation(clock, 0)
    reaper.try_complete_else_watch(operation, ["k"])
    assert operation.completed_at == []
    clock.move_to(50_000)
    assert operation.completed_at == [50_000]


@pytest.mark.mission("PUR-5", "TW-23")
def test_a_purge_waits_200_ms_at_most(clock: HandClock, reaper: Reaper[Operation]) -> None:
    for i in range(1_002):
        operation = Operation(clock, 600_000)
        reaper.try_complete_else_watch(operation, ["hot", f"cold-{i}"])
        operation.ready = True
        reaper.check_and_complete("hot")
    assert reaper.purgatory.watched == 1_002
    assert PURGE_PERIOD_MS == 200
    clock.move_to(50_000 + PURGE_PERIOD_MS)
    assert reaper.purgatory.watched == 0


def test_a_completion_that_parks_again_is_armed(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    second = Operation(clock, 30)

    class Chained(Operation):
        def on_complete(self) -> None:
            super().on_complete()
            reaper.try_complete_else_watch(second, ["k"])

    reaper.try_complete_else_watch(Chained(clock, 10), ["k"])
    clock.move_to(50_100)
    assert second.completed_at == [50_040]


def test_a_closed_reaper_stays_silent(clock: HandClock, reaper: Reaper[Operation]) -> None:
    operation = Operation(clock, 10)
    reaper.try_complete_else_watch(operation, ["k"])
    reaper.close()
    assert clock.pending == []
    reaper.try_complete_else_watch(Operation(clock, 10), ["k"])
    assert clock.pending == []
    clock.move_to(60_000)
    assert operation.completed_at == []


@pytest.mark.mission("PUR-5")
def test_a_purge_comes_also_when_nothing_is_parked_any_more(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    operations = [Operation(clock, 600_000) for _ in range(1_002)]
    for i, operation in enumerate(operations):
        reaper.try_complete_else_watch(operation, ["hot", f"cold-{i}"])
        operation.ready = True
    assert not reaper.purgatory.purge_due
    assert reaper.check_and_complete("hot") == 1_002
    assert reaper.purgatory.watched == 1_002
    clock.move_to(50_000 + PURGE_PERIOD_MS)
    assert reaper.purgatory.watched == 0


@pytest.mark.mission("TW-20")
def test_after_the_last_operation_at_most_the_wake_up_that_was_set_comes(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    for delay in (9, 15, 70, 450, 30_000):
        operation = Operation(clock, delay)
        reaper.try_complete_else_watch(operation, ["k"])
        operation.ready = True
    assert reaper.check_and_complete("k") == 5
    clock.move_to(10_000_000)
    assert reaper.wake_ups == 1
    assert clock.pending == []
    # After a rest as long, the next one costs a single wake-up, at its own time.
    operation = Operation(clock, 15)
    reaper.try_complete_else_watch(operation, ["k"])
    assert clock.pending == [10_000_015]
    clock.move_to(20_000_000)
    assert operation.completed_at == [10_000_015]
    assert reaper.wake_ups == 2


@pytest.mark.parametrize("delay_ms", [-30_000, -1, 0])
def test_past_deadline_completes_in_the_next_loop_turn(
    clock: HandClock, reaper: Reaper[Operation], delay_ms: int
) -> None:
    operation = Operation(clock, delay_ms)
    reaper.try_complete_else_watch(operation, ["k"])
    assert operation.completed_at == []
    clock.move_to(50_000)
    assert operation.completed_at == [50_000]


@pytest.mark.mission("TW-23")
def test_a_suspended_machine_wakes_once_for_all_it_missed(
    clock: HandClock, reaper: Reaper[Operation]
) -> None:
    operations = [Operation(clock, delay) for delay in (5, 30, 450, 9_000, 300_000)]
    for operation in operations:
        reaper.try_complete_else_watch(operation, ["k"])
    clock.now_ms = 50_000 + 86_400_000
    clock.move_to(clock.now_ms)
    assert all(operation.completed_at == [clock.now_ms] for operation in operations)
    assert reaper.wake_ups == 1
    assert clock.pending == []
