"""Looking over records: its twin is the decoder."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.records.batch import CorruptRecordError, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import Record, decode_batch, encode_record
from minikafka.protocol.records.record_summary import RecordSummary, summarize_records

contents = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
rows = st.lists(
    st.tuples(st.integers(1, 80), st.integers(-1, 2**45), contents, contents, headers),
    min_size=1,
    max_size=100,
)


def payload(*records: bytes) -> bytes:
    return b"".join(records)


@given(rows=rows)
@settings(max_examples=80)
def test_it_sees_what_the_decoder_sees(rows: list[Any]) -> None:
    records = []
    offset = -1
    for step, *message in rows:
        offset += step
        records.append(Record(offset, *message))
    (batch,) = parse_batches(build_batch(records))
    base = batch.base_timestamp
    times = [r.timestamp - base for r in decode_batch(batch)]
    assert summarize_records(bytes(batch.payload()), len(records)) == RecordSummary(
        [r.offset for r in records] == list(range(len(records))),
        min(times),
        max(times),
        all(r.key is not None for r in records),
    )


GOOD = encode_record(0, 0, b"k", b"v", [("h", b"x"), ("n", None)]) + encode_record(1, -7, None, b"")


def test_negative_times_null_keys_and_headers() -> None:
    assert summarize_records(GOOD, 2) == RecordSummary(True, -7, 0, False)


def test_offsets_that_do_not_follow_each_other() -> None:
    for deltas in ((1, 2), (0, 0), (0, 2), (1, 0), (-1, 0)):
        data = payload(*(encode_record(delta, 0, b"k", b"v") for delta in deltas))
        assert not summarize_records(data, 2).consecutive


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (GOOD, 1),
        (GOOD, 3),
        (GOOD + b"\x00", 2),
        (GOOD[:-1], 2),
        (b"", 1),
        (b"\x0c\x00\x00\x00\x02k\x00", 1),  # no place for the number of headers
        (b"\x0b\x00\x00\x00\x00\x00\x00", 1),  # a length of -6
        (b"\x0c\x00\x00\x00\x00\x00\x01", 1),  # -1 headers
        (b"\x10\x00\x00\x00\x00\x00\x02\x01\x01", 1),  # a header without a name
        (b"\xff" * 40, 1),
    ],
)
def test_malformed_records(data: bytes, count: int) -> None:
    with pytest.raises(CorruptRecordError):
        summarize_records(data, count)


@given(data=st.binary(max_size=60), count=st.integers(1, 4))
@settings(max_examples=200)
def test_garbage_gives_only_the_one_error(data: bytes, count: int) -> None:
    with suppress(CorruptRecordError):
        summarize_records(data, count)
