"""Reading: bounds, sizes, whole batches, places remembered, times, cold reads, truncation."""

import asyncio
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import parse_batches
from minikafka.protocol.records.compression import Compression
from minikafka.server.storage.log.unified_log import LogHome, NoHome, UnifiedLog
from minikafka.world.sim.disk import SimFile
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW, batch, cut, load, new_log, values_of
from tests.support.storage.searches import run_search

SIZE = len(batch(bytes(50)))


def log_of(count: int = 10, home: LogHome | None = None, **config: int) -> UnifiedLog:
    settings: dict[str, Any] = {"index_interval_bytes": 200, **config}
    log = new_log(home=home, **settings)
    for n in range(count):
        log.append_as_leader(batch(bytes([n]) * 50, at_ms=NOW + n), 0, NOW)
    return log


def offsets(records: Buffer) -> list[int]:
    return [b.base_offset for b in parse_batches(records)]


def read(log: UnifiedLog, *arguments: int, min_one: bool = False) -> list[int]:
    start, max_bytes, bound = arguments
    return offsets(log.read(start, max_bytes, bound, min_one).records)


def test_whole_batches_within_the_size_and_below_the_bound() -> None:
    log = log_of()
    assert read(log, 0, 10**6, 10) == list(range(10))
    assert read(log, 0, 10**6, 99) == list(range(10))
    assert read(log, 3, 10**6, 7) == [3, 4, 5, 6]
    assert read(log, 3, 2 * SIZE, 10) == [3, 4]
    assert read(log, 3, 3 * SIZE - 1, 10) == [3, 4]
    assert read(log, 3, SIZE - 1, 10) == []
    assert read(log, 3, 0, 10) == []
    assert read(log, 3, SIZE - 1, 10, min_one=True) == [3]
    assert read(log, 3, 0, 10, min_one=True) == [3]
    assert read(log, 3, 10**6, 3) == []
    assert read(log, 5, 10**6, 3) == []
    assert read(log, 10, 10**6, 10, min_one=True) == []


