"""Logs on a simulated disk that loses, tears and zero-fills what was not flushed, seed by seed."""

import random

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.server.storage.directories.log_manager import LogConfig, LogManager, LogManagerConfig
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.world.sim.world import SimHost, SimWorld
from tests.support.storage.logs import NOW, batch, batches_of, values_of
from tests.support.storage.searches import run_search

TP = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


class PowerLoss:
    """``now`` is what the log holds, ``promised`` what a completed flush has promised to keep,
    ``versions`` all that the log has held since then. ``cut_at``: the lowest cut that no flush has
    followed; nothing is appended over it, and what comes back above it is cut again."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.host: SimHost
        self.now: list[bytes] = []
        self.promised: list[bytes] = []
        self.versions: list[list[bytes]] = [[]]
        self.cut_at: int | None = None
        self.epoch = 0
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

    async def run(self, host: SimHost) -> None:
        self.host = host
        await host.spawn(self.start())
        for _ in range(40):
            step = self.dice.choices(
                [self.append, self.truncate, self.flush, self.checkpoint, self.stop, self.fail],
                weights=[20, 2, 3, 3, 1, 3],
            )[0]
            if step == self.fail:
                await self.fail()
            else:
                await host.spawn(step())

    async def append(self) -> None:
        assert self.log.cut_unflushed == (self.cut_at is not None)
        if self.log.cut_unflushed:
            with pytest.raises(KafkaError, match="not on disk yet"):
                self.log.append_as_leader(batch(b"too soon", at_ms=NOW), self.epoch, NOW)
            return
        if self.dice.random() < 0.2:
            self.epoch += 1
            self.log.assign_epoch_start_offset(self.epoch, len(self.now))
        for _ in range(self.dice.randint(1, 6)):
            self.number += 1
            value = b"%06d" % self.number + bytes(self.dice.randrange(150))
            fields = {"producer_id": 3, "producer_epoch": 0, "base_sequence": len(self.now)}
            data = batch(value, at_ms=NOW + self.number, **fields)
            self.log.append_as_leader(data, self.epoch, NOW)
            self.now.append(value)
            self.versions.append(self.now[:])

    async def truncate(self) -> None:
        offset = self.dice.randint(0, len(self.now))
        self.log.truncate_to(offset)
        if offset < len(self.now):
            self.cut_at = offset if self.cut_at is None else min(self.cut_at, offset)
        self.now = self.now[:offset]
        self.promised = self.promised[:offset]
        self.versions.append(self.now[:])

    async def flush(self) -> None:
        log, held = self.log, self.now[:]
        await log.flush()
        self.cut_at = None
        self.promised = held
        self.versions = [held]

    async def checkpoint(self) -> None:
        await self.logs.checkpoint()

    async def stop(self) -> None:
        if TP in self.logs.logs():
            self.promised = self.now[:]
            self.versions = [self.now[:]]
        await self.logs.shutdown()
        self.cut_at = None
        await self.start()
        assert self.log.recovery_point == self.log.log_end_offset
        self.check()

    async def fail(self) -> None:
        """A killed process loses nothing; a power loss may."""
        power_loss = self.dice.random() < 0.8
        await (self.host.crash() if power_loss else self.host.kill())
        self.host.restart()
        await self.host.spawn(self.start())
        assert power_loss or self.log.log_end_offset == len(self.now)
        if power_loss and self.cut_at is not None:
            self.log.truncate_to(self.cut_at)  # as the leader has it done again
        if not self.log.cut_unflushed:
            self.cut_at = None  # after a kill, loading has seen to the flush
        assert power_loss or self.cut_at is None
        self.check()

    def check(self) -> None:
        held = [v or b"" for v in values_of(self.log)]
        assert held[: len(self.promised)] == self.promised
        assert any(held == version[: len(held)] for version in self.versions)
        entry = self.log.producers.states.entry(3)
        assert (entry is None) == (not held)
        assert entry is None or entry.last_sequence == len(held) - 1
        for offset in range(len(held)):
            at_ms = NOW + int(held[offset][:6])
            found = run_search(self.log.offset_by_timestamp(at_ms, 10**6))
            assert found is not None
            assert found.offset == offset
        starts: dict[int, int] = {}
        for stored in batches_of(self.log):
            starts.setdefault(stored.partition_leader_epoch, stored.base_offset)
        assert dict(self.log.epochs.cache.entries) == starts
        self.now = held
        self.versions.append(held[:])


@pytest.mark.parametrize("seed", range(40))
def test_flushed_records_survive_a_power_loss_unmixed(seed: int) -> None:
    world = SimWorld(seed)
    world.run(PowerLoss(seed).run(world.host("here")))
