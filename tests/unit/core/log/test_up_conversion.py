"""Old message sets become one batch: what is kept, what is refused, and by which error."""

import zlib
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.log.append import AppendOrigin, RecordValidationError
from minikafka.core.log.config import LogConfig
from minikafka.core.log.format_conversion import batch_of_message_set
from minikafka.core.log.validation import leader_batch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import RecordBatch, crc_is_valid
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.legacy import encode_message, encode_message_set
from minikafka.protocol.records.record import Record, decode_records
from tests.support.protocol.golden import golden

NOW = 1_700_000_000_000
CONFIG = LogConfig()
OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
RECORDS = [
    Record(0, NOW, b"k", b"v", []),
    Record(1, NOW - 5, None, b"", []),
    Record(2, NOW + 7, b"", None, []),
]


def accepted(data: bytes, config: LogConfig = CONFIG) -> RecordBatch:
    batch = leader_batch(data, config, AppendOrigin.CLIENT, NOW)
    assert crc_is_valid(batch)
    assert batch.position == 0
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    return batch


def refusal(data: bytes, config: LogConfig = CONFIG) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        accepted(data, config)
    return caught.value


def wrapped(inner: bytes, magic: int = 1, attributes: int = 1) -> bytes:
    value = compress(Compression.GZIP, inner)
    return encode_message(0, magic, NOW, None, value, attributes)


@pytest.mark.mission("PRD-2", "R-9")
def test_two_messages_of_magic_1_become_these_bytes() -> None:
    messages = golden("""
        0000000000000000 00000018 5abedbab 01 00 00000000000004d2 00000001 'k' 00000001 'v'
        0000000000000000 00000017 c7993070 01 00 00000000000004d3 ffffffff 00000001 'w'
    """)
    batch = golden("""
        0000000000000000 00000042 ffffffff 02   # base offset, length, leader epoch, magic
        0bfb9fc7 0000 00000001                  # CRC-32C, attributes, last offset delta
        00000000000004d2 00000000000004d3       # first and latest time
        ffffffffffffffff ffff ffffffff          # no producer
        00000002                                # records
        10 00 00 00 02 'k' 02 'v' 00
        0e 00 02 02 01 02 'w' 00
    """)
    assert accepted(messages).buffer == batch


@pytest.mark.mission("PRD-2")
@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_up_conversion_keeps_records_and_codec(magic: int, codec: Compression) -> None:
    batch = accepted(encode_message_set(RECORDS, magic, codec))
    assert batch.compression is codec
    expected = RECORDS if magic else [r._replace(timestamp=-1) for r in RECORDS]
    assert list(decode_records(batch.buffer)) == expected
    assert batch.max_timestamp == (NOW + 7 if magic else -1)


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "lz4", "zstd"])
def test_topics_may_want_their_own_codec(codec: Compression, name: str) -> None:
    config = replace(CONFIG, compression_type=name)
    batch = accepted(encode_message_set(RECORDS, 1, codec), config)
    assert batch.compression.name.lower() == name.replace("uncompressed", "none")
    assert list(decode_records(batch.buffer)) == RECORDS


def test_offsets_that_producers_write_do_not_matter() -> None:
    """Some number from 0, some write -1 or nothing but zeros, and wrappers relative or not."""
    for offsets in ((0, 0, 0), (-1, -1, -1), (7, 3, 5)):
        plain = b"".join(
            encode_message(o, 1, r.timestamp, r.key, r.value)
            for o, r in zip(offsets, RECORDS, strict=True)
        )
        for data in (plain, wrapped(plain)):
            assert list(decode_records(accepted(data).buffer)) == RECORDS


def test_a_torn_message_at_the_end_is_left_out() -> None:
    data = encode_message_set(RECORDS, 1)
    assert accepted(data[:-1]).record_count == 2
    for none_whole in (data[:12], data[:30]):
        assert refusal(none_whole).code is ErrorCode.INVALID_RECORD


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def test_crcs_are_checked_outside_and_inside() -> None:
    data = encode_message_set(RECORDS, 1)
    assert refusal(flipped(data, 12)).code is ErrorCode.CORRUPT_MESSAGE
    assert refusal(flipped(data, len(data) - 12)).code is ErrorCode.CORRUPT_MESSAGE
    assert refusal(wrapped(flipped(data, 12))).code is ErrorCode.CORRUPT_MESSAGE
    assert refusal(flipped(wrapped(data), 30)).code is ErrorCode.CORRUPT_MESSAGE