def test_offsets_outside_the_log() -> None:
    log = log_of()
    log.increment_log_start_offset(4)
    for start in (-1, 3, 11):
        with pytest.raises(KafkaError) as caught:
            log.read(start, 1000, 10, True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(log, 4, 10**6, 10)[0] == 4
    assert new_log().read(0, 100, 0, True).records == b""


def test_an_offset_inside_a_batch_gives_the_whole_batch() -> None:
    log = new_log()
    for _ in range(3):
        log.append_as_leader(batch(b"a", b"b", b"c"), 0, NOW)
    found = log.read(4, 10**6, 9, False)
    assert (found.first_offset, found.start_offset) == (3, 4)
    assert offsets(found.records) == [3, 6]
    assert read(log, 4, 10**6, 8) == [3]  # offset 7 lies in a batch that reaches the bound
    assert read(log, 4, 10**6, 5) == []


def test_a_read_stays_within_one_segment() -> None:
    log = log_of(segment_bytes=3 * SIZE)
    assert log.segments.base_offsets == [0, 3, 6, 9]
    assert read(log, 1, 10**6, 10) == [1, 2]
    assert read(log, 3, 10**6, 10) == [3, 4, 5]
    assert read(log, 3, 10**6, 5) == [3, 4]


def test_every_start_bound_and_size() -> None:
    log = log_of(segment_bytes=4 * SIZE)
    bases = log.segments.base_offsets
    for start in range(10):
        segment_end = min([b for b in bases if b > start], default=10)
        for bound in range(start, 11):
            for count in range(5):
                expected = list(range(start, min(start + count, bound, segment_end)))
                assert read(log, start, count * SIZE + 3, bound) == expected


def test_available_bytes_reach_over_segments() -> None:
    log = log_of(segment_bytes=3 * SIZE)
    for start in range(11):
        for bound in range(12):
            assert log.available_bytes(start, bound) == max(min(bound, 10) - start, 0) * SIZE


def reads_of(log: UnifiedLog, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Every (length, offset) that is read of a file from now on."""
    seen: list[tuple[int, int]] = []
    real = SimFile.read

    def read_and_note(self: SimFile, length: int, offset: int) -> bytes:
        seen.append((length, offset))
        return real(self, length, offset)

    monkeypatch.setattr(SimFile, "read", read_and_note)
    return seen


def test_a_tail_read_reads_only_new_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(50)
    assert read(log, 50, 10**6, 50) == []
    seen = reads_of(log, monkeypatch)
    for n in range(50, 55):
        log.append_as_leader(batch(bytes(50)), 0, NOW)
        assert read(log, n, 10**6, n + 1) == [n]
    assert seen == [(SIZE, n * SIZE) for n in range(50, 55)]


def test_a_reader_below_a_bound_is_remembered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(50)
    assert read(log, 20, 10**6, 30)[-1] == 29
    seen = reads_of(log, monkeypatch)
    assert read(log, 30, 10**6, 50)[0] == 30
    assert seen == [(20 * SIZE, 30 * SIZE)]


@pytest.mark.mission("FET-21")
@pytest.mark.parametrize("segment_bytes", [4 * SIZE, 1 << 30])
def test_a_reader_that_is_behind_is_remembered_too(
    monkeypatch: pytest.MonkeyPatch, segment_bytes: int
) -> None:
    """Neither headers nor the index, which may be in a file, are read to find the next batch."""
    log = log_of(50, segment_bytes=segment_bytes)
    assert read(log, 20, 2 * SIZE + 5, 50) == [20, 21]
    seen = reads_of(log, monkeypatch)
    assert read(log, 22, SIZE + 5, 50) == [22]
    assert [length for length, _ in seen] == [SIZE + 5]


@pytest.mark.mission("FET-21")
@pytest.mark.parametrize("first", [50, 1_000, 9_000])
def test_many_batches_are_whole_too(first: int) -> None:
    """Their last one is found by the index, unless they are few for their size."""
    log = log_of(0)
    for size in (first, *[50] * 99):
        log.append_as_leader(batch(bytes(size)), 0, NOW)
    rest = len(batch(bytes(first)))
    for count in (1, 31, 32, 33, 34, 60, 99):
        max_bytes = rest + (count - 1) * SIZE
        assert read(log, 0, max_bytes, 100) == list(range(count))
        assert read(log, 0, max_bytes + SIZE - 1, 100) == list(range(count))
        assert read(log, count, SIZE, 100) == [count]


def test_the_tail_is_followed_into_a_new_segment() -> None:
    log = log_of(3, segment_bytes=3 * SIZE)
    assert read(log, 3, 10**6, 3) == []
    log.append_as_leader(batch(bytes(50)), 0, NOW)
    assert log.segments.base_offsets == [0, 3]
    assert read(log, 3, 10**6, 4) == [3]


def test_places_are_forgotten_when_the_log_is_truncated() -> None:
    log = log_of(10)
    assert read(log, 5, 10**6, 8) == [5, 6, 7]
    cut(log, 4)
    for _ in range(3):
        log.append_as_leader(batch(b"a longer value than before" * 5), 1, NOW)
    assert read(log, 5, 10**6, 7) == [5, 6]


def test_a_segment_that_has_become_garbage_is_an_error() -> None:
    files = InstantFiles()
    log = new_log(files)
    for _ in range(3):
        log.append_as_leader(batch(bytes(50)), 0, NOW)
    segment = log.segments.active
    assert segment is not None
    files.open(segment.path).write(bytes(SIZE), SIZE)
    with pytest.raises(KafkaError) as caught:
        log.read(2, 1000, 3, True)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


async def test_cold_reads_give_the_same() -> None:
    log = log_of(segment_bytes=4 * SIZE)
    for arguments in [(0, 10**6, 10), (2, SIZE + 5, 10), (5, 0, 7), (10, 5, 10)]:
        for min_one in (False, True):
            warm = log.read(*arguments, min_one)
            assert await log.read_cold(*arguments, min_one) == warm


async def test_a_cold_read_across_a_truncation_reads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = log_of()
    arrived, go_on = asyncio.Event(), asyncio.Event()
    real = SimFile.read_cold

    async def slow(self: SimFile, length: int, offset: int) -> bytes:
        data = await real(self, length, offset)
        arrived.set()
        await go_on.wait()
        return data

    monkeypatch.setattr(SimFile, "read_cold", slow)
    task = asyncio.create_task(log.read_cold(2, 10**6, 10, True))
    await arrived.wait()
    log.truncate_to(4)
    go_on.set()
    assert offsets((await task).records) == [2, 3]


# ------------------------------------------------------------------------------------------ times


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_the_first_record_at_or_after_a_time(codec: Compression) -> None:
    log = new_log(index_interval_bytes=1, segment_bytes=400)
    times = [100, 300, 200, 300, 400, 350, 500]
    for n, at_ms in enumerate(times):
        data = batch(bytes([n]) * 50, b"", at_ms=at_ms, compression=codec)
        log.append_as_leader(data, n // 3, NOW)
    for target in range(90, 520, 10):
        first = next((n for n, t in enumerate(times) if t >= target), None)
        found = run_search(log.offset_by_timestamp(target, 99))
        expected = None if first is None else (2 * first, times[first], first // 3)
        assert found == expected
        if found is not None:
            assert run_search(log.offset_by_timestamp(target, found.offset)) is None
    assert run_search(log.offset_of_max_timestamp(99)) == (12, 500, 2)
    assert run_search(log.offset_of_max_timestamp(12)) is None


def test_a_time_inside_a_batch() -> None:
    log = new_log()
    log.append_as_follower(
        b"".join(
            [
                batch(b"a", at_ms=100, base_offset=0),
                batch(b"b", at_ms=200, base_offset=1),
            ]
        )
    )
    log.increment_log_start_offset(1)
    assert run_search(log.offset_by_timestamp(50, 9)) == (1, 200, -1)


def test_logs_without_times() -> None:
    assert run_search(new_log().offset_by_timestamp(0, 9)) is None
    assert run_search(new_log().offset_of_max_timestamp(9)) is None
    log = new_log()
    log.append_as_leader(batch(b"a", at_ms=-1), 0, NOW)
    assert run_search(log.offset_by_timestamp(0, 9)) is None
    assert run_search(log.offset_of_max_timestamp(9)) is None


# ------------------------------------------------------------------------------------- truncation


def test_truncation_takes_segments_epochs_and_producers_back() -> None:
    files = InstantFiles()
    log = new_log(files, segment_bytes=3 * len(batch(b"v", producer_id=1)), index_interval_bytes=1)
    for n in range(9):
        fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": n}
        log.append_as_leader(batch(b"v", at_ms=1000 + n, **fields), n // 2, NOW)
    asyncio.run(log.flush())
    assert log.recovery_point == 9
    assert log.truncate_to(4)
    assert (log.log_end_offset, log.recovery_point) == (4, 4)
    assert log.recovery_point_lowered
    assert log.segments.base_offsets == [0, 3]
    assert log.epochs.cache.entries == [(0, 0), (1, 2)]
    assert run_search(log.offset_of_max_timestamp(99)) == (3, 1003, 1)
    entry = log.producers.states.entry(1)
    assert entry is not None
    assert entry.last_sequence == 3
    assert log.producers.snapshots() == [3]
    again = load(files)
    assert (again.log_end_offset, again.epochs.cache.entries) == (4, [(0, 0), (1, 2)])


def test_truncation_inside_a_batch_takes_the_batch() -> None:
    log = new_log()
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.append_as_leader(batch(b"b", b"c", b"d"), 0, NOW)
    cut(log, 2)
    assert log.log_end_offset == 2
    assert log.size_bytes == len(batch(b"a"))
    log.append_as_follower(batch(b"x", base_offset=2))
    assert [b.base_offset for b in parse_batches(log.read(0, 999, 3, True).records)] == [0, 2]


def test_truncation_at_the_end_drops_only_an_unused_epoch() -> None:
    log = log_of(3)
    log.assign_epoch_start_offset(5, 3)
    assert not log.truncate_to(3)
    assert not log.truncate_to(7)
    assert log.latest_epoch == 0
    log.append_as_leader(batch(b"x"), 5, NOW)
    assert log.epochs.cache.entries[-1] == (5, 3)


def test_truncation_below_the_first_segment_empties_the_log() -> None:
    files = InstantFiles()
    log = new_log(files)
    log.append_as_follower(batch(b"a", base_offset=50))
    assert log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert load(files).log_end_offset == 20


def test_a_full_truncation_keeps_its_offset_over_a_restart() -> None:
    files = InstantFiles()
    log = new_log(files)
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.truncate_fully_and_start_at(7)
    assert values_of(log) == []
    again = load(files)
    assert (again.log_start_offset, again.log_end_offset) == (7, 7)
    assert again.append_as_leader(batch(b"b"), 1, NOW).first_offset == 7
    log = new_log()
    log.truncate_fully_and_start_at(0)
    assert log.append_as_leader(batch(b"a"), 0, NOW).first_offset == 0


def test_a_lowered_recovery_point_is_written_before_the_next_segment() -> None:
    written: list[int] = []

    class Home(NoHome):
        def write_lowered_offsets(self, log: UnifiedLog) -> None:
            written.append(log.recovery_point)

    log = log_of(4, home=Home(), segment_bytes=3 * SIZE)
    asyncio.run(log.flush())
    cut(log, 2)
    log.append_as_leader(batch(bytes(50)), 0, NOW)
    assert written == []
    log.append_as_leader(batch(bytes(50)), 0, NOW)
    assert written == [2]


async def test_a_flush_across_a_truncation_promises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = log_of(5)
    started, go_on = asyncio.Event(), asyncio.Event()
    real = SimFile.flush

    async def slow(self: SimFile) -> None:
        started.set()
        await go_on.wait()
        await real(self)

    monkeypatch.setattr(SimFile, "flush", slow)
    task = asyncio.create_task(log.flush())
    await started.wait()
    log.truncate_to(2)
    go_on.set()
    await task
    assert log.recovery_point == 0
    assert log.cut_unflushed
    with pytest.raises(KafkaError, match="not on disk yet"):
        log.append_as_leader(batch(bytes(50)), 0, NOW)
    with pytest.raises(KafkaError, match="not on disk yet"):
        log.append_as_follower(batch(bytes(50), base_offset=2))
    await log.flush()
    log.append_as_leader(batch(bytes(50)), 0, NOW)


async def test_a_log_may_be_closed_while_it_is_flushed() -> None:
    log = log_of(5, segment_bytes=2 * SIZE)
    task = asyncio.create_task(log.flush())
    log.close()
    await task
    assert log.recovery_point == 0
