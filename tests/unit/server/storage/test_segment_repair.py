"""A damaged segment is rebuilt with the batches of a twin, or it stays byte for byte as it is."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.directories.config import LogManagerConfig
from minikafka.server.storage.directories.log_manager import LogManager
from minikafka.server.storage.log.segment import LogSegment
from minikafka.server.storage.log.unified_log import UnifiedLog
from minikafka.server.storage.scrubber import LogScrubberConfig
from minikafka.server.storage.segment_repair import NoReplacement
from minikafka.world.real.files import RealFiles
from minikafka.world.real.world import RealClock
from tests.support.world.manual_workers import ManualWorkers

TP = TopicPartition("a", 0)
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, file_delete_delay_ms=0)
COMPACTED = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=200,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.01,
)


async def manager(path: Path, config: LogConfig) -> LogManager:
    scrubber = LogScrubberConfig(bytes_per_second=1 << 40)
    logs = LogManager(
        RealFiles(),
        RealClock(),
        ManualWorkers(),
        LogManagerConfig((str(path),), log=config, scrubber=scrubber),
    )
    await logs.start()
    return logs


async def twins(
    path: Path, config: LogConfig, offsets: list[int], dice: random.Random
) -> tuple[LogManager, UnifiedLog, LogManager, UnifiedLog]:
    """Two replicas with batches at the same offsets."""
    one, two = await manager(path / "one", config), await manager(path / "two", config)
    logs = one.get_or_create(TP, None, config), two.get_or_create(TP, None, config)
    for offset in offsets:
        value = dice.randbytes(dice.choice([1, 30, 300]))
        batch = build_batch([(0, b"%d" % offset, value, ())], base_offset=offset)
        for log in logs:
            log.append_as_follower(bytearray(batch))
    return one, logs[0], two, logs[1]


def fetching(log: UnifiedLog, size: int = 500) -> object:
    async def fetch(offset: int) -> Buffer:
        await asyncio.sleep(0)
        try:
            return log.read(offset, size, log.log_end_offset, True).records
        except KafkaError as error:
            raise NoReplacement(error.message) from error

    return fetch


def contents(log: UnifiedLog) -> list[bytes]:
    return [Path(segment.path).read_bytes() for segment in log.segments]


def sealed_bytes(log: UnifiedLog) -> list[tuple[LogSegment, int]]:
    """All places in sealed segments where a change can be noticed. No CRC covers leader epochs and
    base offsets, and where there are gaps, another base offset may fit."""
    unseen = range(16) if log.config.compacts else range(12, 16)
    places = []
    for segment in list(log.segments)[:-1]:
        for found in segment.batches():
            size = found.batch.size_bytes
            places += [(segment, found.position + at) for at in range(size) if at not in unseen]
    return places


def cleaned_files(log: UnifiedLog) -> list[str]:
    return [path.name for path in Path(log.directory).glob("*.cleaned")]


def damage_index(segment: LogSegment) -> None:
    """Change the position in each entry."""
    index = Path(segment.offset_index.path)
    data = bytearray(index.read_bytes())
    for position in range(7, len(data), 8):
        data[position] ^= 5
    index.write_bytes(data)


def flip(segment: LogSegment, position: int, mask: int) -> None:
    with Path(segment.path).open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


async def repair_all(logs: LogManager, source: UnifiedLog) -> None:
    await logs.scrubber.scrub_all()
    while damaged := logs.scrubber.damaged():
        await logs.repair(damaged[0], fetching(source))  # type: ignore[arg-type]


@pytest.mark.mission("SAFE-66")
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("seed", range(25))
async def test_flipped_bytes_anywhere_are_repaired(
    tmp_path: Path, seed: int, has_gaps: bool
) -> None:
    dice = random.Random(seed)
    offsets = sorted(dice.sample(range(80), 50)) if has_gaps else list(range(50))
    one, log, two, source = await twins(tmp_path, COMPACTED if has_gaps else SMALL, offsets, dice)
    before = contents(log)
    for segment, position in dice.sample(sealed_bytes(log), dice.randint(1, 6)):
        flip(segment, position, dice.randrange(1, 256))
    await repair_all(one, source)
    assert contents(log) == before
    one.close()
    two.close()


@pytest.mark.mission("SAFE-66")
@pytest.mark.parametrize("seed", range(25))
async def test_a_damaged_source_changes_nothing(tmp_path: Path, seed: int) -> None:
    """The source is damaged at the same place, and at others."""
    dice = random.Random(seed)
    one, log, two, source = await twins(tmp_path, SMALL, list(range(50)), dice)
    places = sealed_bytes(log)
    same = dice.randrange(len(places))
    flip(*places[same], 1)
    for segment, position in [sealed_bytes(source)[same], *dice.sample(sealed_bytes(source), 2)]:
        flip(segment, position, dice.randrange(1, 256))
    before = contents(log)
    await one.scrubber.scrub_all()
    (damaged,) = one.scrubber.damaged()
    with pytest.raises(NoReplacement):
        await one.repair(damaged, fetching(source))  # type: ignore[arg-type]
    assert contents(log) == before
    assert one.scrubber.damaged() == [damaged]
    assert not cleaned_files(log)
    one.close()
    two.close()


@pytest.mark.mission("SAFE-66")
async def test_a_damaged_index_only_makes_the_hole_larger(tmp_path: Path) -> None:
    one, log, two, source = await twins(tmp_path, SMALL, list(range(50)), random.Random(1))
    before = contents(log)
    segment = list(log.segments)[1]
    flip(segment, next(iter(segment.batches())).position + 70, 1)
    damage_index(segment)
    await repair_all(one, source)
    assert contents(log) == before
    one.close()
    two.close()


@pytest.mark.mission("SAFE-66")
async def test_an_uncleanable_log_is_cleaned_after_its_repair(tmp_path: Path) -> None:
    one, log, two, source = await twins(tmp_path, COMPACTED, list(range(50)), random.Random(2))
    places = sealed_bytes(log)
    flip(*places[len(places) // 2], 1)
    one.cleaner.uncleanable.add(log)
    paused = []

    async def fetch(offset: int) -> Buffer:
        paused.append(await one.cleaner.clean_filthiest())
        return source.read(offset, 500, source.log_end_offset, True).records

    await one.scrubber.scrub_all()
    (damaged,) = one.scrubber.damaged()
    one.cleaner.uncleanable.clear()
    await one.repair(damaged, fetch)
    assert paused
    assert not any(paused), "no cleaning while the segment is rebuilt"
    one.cleaner.uncleanable.add(log)
    flip(*sealed_bytes(log)[100], 1)
    await one.scrubber.scrub_all()
    (damaged,) = one.scrubber.damaged()
    await one.repair(damaged, fetch)
    assert log not in one.cleaner.uncleanable
    one.close()
    two.close()
