"""What compaction leaves of single batches, byte by byte where Kafka's bytes matter."""

from dataclasses import asdict
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.compaction import CleanerStats
from minikafka.core.log.compaction_filter import (
    BatchFilter,
    CleaningSteps,
    KeyIndexer,
    LastRecord,
    find_records,
)
from minikafka.core.log.compaction_map import OffsetMap
from minikafka.core.log.config import NO_LIMIT
from minikafka.core.log.open_transactions import AbortedTxn
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.records.batch import (
    RecordBatch,
    crc_is_valid,
    crc_of,
    parse_batches,
    stamp_log_append_time,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_batch, encode_record
from tests.support.storage.transactions import marker

T = TypeVar("T")
DAY = 24 * 3600 * 1000
NOW = 1_700_000_000_000


def finish(work: CleaningSteps[T]) -> T:
    return long_works(work)[1]


def long_works(work: CleaningSteps[T]) -> tuple[int, T]:
    """How much of the work was for workers, and its result."""
    calls, done = 0, None
    try:
        while True:
            step = work.send(done)
            done = None if step is None else step()
            calls += step is not None
    except StopIteration as end:
        return calls, end.value


def parsed(*batches: bytes) -> list[RecordBatch]:
    return [batch for data in batches for batch in parse_batches(data)]


def cleaned(
    *batches: bytes,
    latest: dict[bytes, int] | None = None,
    upto: int = 1000,
    now_ms: int = NOW,
    producers: dict[int, LastRecord] | None = None,
    aborted: tuple[AbortedTxn, ...] = (),
) -> list[RecordBatch]:
    offsets = OffsetMap(100, 1.0)
    for key, offset in sorted((latest or {}).items(), key=lambda item: item[1]):
        offsets.put(key, offset)
    offsets.latest_offset = upto
    batch_filter = BatchFilter(offsets, now_ms, DAY, producers or {})
    batch_filter.transactions.expect(aborted)
    left = finish(batch_filter.take(parsed(*batches)))
    found = parsed(*map(bytes, left))
    assert all(map(crc_is_valid, found))
    return found


def records(batch: RecordBatch) -> list[Record]:
    return list(decode_batch(batch))


@pytest.mark.parametrize("codec", list(Compression))
def test_only_the_latest_record_of_a_key_is_left(codec: Compression) -> None:
    data = build_batch(
        [
            (NOW - 3, b"a", b"1", [("h", b"x")]),
            (NOW - 1, b"b", b"2", []),
            (NOW - 2, b"a", b"3", []),
        ],
        base_offset=10,
        compression=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=100,
        leader_epoch=5,
    )
    (batch,) = cleaned(data, latest={b"a": 12, b"b": 99})
    assert records(batch) == [Record(12, NOW - 2, b"a", b"3", [])]
    (before,) = parse_batches(data)
    assert (batch.base_offset, batch.last_offset) == (10, 12)
    assert (batch.base_sequence, batch.last_sequence) == (100, 102)
    assert batch.max_timestamp == NOW - 2
    for name in ("producer_id", "producer_epoch", "partition_leader_epoch", "compression"):
        assert getattr(batch, name) == getattr(before, name)


def test_a_batch_that_keeps_all_stays_byte_for_byte() -> None:
    data = build_batch([(NOW, b"a", b"1", [])], base_offset=10)
    assert [bytes(b.view()) for b in cleaned(data, latest={b"a": 10})] == [data]


def test_records_above_the_offset_map_are_retained() -> None:
    data = build_batch([(NOW, b"a", b"1", []), (NOW, b"a", b"2", [])], base_offset=10)
    (batch,) = cleaned(data, latest={b"a": 10}, upto=10)
    assert [record.offset for record in records(batch)] == [10, 11]


def test_records_without_a_key_go() -> None:
    data = build_batch([(NOW, None, b"1", []), (NOW, b"a", b"2", [])])
    (batch,) = cleaned(data)
    assert [record.offset for record in records(batch)] == [1]


def test_the_map_ends_within_a_batch() -> None:
    data = build_batch([(NOW, None, b"1", []), (NOW, None, b"2", [])], base_offset=10)
    (batch,) = cleaned(data, upto=10)
    assert [record.offset for record in records(batch)] == [11]


def test_a_compressed_batch_that_keeps_all_is_not_compressed_again() -> None:
    data = build_batch(
        [(NOW, b"a", bytes(range(256)) * 40, [])], compression=Compression.GZIP, compression_level=1
    )
    assert data != build_batch(
        [(NOW, b"a", bytes(range(256)) * 40, [])], compression=Compression.GZIP
    )
    assert [bytes(b.view()) for b in cleaned(data, latest={b"a": 0})] == [data]


def test_the_latest_time_is_that_of_the_records_left() -> None:
    three: Any = [(NOW + 9, b"a", b"1", []), (NOW + 5, b"b", b"2", []), (NOW + 3, b"c", b"3", [])]
    latest = {b"a": 99, b"b": 1, b"c": 2}
    (batch,) = cleaned(build_batch(three), latest=latest)
    assert batch.max_timestamp == NOW + 5
    data = bytearray(build_batch(three))
    stamp_log_append_time(data, parsed(bytes(data))[0], NOW + 20)
    (batch,) = cleaned(bytes(data), latest=latest)
    assert batch.max_timestamp == NOW + 20


def test_a_tombstone_gets_a_horizon_and_goes_after_it() -> None:
    data = build_batch(
        [(NOW - 5, b"a", None, []), (NOW - 2, b"b", b"2", [("h", None)])], base_offset=10
    )
    latest = {b"a": 10, b"b": 11}
    (first,) = cleaned(data, latest=latest)
    assert first.has_delete_horizon
    assert first.base_timestamp == NOW + DAY
    assert records(first) == [
        Record(10, NOW - 5, b"a", None, []),
        Record(11, NOW - 2, b"b", b"2", [("h", None)]),
    ]
    again = bytes(first.view())
    (same,) = cleaned(again, latest=latest, now_ms=NOW + DAY - 1)
    assert bytes(same.view()) == again
    (last,) = cleaned(again, latest=latest, now_ms=NOW + DAY)
    assert records(last) == [Record(11, NOW - 2, b"b", b"2", [("h", None)])]
    assert last.base_timestamp == NOW + DAY


def test_the_horizon_of_a_tombstone_that_never_goes_is_the_last_time_of_all() -> None:
    offsets = OffsetMap(100, 1.0)
    offsets.put(b"a", 0)
    data = parsed(build_batch([(NOW, b"a", None, [])]))
    (left,) = finish(BatchFilter(offsets, NOW, NO_LIMIT, {}).take(data))
    (batch,) = parsed(bytes(left))
    assert (batch.has_delete_horizon, batch.base_timestamp) == (True, NO_LIMIT)
    assert records(batch) == [Record(0, NOW, b"a", None, [])]


def test_the_last_batch_of_a_producer_is_left_empty() -> None:
    data = build_batch(
        [(NOW, b"a", b"1", []), (NOW + 1, b"a", b"2", [])],
        base_offset=10,
        producer_id=7,
        producer_epoch=3,
        base_sequence=100,
        leader_epoch=5,
        compression=Compression.GZIP,
    )
    assert cleaned(data, latest={b"a": 50}) == []
    assert cleaned(data, latest={b"a": 50}, producers={7: LastRecord(90, 3)}) == []
    (batch,) = cleaned(data, latest={b"a": 50}, producers={7: LastRecord(11, 3)})
    header = bytes(batch.view())
    assert header[:17] == bytes.fromhex("000000000000000a000000310000000502")
    assert header[21:] == bytes.fromhex(
        "0000"  # attributes
        "00000001"  # last offset delta
        "ffffffffffffffff"  # base timestamp
        "0000018bcfe56801"  # max timestamp
        "0000000000000007"
        "0003"
        "00000064"
        "00000000"
    )
    (same,) = cleaned(header, producers={7: LastRecord(11, 3)})
    assert bytes(same.view()) == header
    assert cleaned(header, producers={7: LastRecord(12, 3)}) == []


def test_a_producers_only_batch_may_be_the_first_of_the_log() -> None:
    data = build_batch([(NOW, b"a", b"1", [])], producer_id=7, producer_epoch=3, base_sequence=0)
    (batch,) = cleaned(data, latest={b"a": 50}, producers={7: LastRecord(0, 3)})
    assert (batch.base_offset, batch.record_count) == (0, 0)


# ---- transactions


def data_of(producer: int, offset: int, key: bytes = b"k") -> bytes:
    return build_batch(
        [(NOW, key, b"v", [])],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def test_aborted_records_go_and_their_marker_follows_later() -> None:
    log = (data_of(1, 0, b"x"), data_of(2, 1), marker(1, 0, False, NOW, base_offset=2))
    aborted = (AbortedTxn(1, 0, 2, 1),)
    first = cleaned(*log, latest={b"x": 0, b"k": 1}, aborted=aborted)
    assert [batch.base_offset for batch in first] == [1, 2]
    second = cleaned(*(bytes(b.view()) for b in first), latest={b"k": 1})
    assert [batch.base_offset for batch in second] == [1, 2]
    assert second[1].has_delete_horizon
    assert second[1].base_timestamp == NOW + DAY
    rest = [bytes(b.view()) for b in second]
    assert len(cleaned(*rest, latest={b"k": 1}, now_ms=NOW + DAY - 1)) == 2
    assert len(cleaned(*rest, latest={b"k": 1}, now_ms=NOW + DAY)) == 1


def test_a_marker_stays_as_long_as_a_batch_of_its_transaction() -> None:
    log = (data_of(1, 0), marker(1, 0, True, NOW, base_offset=1))
    assert len(cleaned(*log, latest={b"k": 0}, now_ms=NOW + 9 * DAY)) == 2
    (commit,) = cleaned(*log, latest={b"k": 9})
    assert commit.is_control
    assert not commit.has_delete_horizon  # the batch was still there when this cleaning began
    (commit,) = cleaned(bytes(commit.view()), latest={b"k": 9})
    assert commit.has_delete_horizon
    assert cleaned(bytes(commit.view()), now_ms=NOW + DAY) == []


def test_the_marker_of_a_producer_without_data_is_left_empty() -> None:
    (commit,) = cleaned(marker(1, 4, True, NOW, base_offset=1))
    at_last = cleaned(
        bytes(commit.view()),
        now_ms=NOW + DAY,
        producers={1: LastRecord(-1, 4), 2: LastRecord(3, 4)},
    )
    assert [(b.record_count, b.is_control, b.producer_epoch) for b in at_last] == [(0, True, 4)]
    assert cleaned(bytes(commit.view()), now_ms=NOW + DAY, producers={1: LastRecord(-1, 5)}) == []


def test_only_a_marker_stands_for_a_producer_without_data() -> None:
    data = build_batch([(NOW, b"a", b"1", [])], producer_id=7, producer_epoch=3, base_sequence=0)
    assert cleaned(data, latest={b"a": 50}, producers={7: LastRecord(-1, 3)}) == []


def test_a_record_with_the_key_of_a_marker_does_not_supersede_it() -> None:
    log = (data_of(1, 0), marker(1, 0, True, NOW, base_offset=1))
    (record,) = records(parsed(log[1])[0])
    assert record.key is not None
    assert len(cleaned(*log, latest={b"k": 0, record.key: 9})) == 2
    offsets = OffsetMap(100, 0.9)
    finish(KeyIndexer(offsets, 0).take(parsed(*log)))
    assert (offsets.size, offsets.get(record.key)) == (1, -1)


def test_aborted_records_do_not_supersede() -> None:
    offsets = OffsetMap(100, 0.9)
    indexer = KeyIndexer(offsets, 0)
    indexer.transactions.expect([AbortedTxn(1, 1, 2, 3)])
    plain = build_batch([(NOW, b"k", b"v", []), (NOW, None, b"v", [])], base_offset=0)
    aborted = data_of(1, 2)
    assert finish(indexer.take(parsed(plain, aborted, marker(1, 0, False, base_offset=3)))) is False
    assert offsets.get(b"k") == 0
    assert offsets.latest_offset == 3


def test_a_full_map_ends_where_it_has_come_to() -> None:
    offsets = OffsetMap(3, 0.9)
    data = build_batch([(NOW, b"%d" % n, b"v", []) for n in (1, 1, 2, 3)], base_offset=10)
    assert finish(KeyIndexer(offsets, 11).take(parsed(data))) is True
    assert offsets.latest_offset == 12
    assert (offsets.get(b"1"), offsets.get(b"2"), offsets.get(b"3")) == (11, 12, -1)


def test_offset_map_skips_records_before_the_start_offset() -> None:
    offsets = OffsetMap(100, 0.9)
    data = build_batch([(NOW, b"1", b"v", []), (NOW, b"2", b"v", [])], base_offset=10)
    finish(KeyIndexer(offsets, 20).take(parsed(data)))
    assert (offsets.size, offsets.latest_offset) == (0, -1)
    finish(KeyIndexer(offsets, 11).take(parsed(data)))
    assert (offsets.get(b"1"), offsets.get(b"2")) == (-1, 11)


def test_the_map_knows_how_far_it_has_come_without_a_key_there() -> None:
    offsets = OffsetMap(100, 0.9)
    data = build_batch([(NOW, b"1", b"v", []), (NOW, None, b"v", [])], base_offset=10)
    finish(KeyIndexer(offsets, 11).take(parsed(data)))
    assert (offsets.size, offsets.latest_offset) == (0, 11)


# ---- what it costs


def pauses(work: CleaningSteps[Any]) -> int:
    return sum(1 for _ in work)


def passes(data: list[RecordBatch]) -> list[CleaningSteps[Any]]:
    offsets = OffsetMap(5_000, 1.0)
    return [KeyIndexer(offsets, 0).take(data), BatchFilter(offsets, NOW, DAY, {}).take(data)]


def test_both_passes_yield_before_each_batch_and_within_large_ones() -> None:
    """After every 32 records of a batch."""
    record: Any = (NOW, b"k", b"v", [])
    for sizes, expected in (([1280], 41), ([1] * 220, 220), ([31], 1), ([32], 2), ([90, 32], 5)):
        data = parsed(*(build_batch([record] * size) for size in sizes))
        for work in passes(data):
            assert pauses(work) == expected


def test_cleaner_stats_count_records_read_and_written() -> None:
    keys = (b"a", b"a", None, b"b")
    data = parsed(
        build_batch([(NOW, key, b"v", []) for key in keys]),
        build_batch([(NOW, b"c", b"", [])], base_offset=4),
    )
    stats, offsets = CleanerStats(), OffsetMap(10, 1.0)
    assert set(asdict(stats).values()) == {0}
    finish(KeyIndexer(offsets, 0, stats=stats).take(data))
    finish(BatchFilter(offsets, NOW, DAY, {}, stats=stats).take(data))
    assert stats.map_records_read == stats.records_read == 5
    assert (stats.records_written, stats.records_without_key) == (3, 1)


@pytest.mark.parametrize("position", [25, 40, 61, 65, 70, -1])
def test_a_damaged_batch_is_refused(position: int) -> None:
    data = bytearray(build_batch([(NOW, b"a", b"1", []), (NOW, b"b", b"2", [])]))
    data[position] ^= 0x5A
    with pytest.raises(KafkaError):
        finish(KeyIndexer(OffsetMap(10, 0.9), 0).take(parsed(bytes(data))))
    with pytest.raises(KafkaError):
        cleaned(bytes(data))


# ---- batches that are huge when decompressed, and invalid ones


@pytest.mark.mission("SAFE-62")
def test_workers_open_and_rewrite_huge_batches() -> None:
    rows: Any = [(NOW, b"%d" % (n % 4), bytes(1000), []) for n in range(1000)]
    (batch,) = data = parsed(build_batch(rows, compression=Compression.ZSTD))
    offsets = OffsetMap(100, 1.0)
    assert long_works(KeyIndexer(offsets, 0).take(data)) == (1, False)
    calls, left = long_works(BatchFilter(offsets, NOW, DAY, {}).take(data))
    assert calls == 2
    assert [(r.offset, r.key) for r in decode_batch(parsed(*map(bytes, left))[0])] == [
        (996 + n, b"%d" % n) for n in range(4)
    ]
    assert batch.size_bytes < 10_000
    small = parsed(build_batch(rows[:100], compression=Compression.ZSTD))
    assert long_works(KeyIndexer(OffsetMap(100, 1.0), 0).take(small))[0] == 0


deltas = st.integers(-(2**63), 2**63 - 1)
some_records = st.lists(
    st.builds(
        encode_record,
        st.integers(-1, 4),
        deltas,
        st.none() | st.just(b"k"),
        st.none() | st.binary(max_size=4),
    ),
    max_size=4,
)


@pytest.mark.mission("SAFE-62")
@settings(max_examples=300)
@given(st.data())
def test_invalid_records_are_a_corrupt_batch_whatever_they_are(data: st.DataObject) -> None:
    records = data.draw(some_records)
    payload = b"".join(records) + data.draw(st.just(b"") | st.binary(max_size=40))
    whole = assemble_batch(
        payload,
        base_offset=data.draw(st.integers(0, 5)),
        leader_epoch=0,
        attributes=data.draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 7, 8, 0x10, 0x30, 0x40])),
        last_offset_delta=3,
        base_timestamp=data.draw(deltas),
        max_timestamp=data.draw(deltas),
        producer_id=data.draw(st.integers(-1, 2)),
        producer_epoch=0,
        base_sequence=-1,
        record_count=data.draw(st.integers(-1, 6) | st.just(len(records))),
    )
    offsets = OffsetMap(100, 1.0)
    batches = parsed(whole)
    try:
        finish(KeyIndexer(offsets, 0).take(batches))
        left = finish(BatchFilter(offsets, NOW, DAY, {}).take(batches))
    except KafkaError:
        return
    for batch in parsed(*map(bytes, left)):
        assert crc_is_valid(batch)
        assert len(list(find_records(batch.plain_records(), batch.record_count, 3))) <= 4


@pytest.mark.mission("SAFE-62")
def test_a_time_beyond_64_bits_is_a_corrupt_batch() -> None:
    data = bytearray(build_batch([(0, b"k", b"", []), (1, b"k", b"", [])]))
    data[27:35] = (2**63 - 1).to_bytes(8, "big")  # the base timestamp
    data[17:21] = crc_of(data, 0, len(data)).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="to 9223372036854775808"):
        cleaned(bytes(data), latest={b"k": 1})
