"""The purgatory and a naive twin, one list and one heap, live through the same and end alike."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from random import Random
from typing import Protocol

import pytest

from minikafka.core.purgatory import DelayedOperation, Purgatory

KEYS = "abcdefgh"
STEPS = 400


class Keeper(Protocol):
    def try_complete_else_watch(self, operation: Op, keys: Sequence[str], now_ms: int) -> bool: ...

    def check_and_complete(self, key: str) -> int: ...

    def cancel_for_key(self, key: str) -> list[Op]: ...

    def advance(self, now_ms: int) -> int: ...


class ListAndHeap:
    """The same in as few words as possible."""

    def __init__(self) -> None:
        self.watched: list[tuple[str, Op]] = []
        self.deadlines: list[tuple[int, Op]] = []
        self.untimed: set[Op] = set()

    def try_complete_else_watch(self, operation: Op, keys: Sequence[str], now_ms: int) -> bool:
        if operation.try_complete():
            return True
        self.watched += [(key, operation) for key in keys]
        if operation.try_complete():
            return True
        heapq.heappush(self.deadlines, (now_ms + operation.delay_ms, operation))
        return False

    def check_and_complete(self, key: str) -> int:
        here = [operation for other, operation in self.watched if other == key]
        return sum(not op.is_completed and op.try_complete() for op in here)

    def cancel_for_key(self, key: str) -> list[Op]:
        gone = [op for other, op in self.watched if other == key and not op.is_completed]
        self.watched = [entry for entry in self.watched if entry[0] != key]
        self.untimed.update(gone)
        return gone

    def advance(self, now_ms: int) -> int:
        due = []
        while self.deadlines and self.deadlines[0][0] <= now_ms:
            due.append(heapq.heappop(self.deadlines)[1])
        return sum(op not in self.untimed and op.expire() for op in due)


class Op(DelayedOperation):
    """What it does on completion hangs on its number alone."""

    def __init__(self, life: Life, number: int, delay_ms: int) -> None:
        super().__init__(delay_ms)
        self.life = life
        self.number = number
        self.dice = Random(f"{life.seed} {number}")
        self.targets = {
            key: life.levels[key] + self.dice.randrange(6)
            for key in self.dice.sample(KEYS, self.dice.randint(1, 3))
        }

    def __lt__(self, other: Op) -> bool:
        return self.number < other.number

    def try_complete(self) -> bool:
        levels = self.life.levels
        ready = all(levels[key] >= target for key, target in self.targets.items())
        return ready and self.force_complete()

    def on_complete(self) -> None:
        life = self.life
        life.tell("completed", self.number)
        choice = self.dice.randrange(10)
        if choice < 2:
            life.raise_level(self.dice.choice(KEYS))
        elif choice < 4:
            life.park(self.dice.randint(1, 600))
        elif choice == 4:
            life.park(self.dice.randint(1, 30))
            life.raise_level(self.dice.choice(list(self.targets)))
        elif choice == 5:
            life.cancel(self.dice.choice(KEYS))

    def on_expiration(self) -> None:
        self.life.tell("expired", self.number)


class Life:
    """One seed's run against one keeper; ``trace`` is all that could be seen of it."""

    def __init__(self, seed: int, keeper: Keeper) -> None:
        self.seed = seed
        self.keeper = keeper
        self.now_ms = 5_000
        self.levels = dict.fromkeys(KEYS, 0)
        self.trace: list[object] = []
        self.parked = 0
        self.deadlines: set[int] = set()

    def tell(self, *facts: object) -> None:
        self.trace.append((self.now_ms, *facts))

    def park(self, delay_ms: int) -> None:
        # In which order those of one millisecond expire is not promised: no two share one.
        while self.now_ms + delay_ms in self.deadlines:
            delay_ms += 1
        self.deadlines.add(self.now_ms + delay_ms)
        self.parked += 1
        operation = Op(self, self.parked, delay_ms)
        self.tell("parked", operation.number)
        done = self.keeper.try_complete_else_watch(operation, list(operation.targets), self.now_ms)
        self.tell("at once", operation.number, done)

    def raise_level(self, key: str) -> None:
        self.levels[key] += 1
        self.tell("checked", key, self.keeper.check_and_complete(key))

    def cancel(self, key: str) -> None:
        self.tell("cancelled", [op.number for op in self.keeper.cancel_for_key(key)])

    def run(self) -> list[object]:
        dice = Random(self.seed)
        for _ in range(STEPS):
            choice = dice.randrange(20)
            if choice < 9:
                self.park(dice.choice((dice.randint(1, 40), dice.randint(1, 2_000), 30_000)))
            elif choice < 15:
                self.raise_level(dice.choice(KEYS))
            elif choice == 15 and dice.randrange(5) == 0:
                self.cancel(dice.choice(KEYS))
            else:
                self.now_ms += dice.choice((1, dice.randint(1, 50), dice.randint(1, 1_000)))
                self.tell("advanced", self.keeper.advance(self.now_ms))
        return self.trace


@pytest.mark.mission("PUR-1", "PUR-4", "PUR-8")
@pytest.mark.parametrize("seed", range(40))
def test_both_live_through_the_same(seed: int) -> None:
    purgatory = Purgatory[Op]("Test", purge_interval=4)
    trace = Life(seed, purgatory).run()
    assert trace == Life(seed, ListAndHeap()).run()
    told = {facts[1] for facts in trace if isinstance(facts, tuple)}
    assert told >= {"completed", "expired", "parked", "checked", "advanced"}
