"""Compaction finds the records that decoding finds, whatever the lengths of their varints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.log.compaction_filter import find_records, with_timestamp_delta
from minikafka.protocol.records.batch import CorruptRecordError, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_batch

# Around the numbers at which a (zigzag) varint gets a byte more.
SIZES = (0, 1, 30, 62, 63, 64, 65, 120, 127, 128, 8_150, 8_190, 8_191, 8_192, 8_193, 1_048_600)
STEPS = (1, 2, 62, 63, 64, 65, 8_190, 8_191, 8_192, 8_193, 1_048_576)
TIMES = (0, 1, 63, 64, 65, 8_191, 8_192, 8_193, 10**9)


def check(rows: list[Record], codec: Compression = Compression.NONE) -> None:
    data = build_batch(rows, base_offset=rows[0].offset, compression=codec)
    (batch,) = parse_batches(data)
    payload = batch.plain_records()
    found = list(find_records(payload, batch.record_count))
    expected = list(decode_batch(batch))
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    assert [(base_offset + f[3], base_timestamp + f[2], f[4], f[5]) for f in found] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in expected
    ]
    assert b"".join(payload[f[0] : f[1]] for f in found) == payload


@pytest.mark.parametrize("size", SIZES)
def test_keys_and_values_of_any_length(size: int) -> None:
    text = bytes(size)
    check([Record(7, 1000, text, b"v", []), Record(8, 1000, b"k", text, [])])
    check([Record(7, 1000, None, text, [("h", b"x")]), Record(8, 1000, text, None, [])])


@pytest.mark.parametrize("step", STEPS)
def test_offsets_of_any_distance(step: int) -> None:
    check([Record(7 + n * step, 1000, b"k", b"v", []) for n in range(3)])


@pytest.mark.parametrize("time", TIMES)
def test_times_of_any_distance_before_and_after(time: int) -> None:
    rows = [10**10, 10**10 + time, 10**10 - time]
    check([Record(n, timestamp, b"k", b"v", []) for n, timestamp in enumerate(rows)])


@pytest.mark.parametrize("codec", Compression)
def test_records_are_decompressed(codec: Compression) -> None:
    check([Record(0, 5, b"k", b"v" * 100, [])], codec)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 20_000),
            st.integers(-20_000, 20_000),
            st.none() | st.integers(0, 300),
            st.none() | st.integers(0, 300),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_as_decoding_finds(shapes: list[tuple[int, int, int | None, int | None]]) -> None:
    rows, offset = [], 0
    for step, time, key, value in shapes:
        offset += step
        texts = [None if size is None else bytes(size) for size in (key, value)]
        rows.append(Record(offset, 50_000 + time, texts[0], texts[1], []))
    check(rows)


def payload_of(*keys: bytes) -> bytes:
    (batch,) = parse_batches(build_batch([(0, key, b"value", []) for key in keys]))
    return batch.plain_records()


def test_truncated_payload_or_trailing_bytes_are_rejected() -> None:
    data = payload_of(b"one", b"two")
    for cut in range(1, len(data)):
        with pytest.raises(CorruptRecordError):
            list(find_records(data[:cut], 2))
    with pytest.raises(CorruptRecordError, match="after the last record"):
        list(find_records(data, 1))
    with pytest.raises(CorruptRecordError):
        list(find_records(data, 3))


@pytest.mark.parametrize(("position", "value"), [(0, 1), (3, 1), (4, 126), (8, 126), (8, 12)])
def test_lengths_that_lead_out_of_a_record_are_refused(position: int, value: int) -> None:
    """Negative ones, but for a missing key or value, and such as are longer than the record, whose
    last byte at least is for headers."""
    data = bytearray(payload_of(b"one", b"two"))
    data[position] = value
    with pytest.raises(CorruptRecordError):
        list(find_records(bytes(data), 2))


@pytest.mark.parametrize(("size", "varint"), [(100, b"\xc8\x01"), (128, b"\x80\x02")])
def test_a_long_value_that_leads_out_of_its_record_is_refused(size: int, varint: bytes) -> None:
    (batch,) = parse_batches(build_batch([(0, b"k", bytes(size), [])] * 2))
    data = bytearray(batch.plain_records())
    at = data.index(b"k") + 1
    assert data[at : at + 2] == varint
    data[at + 1] += 1
    with pytest.raises(CorruptRecordError):
        list(find_records(bytes(data), 2))


@pytest.mark.parametrize("delta", [-(2**40), -64, 0, 63, 64, 2**40])
def test_changing_the_timestamp_delta_keeps_all_other_fields(delta: int) -> None:
    (batch,) = parse_batches(
        build_batch([Record(9, 5, b"a", b"1", []), Record(99, 5 + 70, b"key", b"v", [("h", b"x")])])
    )
    data = batch.plain_records()
    _, record = find_records(data, 2)
    moved = with_timestamp_delta(data, *record[:2], delta)
    ((start, end, timestamp, offset, key, has_value),) = find_records(moved, 1)
    assert (start, end, timestamp) == (0, len(moved), delta)
    assert (offset, key, has_value) == record[3:]
    assert moved.endswith(b"key\x02v\x02\x02h\x02x")
