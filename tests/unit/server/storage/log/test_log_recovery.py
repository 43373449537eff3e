"""Logs that were not closed: torn tails at every byte, flipped bits, missing and stale files."""

import asyncio
from typing import Any

import pytest

from minikafka.core.log.names import file_name
from minikafka.core.log.producer_snapshot import decode_snapshot
from minikafka.protocol.records.batch import CorruptRecordError
from minikafka.server.storage.log.batch_scan import scan
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, batch, batches_of, load, new_log, values_of

CONFIG: dict[str, Any] = {"index_interval_bytes": 100, "segment_bytes": 600}
VALUES = [bytes([65 + n]) * (5 + 7 * n) for n in range(5)]


def path(offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{file_name(offset, suffix)}"


def filled(files: InstantFiles, values: list[bytes] = VALUES) -> UnifiedLog:
    log = new_log(files, **CONFIG)
    for number, value in enumerate(values):
        log.append_as_leader(batch(value, at_ms=1000 + number), number // 2, 0)
    return log


def copy_of(files: InstantFiles) -> InstantFiles:
    again = InstantFiles()
    again.make_directories(DIRECTORY)
    for name in files.list(DIRECTORY):
        again.replace_unsynced(f"{DIRECTORY}/{name}", files.read_all(f"{DIRECTORY}/{name}"))
    return again


def check_indexes(log: UnifiedLog) -> None:
    """Every entry is true, and no stretch longer than the interval is without one."""
    for segment in log.segments:
        starts = {f.position: f.batch for f in segment.batches()}
        last = 0
        for n in range(segment.offset_index.count):
            relative, position = segment.offset_index.entry(n)
            assert starts[position].last_offset == segment.base_offset + relative
            last = position
        assert segment.size_bytes - last <= CONFIG["index_interval_bytes"] + 200
        times = [b.max_timestamp for b in starts.values()]
        assert segment.max_timestamp == max(times, default=-1)


@pytest.mark.parametrize("stale_indexes", [False, True])
def test_a_segment_cut_at_any_byte_keeps_its_whole_batches(stale_indexes: bool) -> None:
    files = InstantFiles()
    log = filled(files)
    if stale_indexes:
        log.persist()
    data = files.read_all(path(0))
    (segment,) = log.segments
    ends = [f.end_position for f in segment.batches()]
    for cut in range(len(data) + 1):
        torn = copy_of(files)
        torn.replace_unsynced(path(0), data[:cut])
        again = load(torn, **CONFIG)
        kept = sum(end <= cut for end in ends)
        assert again.log_end_offset == kept
        assert values_of(again) == VALUES[:kept]
        assert torn.size(path(0)) == (ends[kept - 1] if kept else 0)
        assert again.latest_epoch == (None if kept == 0 else (kept - 1) // 2)
        check_indexes(again)
        again.append_as_leader(batch(b"next"), 9, 0)
        assert values_of(again) == [*VALUES[:kept], b"next"]


def test_a_flipped_bit_ends_the_log_before_its_batch() -> None:
    files = InstantFiles()
    (segment,) = filled(files).segments
    data = files.read_all(path(0))
    last = [f.position for f in segment.batches()][-1]
    uncovered = {*range(last, last + 8), *range(last + 12, last + 16)}  # base offset, epoch
    for position in range(last, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            torn = copy_of(files)
            torn.replace_unsynced(path(0), bytes(flipped))
            again = load(torn, **CONFIG)
            if position in uncovered:
                assert values_of(again)[: len(VALUES) - 1] == VALUES[:-1]
            else:
                assert values_of(again) == VALUES[:-1]


def test_zeros_where_the_tail_was_never_written() -> None:
    files = InstantFiles()
    filled(files)
    data = files.read_all(path(0))
    files.replace_unsynced(path(0), data[:-60] + bytes(60_000))
    assert values_of(load(files, **CONFIG)) == VALUES[:-1]


def test_a_clean_shutdown_skips_the_scan() -> None:
    files = InstantFiles()
    log = filled(files)
    log.persist()
    damaged = bytearray(files.read_all(path(0)))
    damaged[65] ^= 1  # in the records of the first batch: only a scan would see it
    files.replace_unsynced(path(0), bytes(damaged))
    assert load(files, clean=True, **CONFIG).log_end_offset == 5
    assert load(files, clean=True, **CONFIG).recovery_point == 5
    assert load(files, clean=False, **CONFIG).log_end_offset == 0


@pytest.mark.parametrize("offset", [-3, 2, 4 + 2**31, 2**62])
def test_a_last_batch_of_impossible_offsets_is_recovered_after_a_clean_shutdown(
    offset: int,
) -> None:
    """No CRC covers the offset. The next append would begin a segment in the place of an older one,
    or leave out a billion offsets."""
    files = InstantFiles()
    log = filled(files)
    last = [f.position for s in log.segments for f in s.batches()][-1]
    log.persist()
    damaged = bytearray(files.read_all(path(0)))
    damaged[last : last + 8] = offset.to_bytes(8, "big", signed=True)
    files.replace_unsynced(path(0), bytes(damaged))
    again = load(files, clean=True, **CONFIG)
    assert values_of(again) == VALUES[:-1]
    again.append_as_leader(batch(bytes(500)), 9, 0)
    assert again.segments.base_offsets == [0, 4]
    assert values_of(again) == [*VALUES[:-1], bytes(500)]


def test_a_damaged_batch_in_the_place_of_a_truncation_changes_nothing() -> None:
    files = InstantFiles()
    log = filled(files, [bytes(200)] * 6)
    log.persist()
    files.replace_unsynced(path(2), bytes(files.size(path(2))))
    again = load(files, clean=True, **CONFIG)
    with pytest.raises(CorruptRecordError):
        again.truncate_to(3)
    assert again.log_end_offset == 6
    again.append_as_leader(batch(bytes(200)), 9, 0)
    assert again.truncate_to(2)  # where the segment begins
    assert values_of(again) == [bytes(200)] * 2


def test_segments_before_the_recovery_point_are_not_scanned() -> None:
    files = InstantFiles()
    log = filled(files, [bytes(200)] * 6)
    bases = log.segments.base_offsets
    assert bases == [0, 2, 4]
    damaged = bytearray(files.read_all(path(0)))
    damaged[65] ^= 1
    files.replace_unsynced(path(0), bytes(damaged))
    assert load(copy_of(files), recovery_point=4, **CONFIG).log_end_offset == 6
    assert load(copy_of(files), recovery_point=1, **CONFIG).log_end_offset == 0


def test_segments_after_a_truncated_segment_are_dropped() -> None:
    files = InstantFiles()
    filled(files, [bytes(200)] * 6)
    files.replace_unsynced(path(2), files.read_all(path(2))[:-1])
    again = load(files, **CONFIG)
    assert again.log_end_offset == 3
    assert [n for n in files.list(DIRECTORY) if n.endswith(".log")] == [
        file_name(0, ".log"),
        file_name(2, ".log"),
    ]


def test_segments_after_a_gap_are_dropped_unless_compacted() -> None:
    files = InstantFiles()
    filled(files, [bytes(200)] * 6)
    data = files.read_all(path(2))
    files.replace_unsynced(path(2), data[: len(data) // 2])  # cut exactly between two batches
    assert load(copy_of(files), **CONFIG).log_end_offset == 3
    compacted = load(copy_of(files), cleanup_policy="compact", **CONFIG)
    assert [b.base_offset for b in batches_of(compacted)] == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_missing_and_impossible_indexes_are_rebuilt(suffix: str, damage: str) -> None:
    files = InstantFiles()
    log = filled(files, [bytes([65 + n]) * 150 for n in range(8)])
    log.persist()
    assert len(log.segments) == 4
    for base in log.segments.base_offsets:
        if damage == "gone":
            files.remove(path(base, suffix))
        else:
            files.replace_unsynced(path(base, suffix), b"\xff" * 24)
    again = load(files, clean=True, **CONFIG)
    assert len(values_of(again)) == 8
    check_indexes(again)
    assert again.recovery_point == 0


def test_an_index_that_points_into_a_batch_is_rebuilt() -> None:
    files = InstantFiles()
    log = filled(files)
    log.persist()
    files.replace_unsynced(path(0, ".index"), bytes.fromhex("0000000200000007"))
    again = load(files, clean=True, **CONFIG)
    assert values_of(again) == VALUES
    check_indexes(again)


def test_orphans_and_temporary_files_go() -> None:
    files = InstantFiles()
    filled(files).persist()
    litter = [path(77, s) for s in (".index", ".timeindex", ".txnindex", ".log.deleted")]
    litter += [path(0, ".log.cleaned"), path(0, ".index.tmp")]
    for name in litter:
        files.replace_unsynced(name, b"x")
    load(files, clean=True, **CONFIG)
    assert not [name for name in litter if files.exists(name)]


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"0\n1\n5\n"])
def test_lost_epochs_are_read_from_the_batches(content: bytes | None) -> None:
    files = InstantFiles()
    log = filled(files, [bytes(200)] * 6)
    name = f"{DIRECTORY}/leader-epoch-checkpoint"
    if content is None:
        files.remove(name)
    else:
        files.replace_unsynced(name, content)
    again = load(files, recovery_point=6, **CONFIG)
    assert again.epochs.cache.entries == log.epochs.cache.entries == [(0, 0), (1, 2), (2, 4)]


def test_epochs_beyond_the_end_are_forgotten() -> None:
    files = InstantFiles()
    log = filled(files)
    log.assign_epoch_start_offset(7, 5)
    assert load(files, **CONFIG).latest_epoch == 2


def test_producers_are_known_again_after_a_crash() -> None:
    files = InstantFiles()
    log = new_log(files, **CONFIG)
    for sequence in range(12):
        fields = {"producer_id": 5, "producer_epoch": 1, "base_sequence": sequence}
        log.append_as_leader(batch(bytes(100), **fields), 0, 0)
    snapshots = log.producers.snapshots()
    assert snapshots == log.segments.base_offsets[1:]
    for broken in [[], snapshots[-1:], snapshots]:
        crashed = copy_of(files)
        for offset in broken:
            crashed.replace_unsynced(path(offset, ".snapshot"), b"not a snapshot")
        again = load(crashed, **CONFIG)
        entry = again.producers.states.entry(5)
        assert entry is not None
        assert (entry.producer_epoch, entry.last_sequence, entry.last_offset) == (1, 11, 11)
        retried = batch(bytes(100), producer_id=5, producer_epoch=1, base_sequence=11)
        assert again.append_as_leader(retried, 0, 0).is_duplicate
        assert again.producers.snapshots() == snapshots  # rewritten by the recovery
        for offset in snapshots:
            (known,) = decode_snapshot(crashed.read_all(path(offset, ".snapshot")))
            assert known.last_offset == offset - 1


def test_a_log_that_ends_before_its_start_is_emptied() -> None:
    files = InstantFiles()
    filled(files)
    again = load(files, log_start_offset=40, **CONFIG)
    assert (again.log_start_offset, again.log_end_offset) == (40, 40)
    again.append_as_leader(batch(b"x"), 3, 0)
    assert again.segments.base_offsets == [40]


def test_epochs_that_the_batches_contradict_are_not_believed() -> None:
    """A power loss between a cut and its flush: the epochs are there, and so is what was cut."""
    files = InstantFiles()
    log = new_log(files)
    for offset in range(4):
        log.append_as_follower(batch(b"old", base_offset=offset, leader_epoch=0))
    path = f"{DIRECTORY}/00000000000000000000.log"
    old = files.read_all(path)
    log.truncate_to(2)
    asyncio.run(log.flush())
    log.append_as_follower(batch(b"new", base_offset=2, leader_epoch=1))
    files.open(path).write(old, 0)
    again = load(files)
    assert again.log_end_offset == 4
    assert again.epochs.cache.entries == [(0, 0)]


@pytest.mark.parametrize("content", [b"", b"0\n1\n", None])
def test_damaged_epochs_are_found_again_after_a_clean_stop(content: bytes | None) -> None:
    files = InstantFiles()
    log = new_log(files, **CONFIG)
    for epoch in (0, 0, 2, 2, 3):
        log.append_as_leader(batch(bytes(60)), epoch, 0)
    log.persist()
    if content is None:
        files.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    else:
        files.replace_unsynced(f"{DIRECTORY}/leader-epoch-checkpoint", content)
    again = load(files, clean=True, recovery_point=5, **CONFIG)
    assert again.epochs.cache.entries == [(0, 0), (2, 2), (3, 4)]


def test_a_segment_after_a_gap_is_set_apart_and_not_deleted() -> None:
    """As a Kafka broker that followed a compacted topic may have written it."""
    files = InstantFiles()
    log = new_log(files, **CONFIG)
    log.append_as_follower(batch(b"a", base_offset=0) + batch(b"b", base_offset=1))
    log.skip_to(40)
    log.append_as_follower(batch(b"c", base_offset=40))
    log.persist()
    data = files.read_all(path(40))
    again = load(copy_of(files), clean=True, recovery_point=41, **CONFIG)
    assert again.log_end_offset == 41
    torn = copy_of(files)
    again = load(torn, **CONFIG)
    assert again.log_end_offset == 2
    assert torn.read_all(path(40) + ".apart") == data
    again.append_as_leader(batch(b"d"), 1, 0)
    again = load(torn, **CONFIG)
    assert values_of(again) == [b"a", b"b", b"d"]


def test_a_batch_damaged_long_ago_keeps_no_log_from_loading() -> None:
    files = InstantFiles()
    log = new_log(files, **CONFIG)
    for sequence in range(12):
        fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence}
        log.append_as_leader(batch(bytes(90), **fields), 0, 0)
    log.persist()
    for name in files.list(DIRECTORY):
        if name.endswith((".snapshot", "checkpoint")):
            files.remove(f"{DIRECTORY}/{name}")
    files.open(path(0)).write(b"\xff", 8)  # the length of the first batch
    again = load(files, clean=True, recovery_point=12, **CONFIG)
    assert again.log_end_offset == 12
    entry = again.producers.states.entry(1)
    assert entry is not None
    assert entry.last_sequence == 11


def test_a_log_without_segments_starts_at_the_given_offset() -> None:
    files = InstantFiles()
    new_log(files)
    again = load(files, log_start_offset=7)
    assert (again.log_start_offset, again.log_end_offset) == (7, 7)


def test_a_rebuilt_index_that_is_lost_again_is_rebuilt_again() -> None:
    files = InstantFiles()
    log = filled(files)
    log.persist()
    asyncio.run(log.flush())
    again = load(files, recovery_point=5, **CONFIG)
    assert again.recovery_point == 0
    assert again.recovery_point_lowered


def test_scanning_stops_at_a_file_that_shrinks() -> None:
    files = InstantFiles()
    filled(files)
    file = files.open(path(0))
    size = file.size()
    for length in (30, 65):
        file.truncate(length)
        with pytest.raises(Exception, match=r"bytes at|ends inside"):
            list(scan(file, 0, size, whole=True))
