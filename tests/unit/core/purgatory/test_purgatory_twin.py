"""The purgatory against a naive twin: a plain list, searched from end to end."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minikafka.core.purgatory import DelayedOperation, Purgatory

KEYS = ["a", "b", "c"]
keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)


class World:
    """What operations wait for: a level per key, which only rises (a high watermark, say)."""

    def __init__(self) -> None:
        self.now = 1_000
        self.levels = dict.fromkeys(KEYS, 0)


class Waiting(DelayedOperation):
    """Complete when every key's level has reached its target. On completion it may raise the level
    of a key, which is another event, and may park a successor."""

    def __init__(
        self,
        machine: PurgatoryAgainstList,
        name: int,
        targets: dict[str, int],
        delay_ms: int,
        bump: str | None,
        successor: dict[str, int] | None,
    ) -> None:
        super().__init__(delay_ms)
        self.machine = machine
        self.name = name
        self.targets = targets
        self.deadline = machine.world.now + delay_ms
        self.watching = set(targets)
        self.bump = bump
        self.successor = successor
        self.cancelled = False
        self.completions = 0
        self.expirations = 0

    def is_ready(self) -> bool:
        levels = self.machine.world.levels
        return all(levels[key] >= target for key, target in self.targets.items())

    def try_complete(self) -> bool:
        return self.is_ready() and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1
        machine = self.machine
        if self.bump is not None:
            machine.raise_level(self.bump)
        if self.successor is not None:
            machine.park(self.successor, 50, None, None)

    def on_expiration(self) -> None:
        self.expirations += 1


class PurgatoryAgainstList(RuleBasedStateMachine):
    """After every step, exactly those are completed that the twin says: ready, or out of time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.purgatory = Purgatory[Waiting]("Test", purge_interval=5)
        self.operations: list[Waiting] = []

    def park(
        self,
        targets: dict[str, int],
        delay_ms: int,
        bump: str | None,
        successor: dict[str, int] | None,
    ) -> None:
        operation = Waiting(self, len(self.operations), targets, delay_ms, bump, successor)
        self.operations.append(operation)
        done = self.purgatory.try_complete_else_watch(operation, list(targets), self.world.now)
        assert done <= operation.is_completed

    def raise_level(self, key: str) -> None:
        self.world.levels[key] += 1
        self.purgatory.check_and_complete(key)

    @rule(
        watched=keys,
        ahead=st.integers(0, 3),
        delay_ms=st.integers(0, 600),
        bump=st.none() | st.sampled_from(KEYS),
        again=st.none() | keys,
    )
    def add(
        self,
        watched: list[str],
        ahead: int,
        delay_ms: int,
        bump: str | None,
        again: list[str] | None,
    ) -> None:
        levels = self.world.levels
        successor = None if again is None else {key: levels[key] + 2 for key in again}
        self.park({key: levels[key] + ahead for key in watched}, delay_ms, bump, successor)

    @rule(key=st.sampled_from(KEYS))
    def event(self, key: str) -> None:
        self.raise_level(key)

    @rule(several=keys)
    def one_event_on_several_keys(self, several: list[str]) -> None:
        for key in several:
            self.world.levels[key] += 1
        self.purgatory.check_all_and_complete(several)

    @rule(step=st.integers(1, 400))
    def time_passes(self, step: int) -> None:
        self.world.now += step
        # Expiry may park successors that are due in turn, as a reaper would find out.
        while (due := self.purgatory.next_expiration_ms()) is not None and due <= self.world.now:
            self.purgatory.advance(self.world.now)
        self.purgatory.advance(self.world.now)
        for operation in self.operations:
            if not operation.cancelled:
                assert operation.is_completed or operation.deadline > self.world.now
        assert not self.purgatory.purge_due

    @rule(key=st.sampled_from(KEYS))
    def cancel(self, key: str) -> None:
        """Nothing completes by that, and what waited for the key never expires."""
        expected = [
            operation
            for operation in self.operations
            if key in operation.watching and not operation.is_completed
        ]
        assert self.purgatory.cancel_for_key(key) == expected
        for operation in expected:
            operation.cancelled = True
            operation.watching.remove(key)

    @invariant()
    def completed_exactly_once_and_never_too_late(self) -> None:
        for operation in self.operations:
            assert operation.completions == operation.is_completed
            assert operation.expirations <= operation.completions
            if operation.expirations:
                assert operation.deadline <= self.world.now
            assert not (operation.cancelled and operation.expirations)
            # No event is missed: what is ready is complete.
            if not operation.cancelled:
                assert operation.is_completed or not operation.is_ready()
            # Nothing completes without cause.
            assert not operation.is_completed or operation.expirations or operation.is_ready()

    @invariant()
    def timer_and_lists_hold_pending_operations(self) -> None:
        for operation in self.operations:
            assert operation.watch_lists <= len(operation.targets)
        assert self.purgatory.watched == sum(op.watch_lists for op in self.operations)
        waiting = [
            operation
            for operation in self.operations
            if not operation.is_completed and not operation.cancelled
        ]
        due = [operation for operation in waiting if operation.delay_ms == 0]
        assert len(waiting) - len(due) <= self.purgatory.delayed <= len(waiting)
        least = sum(len(operation.targets) for operation in waiting)
        assert least <= self.purgatory.watched
        assert self.purgatory.watched <= sum(len(op.targets) for op in self.operations)


TestPurgatoryAgainstList = PurgatoryAgainstList.TestCase
TestPurgatoryAgainstList.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None
)
TestPurgatoryAgainstList = pytest.mark.mission("PUR-1", "PUR-8")(TestPurgatoryAgainstList)
