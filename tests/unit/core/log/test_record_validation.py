"""Validation of records inside batches: wrong counts, offsets and times in the header."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minikafka.core.log.append import AppendOrigin, RecordValidationError
from minikafka.core.log.config import LogConfig
from minikafka.core.log.record_validation import COPIED_BYTES, are_plain_records
from minikafka.core.log.validation import leader_batch
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import (
    CorruptRecordError,
    RecordBatch,
    crc_is_valid,
    crc_of,
    parse_batches,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression, compress
from minikafka.protocol.records.record import decode_records, encode_record
from minikafka.protocol.records.record_loop import summarize_records

NOW = 1_700_000_000_000
CONFIG = LogConfig()
LIMITED = replace(CONFIG, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=100)
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


def accepted(data: bytes, config: LogConfig = CONFIG) -> RecordBatch:
    batch = leader_batch(data, config, AppendOrigin.CLIENT, NOW)
    assert crc_is_valid(batch)
    return batch


def refusal(data: bytes, config: LogConfig = CONFIG) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        accepted(data, config)
    return caught.value


def made(payload: bytes, count: int, codec: Compression = Compression.LZ4, **fields: Any) -> bytes:
    """A batch whose header says what it likes."""
    settings = {
        "base_offset": 0,
        "leader_epoch": -1,
        "attributes": int(codec),
        "last_offset_delta": count - 1,
        "base_timestamp": NOW,
        "max_timestamp": NOW,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": count,
    }
    return assemble_batch(compress(codec, payload), **(settings | fields))


def records(*deltas: int, timestamp_delta: int = 0) -> bytes:
    return b"".join(encode_record(d, timestamp_delta, b"k%d" % d, b"v") for d in deltas)


@pytest.mark.parametrize("codec", CODECS)
def test_a_sound_compressed_batch_is_stored_as_it_came(codec: Compression) -> None:
    data = made(records(0, 1, 2), 3, codec)
    assert accepted(data).buffer is data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("deltas", [(0, 0), (1, 2), (0, 5), (1, 0)])
def test_inner_offsets_are_put_right(codec: Compression, deltas: tuple[int, ...]) -> None:
    fields = {"producer_id": 4, "producer_epoch": 1, "base_sequence": 9}
    batch = accepted(made(records(*deltas), 2, codec, **fields))
    assert [r.offset for r in decode_records(batch.buffer)] == [0, 1]
    assert [r.key for r in decode_records(batch.buffer)] == [b"k%d" % d for d in deltas]
    assert batch.compression is codec
    assert batch[9:12] == (4, 1, 9)


@pytest.mark.mission("SAFE-1")
@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"\xff" * 30, 1),
        (b"", 2**31 - 1),
        (records(0, 1), 3),
        (records(0, 1, 2), 2),
        (records(0, 1)[:-1], 2),
        (records(0, 1) + b"\0", 2),
        (b"\x10\0\0\0\1\1\2\1\1", 1),  # a header without a name
        (b"\x0c\0\0\0\x40\0\0", 1),  # a key that reaches past its record
    ],
)
def test_uncompressed_records_are_read_too(payload: bytes, count: int) -> None:
    """The CRC is right: otherwise consumers would read nothing for ever, and compaction stop."""
    batch = made(payload, count, Compression.NONE)
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("delta", [2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_times_of_plain_records_must_fit_64_bits(delta: int) -> None:
    last = NOW + max(delta, 0)
    batch = made(
        records(0) + records(1, timestamp_delta=delta),
        2,
        Compression.NONE,
        max_timestamp=min(last, 2**63 - 1),
    )
    if -(2**63 - 1) <= NOW + delta <= 2**63 - 1 and last - min(NOW + delta, NOW) <= 2**63 - 1:
        assert accepted(batch).max_timestamp == last
    else:
        assert refusal(batch).code is ErrorCode.INVALID_TIMESTAMP


def test_the_largest_time_of_a_plain_batch_is_put_right() -> None:
    batch = made(records(0) + records(1, timestamp_delta=7), 2, Compression.NONE)
    assert accepted(batch).max_timestamp == NOW + 7


@pytest.mark.mission("SAFE-1")
@pytest.mark.parametrize("config", [CONFIG, LIMITED, replace(CONFIG, cleanup_policy="compact")])
@pytest.mark.parametrize("offsets", [(0, 5), (3, 4), (1, 0), (0, 0), (0, 2**31 - 1), (-7, 1)])
def test_inner_offsets_of_a_plain_batch_become_consecutive(
    offsets: tuple[int, int], config: LogConfig
) -> None:
    """Kafka stores them: consumers then see these offsets, and compaction cannot go on."""
    data = made(records(*offsets), 2, Compression.NONE)
    batch = accepted(data, config)
    assert [r.offset for r in decode_records(batch.buffer)] == [0, 1]
    assert [r.value for r in decode_records(batch.buffer)] == [
        r.value for r in decode_records(data)
    ]


def test_inner_offsets_are_put_right_by_recompression_too() -> None:
    plain = made(records(3, 4), 2, Compression.NONE)
    batch = accepted(plain, replace(CONFIG, compression_type="gzip"))
    assert [r.offset for r in decode_records(batch.buffer)] == [0, 1]
    batch = accepted(made(records(3, 4), 2), replace(CONFIG, compression_type="uncompressed"))
    assert batch.compression is Compression.NONE
    assert [r.offset for r in decode_records(batch.buffer)] == [0, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_the_number_of_records_must_be_right(count: int) -> None:
    data = made(records(0, 1), count)
    assert refusal(data).code is ErrorCode.INVALID_RECORD
    plain = made(records(0, 1), count, Compression.NONE)
    compacted = replace(CONFIG, cleanup_policy="compact")
    assert refusal(plain, compacted).code is ErrorCode.INVALID_RECORD


def test_a_payload_that_the_crc_vouches_for_is_no_transport_damage() -> None:
    """So trying again would not help, and the error says so."""
    garbage = made(b"\xff" * 30, 1)
    assert refusal(garbage).code is ErrorCode.INVALID_RECORD
    not_lz4 = assemble_batch(b"zzzz", **_header(1, Compression.LZ4))
    assert refusal(not_lz4).code is ErrorCode.INVALID_RECORD


def _header(count: int, codec: Compression) -> dict[str, int]:
    (batch,) = parse_batches(made(records(*range(count)), count, codec))
    return {
        name: getattr(batch, name)
        for name in (
            "base_offset", "attributes", "last_offset_delta", "base_timestamp", "max_timestamp",
            "producer_id", "producer_epoch", "base_sequence", "record_count",
        )
    } | {"leader_epoch": -1}  # fmt: skip


def test_the_latest_time_in_the_header_is_put_right() -> None:
    data = made(records(0, 1, timestamp_delta=500), 2, max_timestamp=NOW + 77)
    batch = accepted(data)
    assert batch.max_timestamp == NOW + 500
    assert [r.timestamp for r in decode_records(batch.buffer)] == [NOW + 500] * 2


def test_times_beyond_64_bits_are_refused() -> None:
    late = made(records(0, timestamp_delta=500), 1, base_timestamp=2**63 - 1)
    assert refusal(late).code is ErrorCode.INVALID_TIMESTAMP
    early = made(records(0, timestamp_delta=-500), 1, base_timestamp=-(2**63) + 1)
    by_broker = replace(CONFIG, message_timestamp_type="LogAppendTime")
    assert refusal(early, by_broker).code is ErrorCode.INVALID_TIMESTAMP
    for extreme in (2**63 - 1, -(2**63) + 1):
        data = made(records(0), 1, base_timestamp=extreme, max_timestamp=extreme)
        assert accepted(data, by_broker).max_timestamp == extreme
    spread = encode_record(1, 2**62, b"", b"") + encode_record(0, -(2**62) - 1, b"", b"")
    assert refusal(made(spread, 2, base_timestamp=0)).code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_each_record_that_is_out_of_time_is_named(codec: Compression) -> None:
    rows: list[Any] = [(NOW + delta, b"k", b"v", []) for delta in (0, -1001, 100, 101, -1000)]
    error = refusal(build_batch(rows, compression=codec), LIMITED)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1, 3]
    allowed = f"[{NOW - 1000}, {NOW + 100}]"
    assert error.record_errors[1][1] == f"timestamp {NOW + 101} is outside of {allowed}"
    by_broker = replace(LIMITED, message_timestamp_type="LogAppendTime")
    accepted(build_batch(rows, compression=codec), by_broker)
    untimed: list[Any] = [(-1, b"k", b"v", [])] * 2
    accepted(build_batch(untimed, compression=codec), LIMITED)


def test_a_header_cannot_hide_late_records() -> None:
    data = made(records(0, timestamp_delta=101), 1, Compression.NONE)
    assert refusal(data, LIMITED).code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_each_record_without_a_key_is_named_where_keys_are_needed(codec: Compression) -> None:
    compacted = replace(CONFIG, cleanup_policy="compact")
    rows: list[Any] = [(NOW, key, b"v", []) for key in (b"", None, b"k", None)]
    error = refusal(build_batch(rows, compression=codec), compacted)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    late = [*rows, (NOW - 5000, b"k", b"v", [])]
    both = replace(LIMITED, cleanup_policy="compact")
    error = refusal(build_batch(late, compression=codec), both)
    assert isinstance(error, RecordValidationError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1, 3, 4]


def test_levels_of_recompression() -> None:
    text = b"".join(b"line %d of some text that repeats itself\n" % (n * n) for n in range(2_000))
    data = build_batch([(NOW, b"k", text, [])])
    for codec, low, high in (("gzip", 1, 9), ("zstd", -131072, 19), ("lz4", 9, 17)):
        sizes = [
            accepted(
                data,
                replace(
                    CONFIG,
                    compression_type=codec,
                    **dict[str, Any]({f"compression_{codec}_level": level}),
                ),
            ).size_bytes
            for level in (low, high)
        ]
        assert sizes[0] > sizes[1]


large_records = st.builds(
    encode_record,
    st.integers(0, 2),
    st.sampled_from((0, 5, -70, 2**40)),
    st.none() | st.binary(max_size=3),
    st.sampled_from((1_000, COPIED_BYTES, 2 * COPIED_BYTES)).map(bytes),
    st.sampled_from(([], [("h", b"1")])),
)
changes_of_heads = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 11), st.binary(max_size=2)))


@given(st.lists(large_records, min_size=1, max_size=2), changes_of_heads, st.integers(-1, 2))
@example([encode_record(n, 5 * n, None, bytes(2 * COPIED_BYTES), []) for n in (0, 1)], [], 0)
@settings(max_examples=200)
def test_large_records_are_judged_where_they_are_as_from_a_copy(
    parts: list[bytes], changes: list[tuple[int, int, bytes]], more: int
) -> None:
    heads = [0, len(parts[0])]
    data = bytearray(b"".join(parts) + bytes(max(more, 0)))
    for record, place, change in changes:
        start = min(heads[record] + place, len(data) - len(change))
        data[start : start + len(change)] = change
    records = bytes(data[: len(data) + min(more, 0)])
    for largest in (0, 5, 2**40):
        try:
            consecutive, _, latest, _ = summarize_records(records, len(parts))
            plain = consecutive and latest == largest
        except CorruptRecordError:
            plain = False
        assert are_plain_records(memoryview(records), len(parts), 0, largest) is plain


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2**50), st.none() | st.binary(max_size=9), st.binary(max_size=9)),
        min_size=1,
        max_size=6,
    ),
    codec=st.sampled_from(Compression),
    flips=st.lists(st.tuples(st.integers(0, 999), st.integers(1, 255)), max_size=3),
    config=st.sampled_from(
        [CONFIG, LIMITED, replace(CONFIG, cleanup_policy="compact", compression_type="lz4")]
    ),
)
@settings(max_examples=150)
def test_mutated_batches_with_a_right_crc_give_only_kafka_errors(
    rows: list[Any], codec: Compression, flips: list[tuple[int, int]], config: LogConfig
) -> None:
    data = bytearray(build_batch([(*row, []) for row in rows], compression=codec))
    for place, mask in flips:
        data[17 + place % (len(data) - 17)] ^= mask
    struct.pack_into(">I", data, 17, crc_of(data, 0, len(data)))
    try:
        batch = leader_batch(data, config, AppendOrigin.CLIENT, NOW)
    except KafkaError:
        return
    assert crc_is_valid(batch)
    if batch.compression or batch.buffer is not data:
        assert [r.offset for r in decode_records(batch.buffer)] == list(range(batch.record_count))
