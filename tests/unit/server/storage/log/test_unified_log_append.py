"""Appending: what is stamped and answered, rolling, producers, a disk that fails midway."""

import errno
from uuid import UUID

import pytest

from minikafka.core.log.append import AppendOrigin, UnexpectedAppendOffset
from minikafka.core.log.names import file_name
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import crc_is_valid, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import Record, decode_records
from minikafka.server.storage.log.loader import create_log
from minikafka.server.storage.log.sparse_index import SparseIndex
from minikafka.server.storage.log.unified_log import LogConfig
from minikafka.world.sim.disk import SimFile
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import (
    DIRECTORY,
    NOW,
    TP,
    batch,
    batches_of,
    load,
    new_log,
    run_now,
    values_of,
)


def names(files: InstantFiles) -> list[str]:
    return files.list(DIRECTORY)


def test_the_directory_comes_first_and_the_files_with_the_first_append() -> None:
    files = InstantFiles()
    topic_id = UUID("12345678-1234-5678-1234-567812345678")
    log = create_log(files, DIRECTORY, TP, topic_id, LogConfig())
    assert names(files) == ["partition.metadata"]
    metadata = files.read_all(f"{DIRECTORY}/partition.metadata")
    assert metadata == b"version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    log.assign_epoch_start_offset(3, 0)
    assert names(files) == ["partition.metadata"]
    log.append_as_leader(batch(b"a"), 3, NOW)
    assert names(files) == [
        "00000000000000000000.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert files.read_all(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"
    log.persist()
    assert names(files) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert load(files, clean=True).topic_id == topic_id


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_batch_is_stamped_with_offset_and_epoch(kind: type) -> None:
    log = new_log()
    log.append_as_leader(batch(b"first"), 4, NOW)
    data = batch(b"a", b"b", at_ms=5)
    info = log.append_as_leader(kind(data), 4, NOW)
    assert (info.first_offset, info.last_offset, info.is_duplicate) == (1, 2, False)
    assert (info.log_append_time, info.log_start_offset) == (-1, 0)
    stored = batches_of(log)[1]
    assert (stored.base_offset, stored.partition_leader_epoch) == (1, 4)
    assert values_of(log) == [b"first", b"a", b"b"]


def test_a_writable_buffer_is_stamped_in_place_and_a_frozen_one_is_not() -> None:
    log = new_log()
    log.append_as_leader(batch(b"first"), 0, NOW)
    data = batch(b"a")
    writable = bytearray(data)
    log.append_as_leader(memoryview(writable), 9, NOW)
    assert writable != data
    frozen = bytes(data)
    log.append_as_leader(memoryview(frozen), 9, NOW)
    assert frozen == data


def test_only_the_batch_is_written_of_a_longer_buffer() -> None:
    log = new_log()
    data = batch(b"a")
    log.append_as_leader(bytearray(data + data[:20]), 0, NOW)
    assert log.size_bytes == len(data)


def test_log_append_time() -> None:
    log = new_log(message_timestamp_type="LogAppendTime")
    info = log.append_as_leader(batch(b"a", b"b", at_ms=5), 0, NOW)
    assert info.log_append_time == NOW
    (stored,) = batches_of(log)
    assert stored.timestamp_type_log_append
    assert stored.max_timestamp == NOW
    assert crc_is_valid(stored)
    records = log.read(0, 1000, 2, True).records
    assert [r.timestamp for r in decode_records(records)] == [NOW, NOW]


def test_a_batch_in_the_topics_own_codec() -> None:
    log = new_log(compression_type="zstd")
    log.append_as_leader(memoryview(batch(b"x" * 500)), 2, NOW)
    (stored,) = batches_of(log)
    assert stored.compression.name == "ZSTD"
    assert stored.partition_leader_epoch == 2
    assert values_of(log) == [b"x" * 500]


def test_segments_roll_by_size() -> None:
    files = InstantFiles()
    size = len(batch(bytes(100)))
    log = new_log(files, segment_bytes=2 * size)
    for _ in range(5):
        log.append_as_leader(batch(bytes(100)), 0, NOW)
    assert log.segments.base_offsets == [0, 2, 4]
    assert [n for n in names(files) if n.endswith(".snapshot")] == [
        file_name(2, ".snapshot"),
        file_name(4, ".snapshot"),
    ]
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(bytes(101 + size)), 0, NOW)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 5


def test_segments_roll_by_the_time_that_their_batches_tell() -> None:
    log = new_log(segment_ms=1000)
    for at_ms in (NOW, NOW + 1000, NOW + 1001, NOW + 500):
        log.append_as_leader(batch(b"a", at_ms=at_ms), 0, NOW)
    assert log.segments.base_offsets == [0, 2]


