"""The quick decoder of consumer records against the plain one, and against broken bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.core.client.consumer import fetched
from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.core.client.producer.producer_batch import BATCH_OVERHEAD_BYTES, ProducerBatch
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import (
    TIMESTAMP_TYPE_FLAG,
    CorruptRecordError,
    RecordBatch,
    parse_batches,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.record import Record, decode_batch

TP = TopicPartition("t", 3)

lengths = st.sampled_from([0, 1, 62, 63, 64, 65, 120, 8191, 8192, 9000])
contents = st.one_of(st.none(), lengths.map(lambda length: b"x" * length))
headers = st.lists(st.tuples(st.sampled_from(["", "h", "ключ"]), contents), max_size=2)
times = st.sampled_from([0, 1, 63, 64, 65, 8_192, 1 << 40, -1, -64, -65])
rows = st.lists(st.tuples(times, contents, contents, headers), min_size=1, max_size=12)


def consumer_records(tp: TopicPartition, batch: RecordBatch, start: int = 0) -> list[object]:
    found = fetched.consumer_records(tp, batch, start)
    assert all(type(record) is ConsumerRecord for record in found)
    return [record._replace(headers=list(record.headers)) for record in found]


def as_plain(data: bytes, start: int = 0) -> list[tuple[object, ...]]:
    (batch,) = parse_batches(data)
    epoch = batch.partition_leader_epoch
    return [("t", 3, *record, epoch) for record in decode_batch(batch) if record.offset >= start]


@given(
    rows=rows,
    gaps=st.lists(st.sampled_from([1, 1, 1, 70, 9_000]), min_size=12, max_size=12),
    base=st.sampled_from([0, 5, 1 << 40]),
    skip=st.integers(0, 3),
)
@settings(max_examples=120, deadline=None)
def test_both_decoders_agree(rows: list[Any], gaps: list[int], base: int, skip: int) -> None:
    plain = build_batch(rows, base_offset=base, leader_epoch=4)
    offset, compacted = base, []
    for row, gap in zip(rows, gaps, strict=False):
        compacted.append(Record(offset, *row))
        offset += gap
    with_gaps = build_batch(compacted, base_offset=base, compression=Compression.LZ4)
    for data in (plain, with_gaps):
        (batch,) = parse_batches(data)
        assert consumer_records(TP, batch, base + skip) == as_plain(data, base + skip)


@pytest.mark.parametrize("count", [63, 64, 65, 8_191, 8_192, 8_193, 9_000])
def test_offsets_are_counted_over_the_lengths_of_their_varints(count: int) -> None:
    data = build_batch([(0, None, b"%d" % number, []) for number in range(count)])
    (batch,) = parse_batches(data)
    assert consumer_records(TP, batch) == as_plain(data)


@pytest.mark.parametrize("size", range(48, 72))
def test_records_whose_length_takes_one_byte_or_two(size: int) -> None:
    data = build_batch([(0, None, b"x" * size, []), (0, None, b"last", [])])
    (batch,) = parse_batches(data)
    assert consumer_records(TP, batch) == as_plain(data)


@given(rows=rows)
@settings(max_examples=60, deadline=None)
def test_producer_batch_encodes_the_same_bytes_as_build_batch(rows: list[Any]) -> None:
    batch: ProducerBatch[int] = ProducerBatch(TP, 0)
    for number, row in enumerate(rows):
        batch.append(row, number, 1)
    assert batch.build(Compression.NONE) == build_batch(rows)
    assert batch.records() == [tuple(row) for row in rows]


@pytest.mark.parametrize("size", range(4_070, 4_100))
def test_a_producer_encodes_sizes_around_the_end_of_its_table(size: int) -> None:
    content = b"x" * size
    row: Any
    each: Any
    for row in ((0, content, None, []), (0, None, content, []), (size, b"k", b"v", [])):
        batch: ProducerBatch[int] = ProducerBatch(TP, 0)
        for number, each in enumerate([(0, None, None, []), row]):
            batch.append(each, number, 1)
        assert batch.build(Compression.NONE) == build_batch([(0, None, None, []), row])


def test_a_producer_encodes_more_records_than_its_table_has() -> None:
    rows: Any = [(0, None, b"v", [])] * 4_100
    batch: ProducerBatch[int] = ProducerBatch(TP, 0)
    for number, row in enumerate(rows):
        batch.append(row, number, 1)
    assert batch.build(Compression.NONE) == build_batch(rows)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("transactional", [False, True])
def test_producer_batch_header_has_codec_and_transactional_flag(
    codec: Compression, transactional: bool
) -> None:
    batch: ProducerBatch[int] = ProducerBatch(TP, 0)
    batch.append((7, None, b"v", []), 0, 1)
    (built,) = parse_batches(batch.build(codec, transactional=transactional))
    assert (built.compression, built.is_transactional) == (codec, transactional)
    assert not built.is_control
    assert (built.base_timestamp, built.max_timestamp) == (7, 7)


def test_the_overhead_of_a_batch_is_its_header() -> None:
    batch: ProducerBatch[int] = ProducerBatch(TP, 0)
    batch.append((0, None, b"v", []), 0, 1)
    assert len(batch.build(Compression.NONE)) == BATCH_OVERHEAD_BYTES + len(batch.body)


@pytest.mark.parametrize("log_append", [False, True])
def test_records_carry_the_time_that_the_topic_wants(log_append: bool) -> None:
    (batch,) = parse_batches(build_batch([(10, None, b"a", []), (13, None, b"b", [])]))
    if log_append:
        batch = batch._replace(attributes=TIMESTAMP_TYPE_FLAG, max_timestamp=50)
    wanted = [50, 50] if log_append else [10, 13]
    assert [record.timestamp for record in fetched.consumer_records(TP, batch)] == wanted


def test_bytes_after_the_last_record_are_an_error() -> None:
    (batch,) = parse_batches(build_batch([(0, None, b"a", []), (0, None, b"b", [])]))
    with pytest.raises(CorruptRecordError, match="after the last record"):
        fetched.consumer_records(TP, batch._replace(record_count=1, last_offset_delta=0))


@given(rows=rows, at=st.floats(0, 0.999), byte=st.integers(0, 255), cut=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_broken_bytes_are_an_error_or_other_records(
    rows: list[Any], at: float, byte: int, cut: int
) -> None:
    data = bytearray(build_batch(rows))
    place = 61 + int(at * (len(data) - 61))
    data[place] = byte
    (batch,) = parse_batches(bytes(data))
    batch = batch._replace(record_count=batch.record_count + cut)
    try:
        consumer_records(TP, batch)
    except CorruptRecordError:
        return
    assert cut == 0


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("after_offset", "problem"),
    [
        (b"\x0ax\x01\x00", "a field of 5 bytes reaches past its record"),
        (b"\x01\x0ax\x00", "a field of 5 bytes reaches past its record"),
        (b"\x01\x01\x01", "-1 headers"),
        (b"\x01\x01\x02\x01\x01", "a header without a name"),
        (b"\x01\x01\x00?", "fields that end at byte 7, not at 8"),
    ],
)
def test_malformed_record_error_names_the_problem(
    after_offset: bytes, problem: str, dense: bool
) -> None:
    record = b"\0\0\0" + after_offset  # attributes, timestamp and offset deltas
    data = assemble_batch(
        bytes([2 * len(record)]) + record + (b"x" * 9 if "field" in problem else b""),
        base_offset=0,
        leader_epoch=0,
        attributes=0,
        last_offset_delta=0 if dense else 3,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    (batch,) = parse_batches(data)
    with pytest.raises(CorruptRecordError, match=problem):
        fetched.consumer_records(TP, batch)


def test_a_long_negative_length_of_a_value_is_null_and_its_bytes_are_refused() -> None:
    data = build_batch([(0, None, b"x" * 64, [])])
    broken = data.replace(b"\x80\x01x", b"\x81\x01x")  # the varint of -65 in place of that of 64
    assert broken != data
    (batch,) = parse_batches(broken)
    with pytest.raises(CorruptRecordError, match="reaches past its record"):
        fetched.consumer_records(TP, batch)
