"""Records in and out of batches, codecs, control records, malformed payloads."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import CorruptRecordError, crc_is_valid, parse_batches
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression, compress, decompress
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    decode_end_txn_marker,
    encode_end_txn_marker,
)
from minikafka.protocol.records.record import Record, decode_records

timestamps = st.integers(0, 2**53)
maybe_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3)
messages = st.lists(
    st.tuples(timestamps, maybe_bytes, maybe_bytes, headers), min_size=1, max_size=8
)


def batch_of(payload: bytes, count: int, attributes: int = 0) -> bytes:
    return assemble_batch(
        payload,
        base_offset=0,
        leader_epoch=-1,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


@given(messages=messages, codec=st.sampled_from(Compression), base=st.integers(0, 2**62))
def test_encoded_records_are_decoded_unchanged(
    messages: list[Any], codec: Compression, base: int
) -> None:
    built = build_batch(messages, base_offset=base, compression=codec)
    (batch,) = parse_batches(built)
    assert crc_is_valid(batch)
    assert batch.max_timestamp == max(m[0] for m in messages)
    assert list(decode_records(built)) == [
        Record(base + i, *message) for i, message in enumerate(messages)
    ]


def test_records_keep_their_offsets_and_gaps() -> None:
    records = [Record(10, 5, b"a", b"1", []), Record(13, 4, b"b", None, [])]
    built = build_batch(records, base_offset=10)
    assert parse_batches(built)[0].last_offset == 13
    assert list(decode_records(memoryview(built))) == records


def test_offsets_must_rise() -> None:
    record = Record(10, 5, None, None, [])
    with pytest.raises(ValueError, match="offset 10"):
        build_batch([record, record], base_offset=10)
    with pytest.raises(ValueError, match="offset 10"):
        build_batch([record], base_offset=11)


def test_an_empty_batch_is_not_built() -> None:
    with pytest.raises(ValueError, match="without records"):
        build_batch([])


def test_several_batches_and_a_torn_one() -> None:
    one = build_batch([(1, None, b"x", [])])
    two = build_batch([(2, None, b"y", []), (3, None, b"z", [])], base_offset=1)
    assert [r.value for r in decode_records(one + two + one[:-1])] == [b"x", b"y", b"z"]


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),  # no record where one is promised
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2),  # one where two are promised
        (b"\x0c\x00\x00\x00\x01\x01\x00\xff", 1),  # a byte too many
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1),  # a record longer than its fields
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1),  # minus one headers
        (b"\x01", 1),  # a negative length
        (b"\x64\x00\x00\x00\x01\x01\x00", 1),  # longer than the payload
        (b"\x0c\x00\x00\x00\x20\x01\x00", 1),  # a key that reaches past the record
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),  # a header without a name
        (b"\xff" * 11, 1),  # a varint without an end
    ],
)
def test_malformed_payloads_are_corrupt(payload: bytes, count: int) -> None:
    with pytest.raises(CorruptRecordError):
        list(decode_records(batch_of(payload, count)))


@given(payload=st.binary(max_size=60), count=st.integers(0, 4), codec=st.integers(0, 7))
def test_any_payload_is_records_or_an_error(payload: bytes, count: int, codec: int) -> None:
    try:
        assert len(list(decode_records(batch_of(payload, count, codec)))) == count
    except KafkaError:
        return


@given(data=st.binary(max_size=300), repeat=st.integers(0, 600), codec=st.sampled_from(Compression))
def test_codecs_are_reversible(data: bytes, repeat: int, codec: Compression) -> None:
    plain = data * repeat
    assert decompress(codec, compress(codec, memoryview(plain))) == plain
    assert decompress(codec, memoryview(compress(codec, bytearray(plain)))) == plain


@pytest.mark.parametrize("codec", [c for c in Compression if c is not Compression.NONE])
def test_garbage_does_not_decompress(codec: Compression) -> None:
    for garbage in (b"", b"garbage, not a frame", compress(codec, b"abc" * 100)[:-9]):
        if garbage == b"" and codec in (Compression.ZSTD, Compression.LZ4):
            continue  # no frames at all are no bytes at all
        with pytest.raises(KafkaError) as caught:
            decompress(codec, garbage)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_snappy_is_framed_as_java_does() -> None:
    framed = compress(Compression.SNAPPY, b"a" * 40_000)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(framed[16:20], "big")
    second = int.from_bytes(framed[20 + first : 24 + first], "big")
    assert len(framed) == 24 + first + second


def test_snappy_without_a_frame_is_read() -> None:
    assert decompress(Compression.SNAPPY, b"\x05\x10hello") == b"hello"


@pytest.mark.parametrize("tail", [b"\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x09abc"])
def test_a_broken_snappy_frame_is_corrupt(tail: bytes) -> None:
    with pytest.raises(KafkaError, match="snappy"):
        decompress(Compression.SNAPPY, compress(Compression.SNAPPY, b"abc") + tail)


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    frame = compress(Compression.LZ4, bytes(200_000))
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0xE0 == 0x60  # version 1, blocks independent
    assert decompress(Compression.LZ4, frame) == bytes(200_000)


@pytest.mark.parametrize("kind", ControlRecordType)
def test_transaction_markers(kind: ControlRecordType) -> None:
    key, value = encode_end_txn_marker(EndTxnMarker(kind, 5))
    assert key == bytes([0, 0, 0, kind])
    assert value == b"\x00\x00\x00\x00\x00\x05"
    built = build_batch([(1, key, value, [])], control=True)
    (record,) = decode_records(built)
    assert decode_end_txn_marker(record) == EndTxnMarker(kind, 5)


def test_other_control_records_are_no_markers() -> None:
    assert decode_end_txn_marker(Record(0, 0, b"\x00\x00\x00\x02", b"", [])) is None


@pytest.mark.parametrize("pair", [(None, None), (b"\x00\x00\x00", b""), (b"\x00\x00\x00\x01", b"")])
def test_a_cut_marker_is_corrupt(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(CorruptRecordError):
        decode_end_txn_marker(Record(0, 0, *pair, []))


def test_header_names_that_are_no_text_come_through() -> None:
    payload = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    (record,) = decode_records(batch_of(payload, 1))
    assert build_batch([record])[61:] == payload
