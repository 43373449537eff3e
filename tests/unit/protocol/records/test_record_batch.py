"""Record batch headers: a batch written by hand, CRC vectors, what is refused, stamping."""

from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.cluster import ProducerIdAndEpoch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_SEQUENCE,
    CorruptRecordError,
    crc_is_valid,
    increment_sequence,
    is_transactional,
    parse_batches,
    producer_of,
    stamp_at,
    stamp_log_append_time,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_records


def crc32c_bit_by_bit(data: bytes) -> int:
    """The definition: reflected polynomial 0x82F63B78, inverted before and after."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# Attributes onwards, by hand: no flags, one record at 1,700,000,000,000 ms, no producer.
CRC_COVERED = bytes.fromhex(
    "0000"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # max timestamp
    "ffffffffffffffff"  # producer id
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000001"  # record count
    "22"  # record length 17, zigzag
    "00"  # record attributes
    "00"  # timestamp delta
    "00"  # offset delta
    "066b6579"  # key "key"
    "0a76616c7565"  # value "value"
    "02"  # one header
    "026801"  # "h", null
)
GOLDEN = (
    bytes.fromhex("000000000000002a")  # base offset 42
    + (9 + len(CRC_COVERED)).to_bytes(4, "big")
    + bytes.fromhex("00000007")  # leader epoch 7
    + b"\x02"  # magic
    + crc32c_bit_by_bit(CRC_COVERED).to_bytes(4, "big")
    + CRC_COVERED
)


def message(value: bytes = b"v", timestamp: int = 1000) -> tuple[int, None, bytes, list[Any]]:
    return timestamp, None, value, []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"123456789", 0xE3069283),
        (b"", 0),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc_32c_vectors(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected == crc32c_bit_by_bit(data)


def test_a_batch_written_by_hand_is_built_byte_for_byte() -> None:
    built = build_batch(
        [(1_700_000_000_000, b"key", b"value", [("h", None)])], base_offset=42, leader_epoch=7
    )
    assert built.hex() == GOLDEN.hex()


def test_a_batch_written_by_hand_is_parsed() -> None:
    (batch,) = parse_batches(GOLDEN)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.magic) == (42, 7, 2)
    assert (batch.last_offset, batch.next_offset, batch.record_count) == (42, 43, 1)
    assert batch.base_timestamp == batch.max_timestamp == 1_700_000_000_000
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.last_sequence == -1
    assert batch.compression is Compression.NONE
    assert batch.size_bytes == len(GOLDEN)
    flags = (batch.is_transactional, batch.is_control, batch.timestamp_type_log_append)
    assert flags == (False, False, False)
    assert crc_is_valid(batch)
    assert list(decode_records(GOLDEN)) == [
        Record(42, 1_700_000_000_000, b"key", b"value", [("h", None)])
    ]


def test_flags_and_producer_fields() -> None:
    built = build_batch(
        [message(), message()],
        compression=Compression.ZSTD,
        producer_id=9,
        producer_epoch=3,
        base_sequence=MAX_SEQUENCE,
        transactional=True,
        control=True,
    )
    (batch,) = parse_batches(built)
    assert batch.is_transactional
    assert batch.is_control
    assert batch.compression is Compression.ZSTD
    assert (batch.producer_id, batch.producer_epoch) == (9, 3)
    assert (batch.base_sequence, batch.last_sequence) == (MAX_SEQUENCE, 0)
    assert producer_of(built) == (ProducerIdAndEpoch(9, 3), MAX_SEQUENCE)


def test_whether_the_first_batch_is_transactional() -> None:
    built = build_batch([message()], producer_id=9, base_sequence=0, transactional=True)
    assert is_transactional(built)
    assert is_transactional(memoryview(built))
    assert not is_transactional(build_batch([message()], producer_id=9, base_sequence=0))
    assert not is_transactional(built[: BATCH_OVERHEAD - 1])
    older_format = bytearray(built)
    older_format[MAGIC_OFFSET] = 1
    assert not is_transactional(older_format)


def test_an_unknown_codec_is_named() -> None:
    data = bytearray(GOLDEN)
    data[22] = 5
    with pytest.raises(KafkaError, match="compression type id 5") as caught:
        _ = parse_batches(data)[0].compression
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_torn_last_batch_is_left_out_at_every_byte() -> None:
    for cut in range(len(GOLDEN)):
        assert len(parse_batches(GOLDEN + GOLDEN[:cut])) == 1
    assert len(parse_batches(GOLDEN + GOLDEN)) == 2
    assert parse_batches(b"") == []


@pytest.mark.parametrize("length", [-1, 0, 13, -(2**31)])
def test_an_impossible_length_is_corrupt(length: int) -> None:
    data = GOLDEN[:8] + length.to_bytes(4, "big", signed=True) + GOLDEN[12:]
    with pytest.raises(CorruptRecordError):
        parse_batches(data)
    with pytest.raises(CorruptRecordError):
        parse_batches(data[:13])


def test_a_length_below_a_whole_header_is_corrupt() -> None:
    data = GOLDEN[:8] + (40).to_bytes(4, "big") + GOLDEN[12:]
    with pytest.raises(CorruptRecordError, match="minimum allowed overhead"):
        parse_batches(data)


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    data = GOLDEN[:16] + bytes([magic]) + GOLDEN[17:]
    with pytest.raises(CorruptRecordError, match="magic"):
        parse_batches(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_refused_as_unsupported_format(magic: int) -> None:
    with pytest.raises(KafkaError) as caught:
        parse_batches(GOLDEN[:16] + bytes([magic]) + GOLDEN[17:])
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_stamping_changes_offset_and_epoch_and_keeps_the_crc() -> None:
    data = bytearray(b"xx" + GOLDEN)
    stamp_at(data, 2, 2**40, len(GOLDEN) - LOG_OVERHEAD, 12)
    assert data[10:14] == GOLDEN[8:12]
    assert data[18:] == GOLDEN[16:]
    (batch,) = parse_batches(memoryview(data)[2:])
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**40, 12)
    assert crc_is_valid(batch)


def test_log_append_time_is_every_records_time() -> None:
    data = bytearray(build_batch([message(timestamp=5), message(timestamp=6)]))
    stamp_log_append_time(data, parse_batches(data)[0], 99)
    (batch,) = parse_batches(data)
    assert batch.timestamp_type_log_append
    assert (batch.base_timestamp, batch.max_timestamp) == (5, 99)
    assert crc_is_valid(batch)
    assert [r.timestamp for r in decode_records(data)] == [99, 99]


@given(bit=st.integers(0, len(GOLDEN) * 8 - 1))
def test_no_flipped_bit_passes_unseen(bit: int) -> None:
    data = bytearray(GOLDEN)
    data[bit // 8] ^= 1 << bit % 8
    uncovered = set(range(8)) | set(range(12, 16))  # base offset and leader epoch
    try:
        batches = parse_batches(data)
    except KafkaError:
        return
    assert not batches or bit // 8 in uncovered or not crc_is_valid(batches[0])


@given(data=st.binary(max_size=200))
def test_any_bytes_are_batches_or_an_error(data: bytes) -> None:
    try:
        batches = parse_batches(data)
        list(decode_records(data))
    except KafkaError:
        return
    assert sum(b.size_bytes for b in batches) <= len(data)


@given(start=st.integers(0, MAX_SEQUENCE), step=st.integers(0, MAX_SEQUENCE))
def test_sequences_wrap_at_two_to_the_31(start: int, step: int) -> None:
    assert increment_sequence(start, step) == (start + step) % (MAX_SEQUENCE + 1)


def test_the_overhead_is_the_header() -> None:
    assert BATCH_OVERHEAD == 61
