"""A log through its whole life, with a crash at every single change of the disk on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager, LogManagerConfig
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.world.sim.process import HostDown
from minikafka.world.sim.world import SimHost, SimWorld
from tests.support.storage.logs import NOW, batch, batches_of, values_of
from tests.support.storage.searches import run_search

TP = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
CHANGES = ("write", "truncate", "create", "rename", "remove", "remove_tree", "make_directories")
SHARDS = 4


class CrashPoint:
    """Ends the process right before its change number ``at`` to the disk."""

    def __init__(self, host: SimHost, at: int | None) -> None:
        self.count = 0
        self.over = False
        self._host, self._at = host, at
        for name in CHANGES:
            setattr(host.disk, name, self._counted(getattr(host.disk, name)))

    def _counted(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            if self.over:
                return change(*args)
            if self.count == self._at:
                self.count += 1
                self._host._process.die()
                self._host._process.check()
            self.count += 1
            return change(*args)

        return counted


class Life:
    """What a log goes through. ``now`` is all it was given, by offset, as far as it was not cut;
    ``promised`` how much of that a completed flush has promised to keep; ``possible`` all that it
    may hold if everything ends now. ``starts`` are the least and the greatest start it may have."""

    def __init__(self, host: SimHost) -> None:
        self.host = host
        self.now: list[bytes] = []
        self.promised = 0
        self.possible: list[list[bytes]] = [[]]
        self.starts = (0, 0)
        self.deleted = False
        self.number = 0

    @property
    def log(self) -> UnifiedLog:
        return self.logs.get_or_create(TP, None, CONFIG)

    async def start(self) -> None:
        config = LogManagerConfig(("/data",), producer_id_expiration_ms=2**62, log=CONFIG)
        self.logs = LogManager(
            self.host.world.files, self.host.world.clock, self.host.world.workers, config
        )
        await self.logs.start()

    async def live(self) -> None:
        await self.start()
        self.append(0, 2)
        await self.flush()
        self.append(1, 5)
        await self.logs.checkpoint()
        self.append(1, 2)
        await self.truncate(6)
        self.append(2, 3)
        await self.delete_records(4)
        await self.stop()
        await self.start()
        self.append(3, 3)
        await self.truncate(3)  # below the start of the first segment that is left
        self.append(3, 2)
        await self.delete()

    def append(self, epoch: int, count: int) -> None:
        if self.log.latest_epoch != epoch:
            self.log.assign_epoch_start_offset(epoch, len(self.now))
        for _ in range(count):
            self.number += 1
            value = b"%06d" % self.number + bytes(100)
            fields = {"producer_id": 3, "producer_epoch": 0, "base_sequence": len(self.now)}
            self.now = [*self.now, value]
            self.possible.append(self.now)
            self.log.append_as_leader(batch(value, at_ms=NOW + self.number, **fields), epoch, NOW)

    async def truncate(self, offset: int) -> None:
        """As a follower does: nothing is appended before the truncation is on disk."""
        self.promised = min(self.promised, offset)
        low, high = self.starts
        self.starts = (min(low, offset), high)
        before, self.now = self.now, self.now[:offset]
        self.possible += [before[:end] for end in range(offset, len(before))]
        self.log.truncate_to(offset)
        await self.flush()
        self.starts = (self.log.log_start_offset,) * 2

    async def flush(self) -> None:
        await self.log.flush()
        self._kept()

    def _kept(self) -> None:
        self.promised = len(self.now)
        self.possible = [self.now]

    async def delete_records(self, offset: int) -> None:
        self.starts = (self.starts[0], offset)
        self.log.increment_log_start_offset(offset)
        self.logs.starts.write()
        await self.logs.checkpoint()
        self.starts = (offset, offset)

    async def stop(self) -> None:
        await self.logs.shutdown()
        self._kept()

    async def delete(self) -> None:
        self.deleted = True
        await self.logs.delete(TP)

    # ---- afterwards

    async def check(self) -> None:
        await self.start()
        if TP not in self.logs.logs():
            assert self.deleted or not self.promised
            return
        log, (low, high) = self.log, self.starts
        start = log.log_start_offset
        held = [value or b"" for value in values_of(log)]
        assert start + len(held) == log.log_end_offset
        assert low <= start <= high, (low, start, high)
        assert log.log_end_offset >= self.promised
        whole = [version[start : log.log_end_offset] for version in self.possible]
        assert held in whole, "never was what the log holds"
        self._check_facts(log, held)
        self.now = [b""] * start + held
        await self._goes_on(log)

    def _check_facts(self, log: UnifiedLog, held: list[bytes]) -> None:
        entry = log.producers.states.entry(3)
        if held:
            assert entry is not None
            assert entry.last_sequence == log.log_end_offset - 1
        for offset, value in enumerate(held, log.log_start_offset):
            found = run_search(log.offset_by_timestamp(NOW + int(value[:6]), 10**6))
            assert found is not None
            assert found.offset == offset
        starts: dict[int, int] = {}
        for stored in batches_of(log):
            starts.setdefault(stored.partition_leader_epoch, stored.base_offset)
        known = dict(log.epochs.cache.entries)
        assert {e: start for e, start in known.items() if start < log.log_end_offset} == starts

    async def _goes_on(self, log: UnifiedLog) -> None:
        """It takes records, and a clean shutdown and start after that finds all of them."""
        self.number = 900
        self.append(9, 3)
        expected = values_of(log)
        await self.logs.shutdown()
        await self.start()
        assert values_of(self.log) == expected
        assert self.log.recovery_point == self.log.log_end_offset == len(self.now)


def run(at: int | None, seed: int, power_loss: bool) -> int:
    """How many changes there were on the way."""
    world = SimWorld(seed)
    host = world.host("here")
    point = CrashPoint(host, at)

    async def main() -> None:
        life = Life(host)
        task = host.spawn(life.live())
        with contextlib.suppress(HostDown, asyncio.CancelledError):
            await task
        point.over = True
        await (host.crash() if power_loss else host.kill())
        host.restart()
        await host.spawn(life.check())

    world.run(main())
    return point.count


def test_the_scenario_without_a_crash() -> None:
    assert run(None, 0, False) > 100


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_crash_at_every_change_of_the_disk(shard: int) -> None:
    changes = run(None, 0, False)
    for at in range(shard, changes, SHARDS):
        run(at, at, power_loss=False)
        run(at, at, power_loss=True)
