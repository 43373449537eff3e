"""The compiled loops over records: compiled or not, they read what the plain decoder reads."""

from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.buffer import write_varlong
from minikafka.protocol.records import record_loop
from minikafka.protocol.records.batch import BATCH_OVERHEAD, CorruptRecordError, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import Record, decode_batch, encode_record
from minikafka.protocol.records.record_layout import read_plainly
from minikafka.protocol.records.record_loop import summarize_records

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
def test_the_summary_agrees_with_the_decoder(rows: list[Any]) -> None:
    records = []
    offset = -1
    for step, *message in rows:
        offset += step
        records.append(Record(offset, *message))
    (batch,) = parse_batches(build_batch(records))
    base = batch.base_timestamp
    times = [r.timestamp - base for r in decode_batch(batch)]
    assert summarize_records(bytes(batch.payload()), len(records)) == (
        [r.offset for r in records] == list(range(len(records))),
        min(times),
        max(times),
        all(r.key is not None for r in records),
    )


GOOD = encode_record(0, 0, b"k", b"v", [("h", b"x"), ("n", None)]) + encode_record(1, -7, None, b"")


def test_negative_times_null_keys_and_headers() -> None:
    assert summarize_records(GOOD, 2) == (True, -7, 0, False)


def test_offsets_that_do_not_follow_each_other() -> None:
    for deltas in ((1, 2), (0, 0), (0, 2), (1, 0), (-1, 0)):
        data = payload(*(encode_record(delta, 0, b"k", b"v") for delta in deltas))
        assert not summarize_records(data, 2)[0]


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


def outcome(summarize: Any, data: bytes, count: int) -> Any:
    try:
        return summarize(data, count)
    except CorruptRecordError as error:
        return str(error)


def interpreted() -> ModuleType:
    """The module as Python runs it where it was not compiled."""
    source = Path(__file__).parents[4] / "minikafka/protocol/records/record_loop.py"
    loader = SourceFileLoader("interpreted_record_loop", str(source))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


INTERPRETED = interpreted()
MODULES = (record_loop, INTERPRETED)
NUMBERS = st.sampled_from((0, 1, -1, 63, 64, 8191, 8192, 2**31, 2**62, 2**63 - 1, -(2**63)))


@given(rows=rows, changes=st.lists(st.tuples(st.integers(0), st.binary(max_size=11)), max_size=3))
@settings(max_examples=200)
def test_the_compiled_loop_and_the_interpreted_one_agree(
    rows: list[Any], changes: list[tuple[int, bytes]]
) -> None:
    """Also about damaged records. (Both are the same code where nothing was compiled.)"""
    records = [encode_record(place, *message) for place, (_, *message) in enumerate(rows)]
    data = bytearray(b"".join(records))
    for place, change in changes:
        start = place % len(data)
        data[start : start + len(change)] = change
    for count in (len(records), len(records) + 1):
        assert outcome(summarize_records, bytes(data), count) == outcome(
            INTERPRETED.summarize_records, bytes(data), count
        )


@given(numbers=st.lists(NUMBERS, min_size=6, max_size=6))
@settings(max_examples=300)
def test_numbers_of_64_bits_are_read_alike(numbers: list[int]) -> None:
    length, time, offset, key, value, headers = map(write_varlong, numbers)
    fields = b"\0" + time + offset + key + value + headers
    for data in (length + fields, write_varlong(len(fields)) + fields):
        assert outcome(summarize_records, data, 1) == outcome(
            INTERPRETED.summarize_records, data, 1
        )


@given(rows=rows)
@settings(max_examples=80)
def test_records_are_renumbered(rows: list[Any]) -> None:
    """By the compiled loop and by the interpreted one: only the offsets change."""
    records, offset = [], -1
    for step, *message in rows:
        offset += step
        records.append(Record(offset, *message))
    (batch,) = parse_batches(build_batch(records))
    data = bytes(batch.payload())
    expected = build_batch([record._replace(offset=n) for n, record in enumerate(records)])
    for module in MODULES:
        half = len(records) // 2
        head, position = module.renumber_records(data, 0, 0, half)
        tail, end = module.renumber_records(data, position, half, len(records) - half)
        assert b"".join(head + tail) == expected[BATCH_OVERHEAD:]
        assert end == len(data)


def test_a_claim_of_too_many_records_is_refused_at_once() -> None:
    with pytest.raises(CorruptRecordError, match="2147483647 records cannot be in"):
        summarize_records(GOOD, 2**31 - 1)


# -- columns

column_numbers = st.sampled_from((0, 1, -1, 63, 64, -65, 8_191, 8_192, 2**31, 2**62, -(2**63)))
fields = st.none() | st.sampled_from([b"", b"k", b"x" * 63, b"y" * 64, b"z" * 9_000])
header_lists = st.lists(st.tuples(st.sampled_from(["", "h", "ключ"]), fields), max_size=2)
deltas = st.sampled_from((0, 1, -1, 63, 64, 8_191, 8_192, 2**31 - 1, -(2**31)))
column_rows = st.lists(
    st.tuples(deltas, column_numbers, fields, fields, header_lists), min_size=1, max_size=6
)


def encoded(records: list[Any]) -> bytes:
    return b"".join(encode_record(*record) for record in records)


def read(module: ModuleType, data: bytes, count: int) -> Any:
    try:
        offsets, times, keys, values, pairs = module.read_columns(data, count, True)
    except CorruptRecordError as error:
        return str(error)
    return list(zip(offsets, times, keys, values, map(list, pairs), strict=True))


@given(column_rows)
@settings(max_examples=100, deadline=None)
@pytest.mark.mission("ARW-8")
def test_both_read_the_records_that_were_written(records: list[Any]) -> None:
    data = encoded(records)
    for module in MODULES:
        assert read(module, data, len(records)) == records
        assert module.read_columns(data, len(records), False)[0] == []


@given(column_rows, st.data())
@settings(max_examples=200, deadline=None)
def test_both_refuse_the_same_bytes(records: list[Any], draw: st.DataObject) -> None:
    data = bytearray(encoded(records))
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] = draw.draw(st.integers(0, 255))
    damaged = bytes(data[: draw.draw(st.sampled_from([len(data), len(data) - 1]))])
    compiled, plain = (read(module, damaged, len(records)) for module in MODULES)
    assert compiled == plain
    position = 0
    try:
        for _ in records:
            _, position = read_plainly(damaged, position)
    except (IndexError, ValueError):
        position = -1
    assert (position == len(damaged)) == (not isinstance(plain, str))
