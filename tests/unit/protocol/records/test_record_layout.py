"""The loops compiled from the description of a record against its plain reading."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minikafka.core.client.consumer.fetched import consumer_records
from minikafka.core.log.compaction_filter import find_records
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import CorruptRecordError, RecordBatch, parse_batch
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.record import decode_batch, encode_record
from minikafka.protocol.records.record_layout import (
    EXPLAINED_BYTES,
    Want,
    compile_walk,
    problem_of,
    read_plainly,
)
from minikafka.protocol.records.record_loop import summarize_records

TP = TopicPartition("t", 0)
# Around the numbers at which a zigzag varint gets a byte more.
sizes = st.sampled_from([0, 1, 63, 64, 127, 128, 8_191, 8_192, 70_000]) | st.integers(0, 200)
contents = st.none() | sizes.map(bytes)
texts = st.sampled_from(["", "h", "ключ", "\udcff"]) | st.text(max_size=70)
headers = st.lists(st.tuples(texts, st.none() | st.binary(max_size=70)), max_size=3)
deltas = st.sampled_from([0, 1, -1, 63, 64, -64, -65, 8_191, 8_192, 2**31, -(2**45)])
offsets = st.sampled_from([0, 1, 63, 64, 8_191, 8_192, 2**31 - 1])
records = st.lists(
    st.builds(encode_record, offsets, deltas, contents, contents, headers), min_size=1, max_size=5
)


def batch_of(data: bytes, count: int, dense: bool = False) -> RecordBatch:
    """A batch of magic 2 with ``data`` as its ``count`` records."""
    whole = assemble_batch(
        data,
        base_offset=1000,
        leader_epoch=0,
        attributes=0,
        last_offset_delta=count - 1 if dense else 2**31 - 1,
        base_timestamp=10**13,
        max_timestamp=10**13,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return parse_batch(whole, 0)


def plain(data: bytes, count: int) -> list[dict[str, Any]] | None:
    """By the description; None for records that it does not allow."""
    found, position = [], 0
    try:
        for _ in range(count):
            fields, position = read_plainly(data, position)
            found.append(fields)
    except (IndexError, ValueError):
        return None
    return found if position == len(data) else None


def refused(read: Any) -> bool:
    try:
        read()
    except CorruptRecordError:
        return True
    return False


def check_all_loops(data: bytes, count: int) -> None:
    expected = plain(data, count)
    batch = batch_of(data, count)
    if expected is None:
        assert refused(lambda: list(decode_batch(batch)))
        assert refused(lambda: summarize_records(data, count))
        assert refused(lambda: consumer_records(TP, batch))
        assert refused(lambda: consumer_records(TP, batch_of(data, count, dense=True)))
        return
    rows = [
        (
            1000 + fields["offset_delta"],
            10**13 + fields["timestamp_delta"],
            fields["key"],
            fields["value"],
            fields["headers"],
        )
        for fields in expected
    ]
    assert [tuple(record) for record in decode_batch(batch)] == rows
    listed = consumer_records(TP, batch)
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in listed] == rows
    dense = consumer_records(TP, batch_of(data, count, dense=True))
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in dense] == [
        (1000 + number, *row[1:]) for number, row in enumerate(rows)
    ]
    times = [fields["timestamp_delta"] for fields in expected]
    assert summarize_records(data, count) == (
        [fields["offset_delta"] for fields in expected] == list(range(count)),
        min(times),
        max(times),
        all(fields["key"] is not None for fields in expected),
    )
    if all(0 <= fields["offset_delta"] < 2**31 for fields in expected):
        found = list(find_records(data, count))
        assert [(time, offset, key, has_value) for _, _, time, offset, key, has_value in found] == [
            (f["timestamp_delta"], f["offset_delta"], f["key"], f["value"] is not None)
            for f in expected
        ]
        assert b"".join(data[start:end] for start, end, *_ in found) == data


@given(parts=records)
@settings(max_examples=150, deadline=None)
def test_every_loop_decodes_valid_records_alike(parts: list[bytes]) -> None:
    check_all_loops(b"".join(parts), len(parts))


@given(parts=records, at=st.floats(0, 0.999), byte=st.integers(0, 255), more=st.integers(-1, 1))
@example(parts=[encode_record(0, 0, None, b"x")], at=0.0, byte=0x0F, more=0)
@example(parts=[encode_record(2**31 - 1, 0, None, b"x")], at=0.6, byte=0x10, more=0)
@settings(max_examples=250, deadline=None)
def test_every_loop_refuses_invalid_records_alike(
    parts: list[bytes], at: float, byte: int, more: int
) -> None:
    data = bytearray(b"".join(parts))
    data[int(at * min(len(data), 150))] = byte
    check_all_loops(bytes(data), max(1, len(parts) + more))


@given(data=st.binary(min_size=1, max_size=60), count=st.integers(1, 4))
@settings(max_examples=250, deadline=None)
def test_arbitrary_bytes(data: bytes, count: int) -> None:
    check_all_loops(data, count)


GOOD = encode_record(0, 5, b"k", b"v", [("h", None)])


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (GOOD[:-1], "a record of 11 bytes"),
        (b"\x03" + GOOD[1:], "a record of -2 bytes"),
        (GOOD + b"\0", "1 bytes after the last record"),
        (b"\x80" * 7, "is cut off"),
        (b"\x0e\0\0\0\x01\x01\0\0", "fields that end at byte 7, not at 8"),
        (b"\x0c\0\0\0\x01\x01\x01", "-1 headers"),
        (b"\x10\0\0\0\x01\x01\x02\x01\x01", "a header without a name"),
        (b"\x0c\0\0\0\x40\0\0", "a field of 32 bytes reaches past its record"),
    ],
)
def test_the_error_names_the_fault(data: bytes, problem: str) -> None:
    assert problem in problem_of(data, 1)
    with pytest.raises(CorruptRecordError, match=problem):
        summarize_records(data, 1)


@pytest.mark.mission("SAFE-61")
def test_the_fault_in_a_large_batch_is_not_searched() -> None:
    record = encode_record(0, 0, b"k", b"v")
    count = 2 * EXPLAINED_BYTES // len(record)
    with pytest.raises(CorruptRecordError, match=f"among {count} records in "):
        list(find_records(record * count + b"x", count))
    with pytest.raises(CorruptRecordError, match="1 bytes after the last record"):
        list(find_records(record + b"x", 1))


def test_a_loop_can_refuse_headers_without_reading_them() -> None:
    """One record may have millions of them."""
    walk = compile_walk("without_headers", "data, count", {"headers": Want.ABSENT}, result="True")
    one = encode_record(0, 0, None, b"v", [])
    assert walk(one * 2, 2)
    assert refused(lambda: walk(one + encode_record(0, 0, None, b"v", [("h", None)]), 2))
    assert refused(lambda: walk(one * 2, 1))