def test_sizes_are_limited_before_and_after() -> None:
    one = encode_message_set(RECORDS[:1], 1)
    small = replace(CONFIG, max_message_bytes=len(one) - 1)
    assert refusal(one, small).code is ErrorCode.MESSAGE_TOO_LARGE
    zeros = encode_message_set([Record(0, NOW, b"k", bytes(10_000), [])], 1)
    packed = replace(CONFIG, compression_type="gzip", max_message_bytes=len(zeros))
    assert accepted(zeros, packed).size_bytes < 200
    too_small = replace(packed, max_message_bytes=len(zeros) - 1)
    assert refusal(zeros, too_small).code is ErrorCode.MESSAGE_TOO_LARGE
    converted = accepted(one).size_bytes
    assert accepted(one, replace(CONFIG, max_message_bytes=converted)).size_bytes == converted
    with pytest.raises(KafkaError) as caught:
        batch_of_message_set(b"", CONFIG, NOW)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    many = encode_message_set([RECORDS[0]] * 50, 1)
    assert refusal(many, replace(CONFIG, max_message_bytes=200)).code is (
        ErrorCode.MESSAGE_TOO_LARGE
    )


@pytest.mark.parametrize(
    "data",
    [
        wrapped(encode_message_set(RECORDS, 1)) * 2,
        wrapped(encode_message_set(RECORDS, 1)) + encode_message_set(RECORDS, 1),
        encode_message_set(RECORDS, 1) + wrapped(encode_message_set(RECORDS, 1)),
        encode_message_set(RECORDS, 0) + encode_message_set(RECORDS, 1),
        wrapped(encode_message_set(RECORDS, 0), magic=1),
        wrapped(encode_message_set(RECORDS, 1), magic=0),
        wrapped(b""),
        wrapped(wrapped(encode_message_set(RECORDS, 1))),
        encode_message(0, 1, NOW, None, None, 1),
        encode_message(0, 1, NOW, None, b"", 4),
    ],
)
def test_malformed_message_sets_are_invalid_records(data: bytes) -> None:
    assert refusal(data).code is ErrorCode.INVALID_RECORD


def test_codecs_must_exist() -> None:
    data = encode_message(0, 1, NOW, None, b"", 6)
    assert refusal(data).code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_times_are_checked() -> None:
    for attributes in (8, 9):
        data = encode_message_set(RECORDS, 1)
        if attributes == 8:
            data = encode_message(0, 1, NOW, b"k", b"v", attributes)
        else:
            data = wrapped(data, attributes=attributes)
        assert refusal(data).code is ErrorCode.INVALID_TIMESTAMP
    by_broker = encode_message(0, 1, NOW, b"k", b"v", 8)
    for data in (wrapped(by_broker), encode_message_set(RECORDS, 1) + by_broker):
        assert refusal(data).code is ErrorCode.INVALID_TIMESTAMP
    for timestamp in (-2, 2**63 - 1):
        data = encode_message(0, 1, timestamp, b"k", b"v")
        assert refusal(data).code is ErrorCode.INVALID_TIMESTAMP
    limited = replace(CONFIG, message_timestamp_after_max_ms=6)
    for codec in OLD_CODECS:
        error = refusal(encode_message_set(RECORDS, 1, codec), limited)
        assert isinstance(error, RecordValidationError)
        assert (error.code, [i for i, _ in error.record_errors]) == (
            ErrorCode.INVALID_TIMESTAMP,
            [2],
        )
    accepted(encode_message_set(RECORDS, 0), limited)


def test_compacted_topics_need_keys() -> None:
    error = refusal(encode_message_set(RECORDS, 0), replace(CONFIG, cleanup_policy="compact"))
    assert isinstance(error, RecordValidationError)
    assert (error.code, [i for i, _ in error.record_errors]) == (ErrorCode.INVALID_RECORD, [1])


@given(
    count=st.integers(1, 5),
    codec=st.sampled_from(OLD_CODECS),
    magic=st.sampled_from([0, 1]),
    name=st.sampled_from(["producer", "uncompressed", "zstd"]),
    flips=st.lists(st.tuples(st.integers(0, 999), st.integers(1, 255)), max_size=3),
    fix_crc=st.booleans(),
)
@settings(max_examples=150)
def test_mutated_sets_give_only_kafka_errors(
    count: int,
    codec: Compression,
    magic: int,
    name: str,
    flips: list[tuple[int, int]],
    fix_crc: bool,
) -> None:
    records = [Record(i, NOW + i, b"k", b"v" * i, []) for i in range(count)]
    data = bytearray(encode_message_set(records, magic, codec))
    for place, mask in flips:
        data[place % len(data)] ^= mask
    if fix_crc and codec:
        data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    with suppress(KafkaError):
        batch = accepted(bytes(data), replace(CONFIG, compression_type=name))
        assert len(list(decode_records(batch.buffer))) == batch.record_count
