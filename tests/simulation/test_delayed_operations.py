"""Ten thousand delayed operations under a seed: each completes once, and none at a wrong time."""

from __future__ import annotations

from random import Random

import pytest

from minikafka.core.purgatory import DelayedOperation, Purgatory
from minikafka.kernel.ports import Clock
from minikafka.server.broker.purgatories import Reaper, expiration_reaper_name
from minikafka.world.sim.world import SimWorld

SEEDS = range(20)
OPERATIONS = 10_000
KEYS = 40
TICK_MS = 1
LONGEST_MS = 2**31 - 1
LEVELS_UP_TO_LONGEST = 8
DAY_MS = 86_400_000


class Broker:
    """What operations wait for: a level for each key, which only rises; and a note of each end."""

    def __init__(self, clock: Clock, dice: Random) -> None:
        self.clock = clock
        self.dice = dice
        self.reaper: Reaper[Operation] = Reaper(
            clock, Purgatory("Test", purge_interval=100), expiration_reaper_name(1, "Test")
        )
        self.levels = [0] * KEYS
        self.operations: list[Operation] = []

    def park(self) -> None:
        if len(self.operations) >= OPERATIONS:
            return
        dice = self.dice
        longest_ms = dice.choice((0, 3, 50, 50, 500, 500, 500, 30_000, 300_000))
        targets = {
            (key := dice.randrange(KEYS)): self.levels[key] + dice.randrange(1, 30)
            for _ in range(dice.choice((1, 1, 2, 3)))
        }
        operation = Operation(self, dice.randint(0, longest_ms), targets)
        self.operations.append(operation)
        self.reaper.try_complete_else_watch(operation, list(targets))

    def raise_level(self, key: int) -> None:
        self.levels[key] += 1
        self.reaper.check_and_complete(key)


class Operation(DelayedOperation):
    """Completion may be an event for others, and may park the next one."""

    __slots__ = ("broker", "deadline_ms", "done_ms", "expired", "targets")

    def __init__(self, broker: Broker, delay_ms: int, targets: dict[int, int]) -> None:
        super().__init__(delay_ms)
        self.broker = broker
        self.deadline_ms = broker.clock.monotonic_ms() + delay_ms
        self.targets = targets
        self.done_ms: int | None = None
        self.expired = False

    @property
    def ready(self) -> bool:
        levels = self.broker.levels
        return all(levels[key] >= target for key, target in self.targets.items())

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        assert self.done_ms is None, "completed twice"
        broker = self.broker
        self.done_ms = broker.clock.monotonic_ms()
        what_follows = broker.dice.randrange(20)
        if what_follows == 0:
            broker.raise_level(broker.dice.randrange(KEYS))
        elif what_follows < 4:
            broker.park()

    def on_expiration(self) -> None:
        self.expired = True


async def scenario(broker: Broker) -> None:
    clock, dice, reaper = broker.clock, broker.dice, broker.reaper
    while len(broker.operations) < OPERATIONS:
        for _ in range(dice.randrange(40)):
            broker.park()
        for _ in range(dice.randrange(8)):
            broker.raise_level(dice.randrange(KEYS))
        await clock.sleep(dice.choice((0, 1, 2, 20, dice.randrange(300))))
    await clock.sleep(300_000 + TICK_MS)
    at_rest = reaper.wake_ups
    await clock.sleep(DAY_MS)
    assert reaper.wake_ups == at_rest, "a broker at rest wakes for no timer"
    last = Operation(broker, LONGEST_MS, {0: 10**9})
    broker.operations.append(last)
    reaper.try_complete_else_watch(last, [0])
    await clock.sleep(LONGEST_MS - TICK_MS)
    assert not last.is_completed
    await clock.sleep(2 * TICK_MS)
    assert reaper.wake_ups - at_rest <= LEVELS_UP_TO_LONGEST


@pytest.mark.mission("PUR-1", "PUR-2", "TW-20", "TW-21")
@pytest.mark.parametrize("seed", SEEDS)
def test_each_completes_once_and_in_time(seed: int) -> None:
    simulation = SimWorld(seed)
    host = simulation.host("broker")
    dice = Random(f"operations {seed}")
    broker = Broker(host.world.clock, dice)
    simulation.run(scenario(broker), limit_s=40 * DAY_MS / 1000)
    expired = 0
    for operation in broker.operations:
        assert operation.done_ms is not None
        assert operation.done_ms <= operation.deadline_ms + TICK_MS
        assert operation.expired or operation.ready
        if operation.expired:
            expired += 1
            assert operation.done_ms >= operation.deadline_ms
    assert len(broker.operations) == OPERATIONS + 1
    assert OPERATIONS // 10 < expired < OPERATIONS * 9 // 10, "both ways of ending were tried"
    assert broker.reaper.purgatory.delayed == 0
