"""Compaction cut off before each of its file operations, by a kill or a power loss."""

import contextlib
import random
from typing import Any

import pytest

from minikafka.kernel.ports import Files
from minikafka.protocol.records.batch import RecordBatch
from minikafka.server.storage.log.loader import Checkpointed, LogLoader, create_log
from minikafka.server.storage.log.unified_log import LogConfig, UnifiedLog
from minikafka.world.sim.world import SimHost, SimWorld
from tests.support.storage.compaction import batches_up_to, clean, committed_records, latest
from tests.support.storage.crashing_files import Crashed, CrashingFiles, CrashPoint
from tests.support.storage.logs import NOW, TP
from tests.support.storage.transactions import TxnProducer
from tests.support.world.recording_log import RecordingLog

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=900,
    index_interval_bytes=120,
    index_size_max_bytes=480,
    delete_retention_ms=0,
)


def fill(log: UnifiedLog, dice: random.Random) -> None:
    """Keys overwritten and deleted, plainly and in transactions that commit or not; some groups of
    segments come out of it."""
    producers = [TxnProducer(number) for number in (1, 2, 3)]
    for number in range(30):
        producer = dice.choice(producers)
        value = None if dice.random() < 0.2 else b"%04d" % number + bytes(dice.randrange(60))
        at_ms = NOW + number
        transactional = producer.in_transaction or dice.random() < 0.3
        pair = (b"k%d" % dice.randrange(8), value)
        producer.send(log, pair, at_ms=at_ms, transactional=transactional)
        if producer.in_transaction and dice.random() < 0.4:
            producer.end(log, dice.random() < 0.5, at_ms)
    for producer in producers:
        if producer.in_transaction:
            producer.end(log, False, NOW + 100)
    log.transactions.committed_up_to(log.log_end_offset)


class CutOff:
    """``steps`` is how many operations the cleaning took, when it was not cut off."""

    def __init__(self, seed: int, at: int | None, power_loss: bool) -> None:
        self.seed, self.power_loss = seed, power_loss
        self.point = CrashPoint(None)
        self.at = at

    async def run(self, host: SimHost) -> None:
        await host.spawn(self.before(host))
        with contextlib.suppress(Crashed):
            await host.spawn(self.cut_off(host))
        await (host.crash() if self.power_loss else host.kill())
        host.restart()
        await host.spawn(self.after(host))

    async def before(self, host: SimHost) -> None:
        files: Any = CrashingFiles(host.world.files, self.point)
        self.log = create_log(files, DIRECTORY, TP, None, CONFIG)
        await files.flush_directory("/")
        fill(self.log, random.Random(self.seed))
        await self.log.flush()
        self.files: Files = files
        if self.seed % 2:  # what is cut off is the second one, after the horizon of tombstones
            await clean(files, host.world.clock, self.log, self.log.log_end_offset)
        self.end = self.log.log_end_offset
        self.committed = latest(committed_records(self.log, self.end))
        self.batches = {b.base_offset: b for b in batches_up_to(self.log, self.end)}
        active = self.log.segments.active
        assert active is not None
        self.untouched = active.base_offset
        self.producers = self.states(self.log)

    async def cut_off(self, host: SimHost) -> None:
        start = self.point.count
        self.point.at = None if self.at is None else start + self.at
        self.log.cleaned_offset = None
        await clean(self.files, host.world.clock, self.log, self.end)
        self.steps = self.point.count - start

    async def after(self, host: SimHost) -> None:
        files = host.world.files
        log = UnifiedLog(files, DIRECTORY, TP, CONFIG)
        found = Checkpointed(False, self.end, 0)
        await LogLoader(files, log, found, RecordingLog()).load()
        self.check(log)
        names = files.list(DIRECTORY)
        assert not [n for n in names if n.endswith((".cleaned", ".swap", ".deleted"))]
        await clean(files, host.world.clock, log, self.end)
        self.check(log)

    def check(self, log: UnifiedLog) -> None:
        assert log.log_end_offset == self.end
        assert latest(committed_records(log, self.end)) == self.committed
        for batch in batches_up_to(log, self.end):
            before = self.batches[batch.base_offset]
            assert identity(batch) == identity(before)
            if batch.base_offset >= self.untouched:
                assert bytes(batch.view()) == bytes(before.view())
        assert self.states(log) == self.producers

    def states(self, log: UnifiedLog) -> list[tuple[int, int, int]]:
        """Sequence numbers and open transactions survive."""
        return sorted(
            (entry.producer_id, entry.last_sequence, entry.current_txn_first_offset)
            for entry in log.producers.states.entries
        )


def identity(batch: RecordBatch) -> tuple[int, ...]:
    return (
        batch.base_offset,
        batch.last_offset,
        batch.producer_id,
        batch.base_sequence,
        batch.partition_leader_epoch,
    )


def cut_off(seed: int, at: int | None, power_loss: bool) -> CutOff:
    world = SimWorld(seed)
    run = CutOff(seed, at, power_loss)
    world.run(run.run(world.host("here")))
    return run


@pytest.mark.parametrize(("seed", "power_loss"), [(1, False), (2, True), (3, True)])
def test_nothing_is_lost_wherever_it_is_cut_off(seed: int, power_loss: bool) -> None:
    steps = cut_off(seed, None, power_loss).steps
    assert steps > 50
    for at in range(steps):
        cut_off(seed, at, power_loss)
