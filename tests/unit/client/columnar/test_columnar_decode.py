"""The vectorised decoder gives what the record-by-record decoder gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from minikafka.client.columnar.decode import Slice, decode_to_arrow, next_offset  # noqa: E402
from minikafka.kernel.errors import KafkaError  # noqa: E402
from minikafka.protocol.records.batch import (  # noqa: E402
    CorruptRecordError,
    iterate_batches,
    stamp_log_append_time,
)
from minikafka.protocol.records.builder import assemble_batch, build_batch  # noqa: E402
from minikafka.protocol.records.compression import Compression  # noqa: E402
from minikafka.protocol.records.control import (  # noqa: E402
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.protocol.records.record import decode_records  # noqa: E402

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
EVERYTHING = Slice("t", 3, 0, 1 << 62)

contents = st.one_of(st.none(), st.binary(max_size=12), st.binary(min_size=60, max_size=70))
headers = st.lists(st.tuples(st.text(max_size=5), contents), max_size=3)
messages = st.lists(
    st.tuples(st.integers(0, 1 << 41), contents, contents, headers), min_size=1, max_size=40
)
batches = st.lists(st.tuples(messages, st.sampled_from(Compression)), max_size=4)


def rows(buffer: bytes, wanted: Slice = EVERYTHING, **more: Any) -> list[dict[str, Any]]:
    return [
        row
        for batch in decode_to_arrow(buffer, wanted, SCHEMA, **more)
        for row in batch.to_pylist()
    ]


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    when = round(row["timestamp"].timestamp() * 1000)
    pairs = [(h["key"], h["value"]) for h in row["headers"] or []]
    return row["offset"], when, row["key"], row["value"], pairs


def encoded(parts: list[tuple[list[Any], Compression]]) -> bytes:
    out, base = b"", 0
    for records, codec in parts:
        out += build_batch(records, base_offset=base, compression=codec)
        base += len(records) + 2
    return out


@settings(max_examples=60, deadline=None)
@given(batches, st.integers(0, 100), st.integers(0, 100))
@pytest.mark.mission("SPK-1")
def test_equal_to_the_plain_decoder(parts: list[Any], start: int, size: int) -> None:
    buffer = encoded(parts)
    expected: list[tuple[Any, ...]] = [tuple(record) for record in decode_records(buffer)]
    assert [plain(row) for row in rows(buffer)] == expected
    wanted = Slice("t", 0, start, start + size)
    inside = [record for record in expected if start <= record[0] < start + size]
    assert [plain(row) for row in rows(buffer, wanted)] == inside


@pytest.mark.parametrize("sizes", [(100,), (100, 100, 100, 7), (0,), (5000, 20)])
@pytest.mark.parametrize("codec", Compression)
def test_long_batches_of_equal_and_of_odd_sizes(sizes: tuple[int, ...], codec: Compression) -> None:
    dice = random.Random(len(sizes))
    records: Any = [
        (1000 + n, b"%d" % n if n % 3 else None, dice.randbytes(dice.choice(sizes)), [])
        for n in range(700)
    ]
    buffer = build_batch(records, base_offset=7, compression=codec)
    buffer += build_batch(records[:300], base_offset=900, compression=codec)
    assert [plain(row) for row in rows(buffer)] == [tuple(r) for r in decode_records(buffer)]


# The length of a record takes one, two or three bytes.
sized: st.SearchStrategy[Any] = st.sampled_from([0, 1, 40, 70, 8_150, 8_191, 20_000]).map(
    lambda size: (1, b"k" if size % 2 else None, bytes(size), [])
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(sized, min_size=1, max_size=6), min_size=6, max_size=20),
    st.randoms(use_true_random=False),
)
@pytest.mark.mission("SPS-1")
def test_many_small_batches_are_decoded_side_by_side(
    parts: list[list[Any]], dice: random.Random
) -> None:
    """Also a batch of them whose first record says that it ends elsewhere is noticed."""
    buffer = encoded([(part, dice.choice(list(Compression))) for part in parts])
    assert [plain(row) for row in rows(buffer)] == [tuple(r) for r in decode_records(buffer)]
    plain_parts = [build_batch(part, base_offset=10 * n) for n, part in enumerate(parts)]
    torn = bytearray(plain_parts[dice.randrange(len(parts))])
    torn[61] = torn[61] + 2 & 0xFF
    plain_parts.insert(dice.randrange(len(parts)), bytes(torn))
    with pytest.raises(CorruptRecordError):
        rows(b"".join(plain_parts), check_crcs=False)


def test_columns_of_a_row() -> None:
    buffer = build_batch([(1_500, b"k", None, [("h", b"x"), ("h", None)])], base_offset=5)
    (row,) = rows(buffer)
    when = row.pop("timestamp")
    assert when.timestamp() == 1.5
    assert row == {
        "key": b"k",
        "value": None,
        "topic": "t",
        "partition": 3,
        "offset": 5,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
    }


def test_a_subset_of_the_columns_in_another_order() -> None:
    buffer = build_batch([(1, b"k", b"v", [])])
    schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    (batch,) = decode_to_arrow(buffer, EVERYTHING, schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [{"offset": 0, "value": b"v"}]


def test_no_headers_are_null_and_bad_names_are_mended() -> None:
    buffer = build_batch([(1, b"k", b"v", []), (1, b"k", b"v", [("\udcff", b"")])])
    first, second = rows(buffer)
    assert first["headers"] is None
    assert second["headers"] == [{"key": "\ufffd", "value": b""}]


def test_the_brokers_time_holds_for_all_records_of_a_batch() -> None:
    buffer = bytearray(build_batch([(1, None, b"a", []), (2, None, b"b", [])]))
    stamp_log_append_time(buffer, next(iterate_batches(buffer)), 9_000)
    assert {(r["timestamp"].timestamp(), r["timestampType"]) for r in rows(bytes(buffer))} == {
        (9.0, 1)
    }


def test_a_torn_last_batch_comes_with_the_next_fetch() -> None:
    first = build_batch([(1, None, b"a", [])])
    second = build_batch([(1, None, b"b", [])], base_offset=1)
    for cut in range(len(second)):
        buffer = first + second[:cut]
        assert [row["value"] for row in rows(buffer)] == [b"a"]
        assert next_offset(buffer, 0) == 1


def marker(offset: int, producer: int, kind: ControlRecordType) -> bytes:
    key, value = encode_end_txn_marker(EndTxnMarker(kind, 0))
    return build_batch(
        [(1, key, value, [])],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def of_transaction(offset: int, producer: int, values: list[bytes]) -> bytes:
    return build_batch(
        [(1, None, value, []) for value in values],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


@pytest.mark.mission("SPK-1")
def test_aborted_transactions_and_control_batches_are_left_out() -> None:
    buffer = b"".join(
        [
            of_transaction(0, 1, [b"gone", b"gone"]),
            of_transaction(2, 2, [b"stays"]),
            marker(3, 1, ControlRecordType.ABORT),
            of_transaction(4, 1, [b"again"]),
            marker(5, 2, ControlRecordType.COMMIT),
            marker(6, 1, ControlRecordType.COMMIT),
        ]
    )
    assert [r["value"] for r in rows(buffer, aborted=[(1, 0)])] == [b"stays", b"again"]
    assert len(rows(buffer)) == 4
    assert next_offset(buffer, 0) == 7


def test_a_wrong_crc_is_named() -> None:
    buffer = bytearray(build_batch([(1, None, b"value", [])], base_offset=42))
    buffer[-3] ^= 1
    with pytest.raises(CorruptRecordError, match="t-3: the batch at offset 42 fails its CRC"):
        rows(bytes(buffer))
    assert rows(bytes(buffer), check_crcs=False)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=60), st.integers(0, 4), messages, st.integers(0, 200), st.integers(0, 255)
)
def test_malformed_records_are_errors_and_nothing_else(
    junk: bytes, count: int, records: list[Any], at: int, byte: int
) -> None:
    whole = bytearray(build_batch(records)[61:])
    whole[at % len(whole)] = byte
    for payload, number in ((junk, count), (bytes(whole), len(records))):
        buffer = assemble_batch(
            payload,
            base_offset=0,
            leader_epoch=0,
            attributes=0,
            last_offset_delta=max(0, number - 1),
            base_timestamp=0,
            max_timestamp=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=number,
        )
        try:
            got = list(decode_to_arrow(buffer, EVERYTHING, SCHEMA.remove(5)))
        except KafkaError:
            continue
        try:
            expected = list(decode_records(buffer))
        except KafkaError:
            continue  # the plain decoder looks closer, at what nothing depends on
        values = [value for batch in got for value in batch.column("value").to_pylist()]
        assert values == [record.value for record in expected if record.offset >= 0]


MOST_MS = 9_223_372_036_854_775  # whose microseconds still fit into 64 bits
BEYOND = [1_700_000_000_000_000_000, MOST_MS + 1, -MOST_MS - 1, (1 << 63) - 1, -(1 << 63)]


def timestamps(buffer: bytes, **more: Any) -> list[int | None]:
    """The microseconds, which the dates of Python do not reach."""
    schema = pa.schema([SCHEMA.field("timestamp")])
    return [
        value
        for batch in decode_to_arrow(buffer, EVERYTHING, schema, **more)
        for value in batch.column(0).cast(pa.int64()).to_pylist()
    ]


@pytest.mark.mission("SPK-1")
@pytest.mark.parametrize("when", [0, -1, MOST_MS, -MOST_MS])
def test_timestamps_up_to_the_edges_of_the_range(when: int) -> None:
    """-1 is the time of a record without one, the millisecond before 1970 as in the connector."""
    assert timestamps(build_batch([(when, None, b"", [])])) == [when * 1000]


@pytest.mark.mission("SPK-1")
@pytest.mark.parametrize("when", BEYOND)
def test_a_timestamp_beyond_the_range_is_refused_or_null(when: int) -> None:
    """Nanoseconds sent as milliseconds would become the year 93852."""
    good = build_batch([(5, None, b"", [])])
    bad = build_batch([(when, None, b"", [])], base_offset=1)
    with pytest.raises(KafkaError, match=f"INVALID_TIMESTAMP: t-3 at offset 1: .* {when} ms"):
        timestamps(good + bad)
    assert timestamps(good + bad, overflow_is_null=True) == [5_000, None]
    stamped = bytearray(good)
    stamp_log_append_time(stamped, next(iterate_batches(stamped)), when)
    with pytest.raises(KafkaError, match=f"t-3 at offset 0: the timestamp {when} ms"):
        timestamps(bytes(stamped))
    no_times = pa.schema([SCHEMA.field("offset")])
    assert [b.num_rows for b in decode_to_arrow(good + bad, EVERYTHING, no_times)] == [2]
