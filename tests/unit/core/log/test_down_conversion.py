"""Batches become old message sets: what is kept, what is left out, how much is sent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.config import LogConfig
from minikafka.core.log.format_conversion import message_set_of_batches
from minikafka.core.log.validation import leader_batch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records import legacy
from minikafka.protocol.records.batch import CorruptRecordError, stamp_log_append_time
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import (
    encode_message_set,
    iterate_messages,
)
from minikafka.protocol.records.record import Record, decode_records, encode_record
from tests.support.protocol.golden import golden
from tests.support.protocol.message_sets import decode_message_set
from tests.support.storage.stored_batches import stamp

NOW = 1_700_000_000_000
OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
LARGE = 1 << 30
ROWS = [
    (1234, b"k", b"v", [("dropped", b"header")]),
    (1235, None, b"w", []),
    (1230, b"", None, []),
]


def records_at(base: int) -> list[Record]:
    return [Record(base + i, t, k, v, []) for i, (t, k, v, _) in enumerate(ROWS)]


def converted(data: bytes, magic: int = 1, first: int = 0, max_bytes: int = LARGE) -> list[Record]:
    return list(decode_message_set(message_set_of_batches(data, magic, first, max_bytes)))


@pytest.mark.mission("FET-1", "R-9")
def test_a_batch_of_two_becomes_these_bytes() -> None:
    data = build_batch(ROWS[:2], base_offset=7)
    assert message_set_of_batches(data, 1, 7, LARGE) == golden("""
        0000000000000007 00000018 5abedbab 01 00 00000000000004d2 00000001 'k' 00000001 'v'
        0000000000000008 00000017 c7993070 01 00 00000000000004d3 ffffffff 00000001 'w'
    """)
    assert message_set_of_batches(data, 0, 7, LARGE) == golden("""
        0000000000000007 00000010 1fecd70a 00 00 00000001 'k' 00000001 'v'
        0000000000000008 0000000f a50b8f63 00 00 ffffffff 00000001 'w'
    """)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_keeps_records_and_codec(magic: int, codec: Compression) -> None:
    data = build_batch(ROWS, base_offset=5, compression=codec)
    data += build_batch(ROWS, base_offset=8, compression=codec, producer_id=4, producer_epoch=0,
                        base_sequence=0, transactional=True)  # fmt: skip
    expected = records_at(5) + records_at(8)
    if magic == 0:
        expected = [r._replace(timestamp=-1) for r in expected]
    assert converted(data, magic, 5) == expected
    messages = list(iterate_messages(message_set_of_batches(data, magic, 5, LARGE)))
    assert {m.compression for m in messages} == {codec}
    assert all(m.crc_is_valid for m in messages)


def test_records_before_the_fetch_offset_are_dropped_only_if_uncompressed() -> None:
    plain = build_batch(ROWS, base_offset=5)
    assert [r.offset for r in converted(plain, first=6)] == [6, 7]
    wrapped = build_batch(ROWS, base_offset=5, compression=Compression.GZIP)
    assert [r.offset for r in converted(wrapped, first=6)] == [5, 6, 7]


def test_offsets_may_have_gaps() -> None:
    rows = [Record(5, 1, b"a", b"", []), Record(9, 1, b"b", b"", [])]
    for codec in OLD_CODECS:
        for magic in (0, 1):
            data = build_batch(rows, base_offset=5, compression=codec)
            assert [r.offset for r in converted(data, magic)] == [5, 9]


def test_the_brokers_time_stays_the_brokers() -> None:
    for codec in OLD_CODECS:
        batch = bytearray(build_batch(ROWS, compression=codec))
        header = leader_batch(batch, LogConfig(), AppendOrigin.CLIENT, NOW)
        stamp_log_append_time(batch, header, NOW)
        messages = list(iterate_messages(message_set_of_batches(batch, 1, 0, LARGE)))
        assert all(m.timestamp_type_log_append and m.timestamp == NOW for m in messages)
        assert {r.timestamp for r in converted(bytes(batch))} == {NOW}


def test_markers_are_left_out() -> None:
    marker = build_batch([(1, b"\0\0\0\1", b"\0\0\0\0\0\0", [])], base_offset=3, control=True)
    assert message_set_of_batches(marker, 1, 3, LARGE) == b""
    assert converted(marker + build_batch(ROWS, base_offset=4), first=3) == records_at(4)


def test_zstd_cannot_be_converted() -> None:
    plain, zstd = build_batch(ROWS), build_batch(ROWS, base_offset=3, compression=Compression.ZSTD)
    assert converted(plain + zstd + plain) == records_at(0)
    marker = build_batch([(1, b"\0\0\0\1", b"\0\0\0\0\0\0", [])], control=True)
    for data in (zstd, marker + zstd):
        with pytest.raises(KafkaError) as caught:
            converted(data)
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_whole_batches_within_the_limit_and_one_at_least() -> None:
    one = build_batch(ROWS)
    size = len(message_set_of_batches(one, 1, 0, LARGE))
    data = one + build_batch(ROWS, base_offset=3) + build_batch(ROWS, base_offset=6)
    for limit, count in ((0, 3), (size, 3), (2 * size - 1, 3), (2 * size, 6), (LARGE, 9)):
        assert len(converted(data, max_bytes=limit)) == count


def test_a_batch_of_which_nothing_is_wanted_takes_no_place() -> None:
    before = build_batch(ROWS, base_offset=5)
    wanted = build_batch([(1, b"k", bytes(500), [])], base_offset=8)
    assert [r.offset for r in converted(before + wanted, first=8, max_bytes=100)] == [8]
    emptied = bytearray(build_batch(ROWS, base_offset=5)[:61])
    emptied[8:12] = (61 - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    assert [r.offset for r in converted(bytes(emptied) + wanted, max_bytes=100)] == [8]


def test_timestamp_outside_the_old_format_is_corrupt() -> None:
    late = assemble_batch(
        encode_record(0, 5, b"k", b"v"),
        base_offset=0,
        leader_epoch=0,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=2**63 - 1,
        max_timestamp=2**63 - 1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    with pytest.raises(CorruptRecordError):
        message_set_of_batches(late, 1, 0, LARGE)


def test_nothing_is_nothing() -> None:
    assert message_set_of_batches(b"", 1, 0, LARGE) == b""
    assert message_set_of_batches(build_batch(ROWS)[:-1], 1, 0, LARGE) == b""


contents = st.none() | st.binary(max_size=30)
rows = st.lists(st.tuples(st.integers(0, 2**53), contents, contents), min_size=1, max_size=8)


@pytest.mark.mission("PRD-2", "FET-1")
@given(
    rows=rows,
    codec=st.sampled_from(OLD_CODECS),
    magic=st.sampled_from([0, 1]),
    base=st.integers(0, 2**40),
)
@settings(max_examples=80)
def test_from_set_to_batch_to_set(
    rows: list[tuple[int, bytes | None, bytes | None]], codec: Compression, magic: int, base: int
) -> None:
    sent = [Record(i, *row, []) for i, row in enumerate(rows)]
    batch = leader_batch(
        encode_message_set(sent, magic, codec), LogConfig(), AppendOrigin.CLIENT, NOW
    )
    stored = bytearray(batch.buffer)
    stamp(stored, base, 3)
    expected = [
        r._replace(offset=base + r.offset, timestamp=r.timestamp if magic else -1) for r in sent
    ]
    assert list(decode_records(stored)) == expected
    assert converted(bytes(stored), magic, base) == expected
    again = message_set_of_batches(stored, magic, base, LARGE)
    assert again == encode_message_set(expected, magic, codec)


@pytest.mark.mission("SAFE-64")
def test_a_batch_that_is_too_large_as_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "LARGEST_DECOMPRESSED_BYTES", 1000)
    with pytest.raises(KafkaError) as raised:
        converted(build_batch([(NOW, None, b"", ())] * 100))
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert len(converted(build_batch([(NOW, None, b"", ())] * 20))) == 20
