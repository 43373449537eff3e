"""Message sets of magic 0 and 1: written by hand, round trips, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.compression import (
    Compression,
    compress,
    decompress,
    with_kafka_lz4_checksum,
    with_right_lz4_checksum,
)
from minikafka.protocol.records.legacy import (
    encode_message,
    encode_message_set,
    inner_messages,
    iterate_messages,
)
from minikafka.protocol.records.record import Record
from tests.support.protocol.golden import golden
from tests.support.protocol.message_sets import decode_message_set

MAGIC_0 = golden("""
    0000000000000007 00000010           # offset, size
    1fecd70a 00 00                      # CRC-32, magic, attributes
    00000001 'k' 00000001 'v'           # key, value
    0000000000000008 0000000f
    a50b8f63 00 00
    ffffffff 00000001 'w'               # no key
""")
MAGIC_1 = golden("""
    0000000000000007 00000018           # offset, size
    5abedbab 01 00 00000000000004d2     # CRC-32, magic, attributes, timestamp
    00000001 'k' 00000001 'v'           # key, value
    0000000000000008 00000017
    c7993070 01 00 00000000000004d3
    ffffffff 00000001 'w'
""")
# Snappy without a frame: a length, then one literal of so many bytes.
WRAPPED_0 = golden("""
    0000000000000008 00000047           # the wrapper has the offset of the last one
    210808bf 00 02 ffffffff 00000039    # codec 2; no key; 57 bytes
    37 d8                               # 55 bytes, in one literal
      0000000000000007 00000010 1fecd70a 00 00 00000001 'k' 00000001 'v'
      0000000000000008 0000000f a50b8f63 00 00 ffffffff 00000001 'w'
""")
WRAPPED_1 = golden("""
    0000000000000008 00000060
    de02fe48 01 02 00000000000004d3     # the latest time of those within
    ffffffff 0000004a                   # no key; 74 bytes
    47 f0 46                            # 71 bytes, in one literal with its length behind the tag
      0000000000000000 00000018 5abedbab 01 00 00000000000004d2 00000001 'k' 00000001 'v'
      0000000000000001 00000017 c7993070 01 00 00000000000004d3 ffffffff 00000001 'w'