def test_segments_roll_when_an_index_is_full() -> None:
    log = new_log(index_interval_bytes=1, index_size_max_bytes=4 * 8)
    for _ in range(12):
        log.append_as_leader(batch(b"a", at_ms=-1), 0, NOW)
    by_offsets = log.segments.base_offsets
    assert by_offsets == [0, 5, 10]
    assert [s.offset_index.count for s in log.segments] == [4, 4, 1]
    assert len(values_of(log)) == 12
    log = new_log(index_interval_bytes=1, index_size_max_bytes=4 * 12)
    for n in range(12):
        log.append_as_leader(batch(b"a", at_ms=NOW + n), 0, NOW)
    # three entries of four: the last place is for the entry that rolling may add
    assert log.segments.base_offsets == [0, 4, 8]
    assert [s.time_index.count for s in log.segments] == [3, 3, 3]


def test_segments_roll_before_offsets_leave_their_indexes() -> None:
    log = new_log()
    for offset in (0, 2**31 - 1, 2**31, 2**40):
        log.append_as_follower(batch(b"a", base_offset=offset))
    assert log.segments.base_offsets == [0, 2**31, 2**40]
    log.truncate_fully_and_start_at(5)
    run_now(log.flush())
    log.append_as_follower(batch(b"a", base_offset=2**33))
    assert log.segments.base_offsets == [2**33]  # the empty one was of no use
    log.append_as_follower(batch(b"a", base_offset=2**34) + batch(b"b", base_offset=2**35))
    assert log.segments.base_offsets == [2**33, 2**34, 2**35]


def test_a_follower_splits_fetched_batches_by_its_smaller_segment_bytes() -> None:
    """segment.bytes was lowered while it lagged: one answer holds more than a segment, and a batch
    may be larger than one."""
    batches = [batch(bytes(size), base_offset=n) for n, size in enumerate((90, 90, 900, 90, 90))]
    log = new_log(segment_bytes=2 * len(batches[0]))
    log.append_as_follower(b"".join(batches))
    assert log.size_bytes == sum(map(len, batches))
    assert log.segments.base_offsets == [0, 2, 3]
    assert log.log_end_offset == 5
    assert [bytes(log.read(n, 1, 5, True).records) for n in range(5)] == batches


def test_a_follower_takes_batches_as_they_are() -> None:
    log = new_log()
    data = batch(b"a", base_offset=3, leader_epoch=1, at_ms=50)
    data += batch(b"b", b"c", base_offset=4, leader_epoch=2, at_ms=40)
    log.append_as_follower(data + data[:9])
    assert (log.log_end_offset, log.size_bytes) == (6, len(data))
    assert log.epochs.cache.entries == [(1, 3), (2, 4)]
    assert bytes(log.read(4, 1000, 6, True).records) == data[len(batch(b"a")) :]


def test_a_follower_may_be_sent_nothing() -> None:
    log = new_log()
    log.append_as_leader(batch(b"a"), 0, NOW)
    size = log.size_bytes
    log.append_as_follower(b"")
    assert (log.log_end_offset, log.size_bytes) == (1, size)


def test_a_follower_refuses_offsets_it_already_has() -> None:
    log = new_log()
    log.append_as_follower(batch(b"a", b"b", base_offset=0))
    with pytest.raises(UnexpectedAppendOffset) as caught:
        log.append_as_follower(batch(b"b", base_offset=1) + batch(b"c", base_offset=2))
    assert (caught.value.first_offset, caught.value.last_offset) == (1, 2)
    assert log.log_end_offset == 2


def test_a_leaders_batch_without_an_epoch_is_taken() -> None:
    log = new_log()
    log.append_as_follower(batch(b"a", leader_epoch=-1))
    assert log.latest_epoch is None


def producer_batch(sequence: int, epoch: int = 0, value: bytes = b"v") -> bytes:
    return batch(value, producer_id=8, producer_epoch=epoch, base_sequence=sequence)