""")
RECORDS = [Record(7, 1234, b"k", b"v", []), Record(8, 1235, None, b"w", [])]
TIMELESS = [r._replace(timestamp=-1) for r in RECORDS]

OLD_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def code_of(data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        list(decode_message_set(data))
    return caught.value.code


def wrapper(inner: bytes, magic: int = 1, codec: int = 1, offset: int = 8) -> bytes:
    return encode_message(
        offset, magic, 5, None, compress(Compression(codec), inner), attributes=codec
    )


@pytest.mark.parametrize(
    ("magic", "data", "records"), [(0, MAGIC_0, TIMELESS), (1, MAGIC_1, RECORDS)]
)
def test_plain_sets(magic: int, data: bytes, records: list[Record]) -> None:
    assert encode_message_set(RECORDS, magic) == data
    assert list(decode_message_set(memoryview(data))) == records
    for message in iterate_messages(data):
        assert message.crc_is_valid
        assert message.magic == magic
    assert [m.size_bytes for m in iterate_messages(data)] == [28 + 8 * magic, 27 + 8 * magic]


@pytest.mark.parametrize(("data", "records"), [(WRAPPED_0, TIMELESS), (WRAPPED_1, RECORDS)])
def test_wrapped_sets(data: bytes, records: list[Record]) -> None:
    (message,) = iterate_messages(data)
    assert message.crc_is_valid
    assert message.compression is Compression.SNAPPY
    assert all(m.crc_is_valid for m in inner_messages(message))
    assert list(decode_message_set(data)) == records


@pytest.mark.parametrize("cut", range(1, len(MAGIC_1)))
def test_a_torn_last_message_is_left_out(cut: int) -> None:
    whole = 0 if cut < 36 else 1
    assert list(decode_message_set(MAGIC_1[:cut])) == RECORDS[:whole]


def test_the_wrapper_of_some_librdkafka_has_offset_0() -> None:
    inner = encode_message_set(RECORDS, 1)
    assert [r.offset for r in decode_message_set(wrapper(inner, offset=0))] == [7, 8]
    assert [r.offset for r in decode_message_set(wrapper(inner, offset=20))] == [19, 20]
    assert code_of(wrapper(inner, offset=7)) is ErrorCode.INVALID_RECORD


def test_the_brokers_time_on_a_wrapper_holds_for_all_within() -> None:
    inner = encode_message_set(RECORDS, 1)
    data = encode_message(8, 1, 99, None, compress(Compression.GZIP, inner), attributes=8 | 1)
    assert [r.timestamp for r in decode_message_set(data)] == [99, 99]
    built = encode_message_set(
        [r._replace(timestamp=99) for r in RECORDS], 1, Compression.GZIP, log_append_time=True
    )
    (message,) = iterate_messages(built)
    assert message.timestamp_type_log_append
    assert all(m.timestamp_type_log_append for m in inner_messages(message))
    assert not next(
        iterate_messages(encode_message_set(RECORDS, 0, log_append_time=True))
    ).attributes


def test_inner_offsets_are_relative_in_magic_1_alone() -> None:
    for magic, offsets in ((0, [7, 8]), (1, [0, 1])):
        (message,) = iterate_messages(encode_message_set(RECORDS, magic, Compression.GZIP))
        assert message.offset == 8
        within = decompress(Compression.GZIP, message.value or b"")
        assert [m.offset for m in iterate_messages(within)] == offsets


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (MAGIC_1[:8] + b"\x00\x00\x00\x0d" + MAGIC_1[12:], ErrorCode.CORRUPT_MESSAGE),
        (MAGIC_1[:8] + b"\xff\xff\xff\xff" + MAGIC_1[12:], ErrorCode.CORRUPT_MESSAGE),
        (MAGIC_0[:8] + b"\x00\x00\x00\x0e" + b"\x01" * 14, ErrorCode.CORRUPT_MESSAGE),
        (MAGIC_1[:16] + b"\x03" + MAGIC_1[17:], ErrorCode.CORRUPT_MESSAGE),
        (MAGIC_1[:16] + b"\x02" + MAGIC_1[17:], ErrorCode.INVALID_RECORD),
        (MAGIC_1[:26] + b"\x00\x00\x01\x00" + MAGIC_1[30:], ErrorCode.CORRUPT_MESSAGE),
        (encode_message(0, 1, 0, None, b"", attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (encode_message(0, 1, 0, None, b"", attributes=4), ErrorCode.INVALID_RECORD),
        (encode_message(0, 1, 0, None, None, attributes=1), ErrorCode.INVALID_RECORD),
        (encode_message(0, 0, 0, None, b"no lz4", attributes=3), ErrorCode.CORRUPT_MESSAGE),
        (encode_message(0, 1, 0, None, b"no gzip", attributes=1), ErrorCode.CORRUPT_MESSAGE),
        (wrapper(b""), ErrorCode.INVALID_RECORD),
        (wrapper(MAGIC_1[:20]), ErrorCode.INVALID_RECORD),
        (wrapper(wrapper(MAGIC_1)), ErrorCode.INVALID_RECORD),
    ],
)
def test_invalid_message_sets_are_refused(data: bytes, code: ErrorCode) -> None:
    assert code_of(data) is code


def test_zstd_does_not_go_into_old_sets_and_nothing_is_empty() -> None:
    with pytest.raises(KafkaError) as caught:
        encode_message_set(RECORDS, 1, Compression.ZSTD)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert encode_message_set([], 1, Compression.GZIP) == b""


def test_a_bit_flipped_after_the_crc_shows() -> None:
    for position in range(16, 36):
        changed = bytearray(MAGIC_1[:36])
        changed[position] ^= 1
        try:
            messages = list(iterate_messages(changed))
        except KafkaError:
            continue
        assert not any(m.crc_is_valid for m in messages)


# ---- LZ4 frames of old clients


def test_frames_of_magic_0_have_the_checksum_of_old_clients() -> None:
    """0x82 is the checksum of the two descriptor bytes 60 40; 0x1a that with the magic before."""
    frame = compress(Compression.LZ4, b"hello " * 10)
    assert frame[:7] == golden("04224d18 60 40 82")
    assert with_kafka_lz4_checksum(frame)[:7] == golden("04224d18 60 40 1a")
    assert with_right_lz4_checksum(with_kafka_lz4_checksum(frame)) == frame
    (message,) = iterate_messages(encode_message_set(RECORDS, 0, Compression.LZ4))
    assert (message.value or b"")[6] == 0x1A
    (message,) = iterate_messages(encode_message_set(RECORDS, 1, Compression.LZ4))
    assert (message.value or b"")[6] == 0x82


def test_any_header_checksum_is_taken_in_magic_0_and_only_there() -> None:
    frame = compress(Compression.LZ4, MAGIC_0)
    for checksum in (0x00, 0x1A, 0x82):
        value = frame[:6] + bytes([checksum]) + frame[7:]
        data = encode_message(8, 0, -1, None, value, attributes=3)
        assert list(decode_message_set(data)) == TIMELESS
        if checksum != 0x82:
            assert code_of(encode_message(8, 1, 0, None, value, attributes=3)) is (
                ErrorCode.CORRUPT_MESSAGE
            )


def test_frames_may_tell_their_content_size() -> None:
    """The descriptor 68 40 and eight bytes of size: another library's frame for one 'x'."""
    frame = golden("04224d18 68 40 0100000000000000 00 01000080 'x' 00000000")
    assert decompress(Compression.LZ4, with_right_lz4_checksum(frame)) == b"x"
    for torn in (frame[:6], frame[:14], b"\x04\x22\x4d\x19" + frame[4:]):
        with pytest.raises(KafkaError, match="lz4"):
            with_right_lz4_checksum(torn)


# ---- properties

times = st.integers(0, 2**53)
contents = st.none() | st.binary(max_size=30)
record_lists = st.lists(st.tuples(st.integers(1, 3), times, contents, contents), min_size=1).map(
    lambda rows: [
        Record(100 + sum(row[0] for row in rows[: i + 1]), row[1], row[2], row[3], [])
        for i, row in enumerate(rows)
    ]
)


@given(records=record_lists, codec=st.sampled_from(OLD_CODECS), magic=st.sampled_from([0, 1]))
@settings(max_examples=60)
def test_encoded_records_are_decoded_unchanged(
    records: list[Record], codec: Compression, magic: int
) -> None:
    data = encode_message_set(records, magic, codec)
    expected = [r if magic else r._replace(timestamp=-1) for r in records]
    assert list(decode_message_set(data)) == expected


@given(
    records=record_lists,
    codec=st.sampled_from(OLD_CODECS),
    magic=st.sampled_from([0, 1]),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 40),
)
@settings(max_examples=150)
def test_mutated_sets_give_only_kafka_errors(
    records: list[Record], codec: Compression, magic: int, flips: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(encode_message_set(records, magic, codec))
    for place, mask in flips:
        data[place % len(data)] ^= mask
    del data[len(data) - min(cut, len(data) - 1) :]
    try:
        for record in decode_message_set(data):
            assert isinstance(record, Record)
    except KafkaError:
        pass