def test_a_retry_returns_the_offsets_of_the_first_append() -> None:
    log = new_log()
    log.append_as_leader(batch(b"other"), 0, NOW)
    first = log.append_as_leader(producer_batch(0), 0, NOW)
    log.append_as_leader(producer_batch(1), 0, NOW)
    again = log.append_as_leader(producer_batch(0), 0, NOW)
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
    assert log.log_end_offset == 3


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused() -> None:
    log = new_log()
    log.append_as_leader(producer_batch(0, epoch=1), 0, NOW)
    for data, code in [
        (producer_batch(2, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (producer_batch(1, epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
    ]:
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(data, 0, NOW)
        assert caught.value.code is code
    assert log.log_end_offset == 1


def test_a_refused_producer_leaves_the_callers_bytes_alone() -> None:
    log = new_log()
    log.append_as_leader(producer_batch(0), 0, NOW)
    data = bytearray(producer_batch(5))
    with pytest.raises(KafkaError):
        log.append_as_leader(data, 3, NOW)
    assert data == producer_batch(5)


def test_a_coordinator_writes_control_batches() -> None:
    log = new_log()
    marker = build_batch([(NOW, b"\x00\x00\x00\x01", bytes(6), [])], control=True)
    info = log.append_as_leader(marker, 0, NOW, AppendOrigin.COORDINATOR)
    assert info.first_offset == 0
    assert batches_of(log)[0].is_control


@pytest.mark.parametrize("room", [0, 1, 30, 61, 100])
def test_a_full_disk_in_the_middle_of_an_append(room: int) -> None:
    files = InstantFiles()
    log = new_log(files)
    log.append_as_leader(producer_batch(0, value=b"kept"), 0, NOW)
    size = log.size_bytes
    files.leave_room(room)
    with pytest.raises(OSError, match="space") as caught:
        log.append_as_leader(producer_batch(1, value=bytes(200)), 0, NOW)
    assert caught.value.errno == errno.ENOSPC
    assert (log.log_end_offset, log.size_bytes) == (1, size)
    assert files.size(f"{DIRECTORY}/{file_name(0, '.log')}") == size
    files.leave_room(10_000)
    with pytest.raises(KafkaError) as behind:  # it was in flight
        log.append_as_leader(producer_batch(2, value=b"last"), 0, NOW)
    assert behind.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    info = log.append_as_leader(producer_batch(1, value=b"next"), 0, NOW)
    assert (info.first_offset, info.is_duplicate) == (1, False)
    assert values_of(log) == [b"kept", b"next"]
    assert values_of(load(files)) == [b"kept", b"next"]


def test_a_torn_tail_that_cannot_be_cut_off_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = InstantFiles()
    log = new_log(files)
    log.append_as_leader(batch(b"kept"), 0, NOW)
    files.leave_room(50)

    def broken(self: SimFile, length: int) -> None:
        raise OSError(errno.EIO, "broken disk")

    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "truncate", broken)
        with pytest.raises(OSError, match="space"):
            log.append_as_leader(batch(bytes(200)), 0, NOW)
    path = f"{DIRECTORY}/{file_name(0, '.log')}"
    assert files.size(path) > log.size_bytes
    assert values_of(log) == [b"kept"]
    files.leave_room(10_000)
    log.persist()
    assert files.size(path) == log.size_bytes
    assert values_of(load(files, clean=True)) == [b"kept"]


@pytest.mark.parametrize("room", range(0, 60, 4))
def test_a_full_disk_while_rolling(room: int) -> None:
    files = InstantFiles()
    log = new_log(files, segment_bytes=150, index_interval_bytes=1)
    log.append_as_leader(batch(bytes(40), at_ms=1), 0, NOW)
    log.append_as_leader(batch(b"", at_ms=2), 0, NOW) if room % 8 else None
    before = values_of(log)
    files.leave_room(room)
    with pytest.raises(OSError, match="space"):
        log.append_as_leader(batch(bytes(80), at_ms=3), 1, NOW)
    assert values_of(log) == before
    files.leave_room(10_000)
    log.append_as_leader(batch(bytes(80), at_ms=4), 1, NOW)
    log.append_as_leader(batch(b"last", at_ms=5), 1, NOW)
    expected = [*before, bytes(80), b"last"]
    assert values_of(log) == expected
    assert values_of(load(files)) == expected
    log.persist()
    assert values_of(load(files, clean=True)) == expected
    assert log.epochs.cache.entries[-1] == (1, len(before))


def test_a_disk_that_cannot_make_files() -> None:
    files = InstantFiles()
    log = new_log(files)
    files.break_below()
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            log.append_as_leader(batch(b"a"), 0, NOW)
    files.repair()
    assert log.append_as_leader(batch(b"a"), 0, NOW).first_offset == 0
    assert values_of(load(files)) == [b"a"]


def test_index_entries_survive_a_disk_that_was_full_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = InstantFiles()
    log = new_log(files, index_interval_bytes=1)
    with monkeypatch.context() as patch:

        def full(_: SparseIndex) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        patch.setattr(SparseIndex, "persist", full)
        for _ in range(1100):
            log.append_as_leader(batch(b"a"), 0, NOW)
        with pytest.raises(OSError, match="space"):
            log.persist()
    assert len(values_of(log)) == 1100
    log.persist()
    assert files.size(f"{DIRECTORY}/{file_name(0, '.index')}") == 8 * 1099
    assert len(values_of(load(files, clean=True))) == 1100


def test_a_closed_log_takes_nothing() -> None:
    log = new_log()
    log.append_as_leader(batch(b"a"), 0, NOW)
    log.close()
    log.close()
    for attempt in (
        lambda: log.append_as_leader(batch(b"a"), 0, NOW),
        lambda: log.read(0, 100, 1, True),
    ):
        with pytest.raises(KafkaError) as caught:
            attempt()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_compacted_batches_keep_their_gaps_at_a_follower() -> None:
    log = new_log()
    gappy = build_batch(
        [Record(10, 1, b"k", b"x", []), Record(15, 1, b"k", b"y", [])], base_offset=10
    )
    log.append_as_follower(gappy)
    assert log.log_end_offset == 16
    assert [r.offset for r in decode_records(log.read(10, 999, 16, True).records)] == [10, 15]
    assert parse_batches(log.read(12, 999, 16, True).records)[0].base_offset == 10
