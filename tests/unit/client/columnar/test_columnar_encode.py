"""The vectorised encoder writes what the plain decoder reads; keys go where Java sends them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from minikafka.client.columnar import encode  # noqa: E402
from minikafka.client.columnar.encode import ProducerStamp, encode_batches  # noqa: E402
from minikafka.client.columnar.partitioning import buffers_of, partitions_of_keys  # noqa: E402
from minikafka.client.columnar.partitioning import murmur2 as murmur2_of_all  # noqa: E402
from minikafka.core.client.producer.partitioner import murmur2, partition_for_key  # noqa: E402
from minikafka.protocol.records.batch import crc_is_valid, iterate_batches  # noqa: E402
from minikafka.protocol.records.compression import Compression  # noqa: E402
from minikafka.protocol.records.record import decode_records  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
contents = st.one_of(st.none(), st.binary(max_size=12), st.binary(min_size=60, max_size=70))
header_lists = st.one_of(
    st.none(),
    st.lists(st.fixed_dictionaries({"key": st.text(max_size=4), "value": contents}), max_size=3),
)
rows = st.lists(st.tuples(contents, contents, header_lists), min_size=1, max_size=150)


def columns_of(messages: list[Any]) -> dict[str, Any]:
    keys, values, headers = zip(*messages, strict=True)
    return {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers, HEADERS),
    }


@settings(max_examples=60, deadline=None)
@given(rows, st.sampled_from([200, 600, 1 << 19]), st.sampled_from(Compression), st.integers(0, 3))
@pytest.mark.mission("SPK-3")
def test_the_plain_decoder_reads_it(
    messages: list[Any], batch_bytes: int, codec: Compression, skip: int
) -> None:
    columns = {name: column[skip:] for name, column in columns_of(messages).items()}
    messages = messages[skip:]
    batches = list(encode_batches(columns, 1234, compression=codec, batch_bytes=batch_bytes))
    got = []
    for batch in batches:
        (parsed,) = iterate_batches(batch.data)
        assert crc_is_valid(parsed)
        assert parsed.record_count == batch.record_count == parsed.last_offset_delta + 1
        assert parsed.max_timestamp == 1234
        if codec is Compression.NONE and batch.record_count > 1:
            assert len(batch.data) <= batch_bytes
        records = list(decode_records(batch.data))
        assert [record.offset for record in records] == list(range(len(records)))
        got += records
    expected = [
        (1234, key, value, [(h["key"], h["value"]) for h in headers or []])
        for key, value, headers in messages
    ]
    assert [tuple(record)[1:] for record in got] == expected


def test_encoded_in_several_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "GROUP_BYTES", 1000)
    values = [b"%d" % number for number in range(500)]
    batches = encode_batches({"value": pa.array(values)}, 1, batch_bytes=300)
    assert [r.value for each in batches for r in decode_records(each.data)] == values


def test_sequences_go_on_from_batch_to_batch_and_wrap() -> None:
    columns = {"value": pa.array([b"x" * 50] * 10)}
    stamp = ProducerStamp(7, 2, transactional=True)
    batches = list(encode_batches(columns, 1, stamp, 2**31 - 3, batch_bytes=300))
    expected = 2**31 - 3
    for batch in batches:
        (parsed,) = iterate_batches(batch.data)
        assert (parsed.producer_id, parsed.producer_epoch, parsed.is_transactional) == (7, 2, True)
        assert parsed.base_sequence == expected
        expected = (expected + parsed.record_count) % 2**31
        assert batch.next_sequence == expected
    assert len(batches) > 2


def test_text_columns_are_utf8() -> None:
    columns = {"key": pa.array(["schlüssel", None]), "value": pa.array(["wert", "ß"])}
    (batch,) = encode_batches(columns, 1)
    assert [(r.key, r.value) for r in decode_records(batch.data)] == [
        ("schlüssel".encode(), b"wert"),
        (None, "ß".encode()),
    ]


def test_a_header_without_a_key_is_refused() -> None:
    columns = {
        "value": pa.array([b"x"]),
        "headers": pa.array([[{"key": None, "value": b""}]], HEADERS),
    }
    with pytest.raises(ValueError, match="a header without a key"):
        list(encode_batches(columns, 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=60), st.integers(0, 5))
@pytest.mark.mission("SPK-3")
def test_murmur2_equals_the_one_of_the_client(keys: list[bytes], skip: int) -> None:
    column = pa.array(keys, pa.binary())[skip:]
    data, bounds = buffers_of(column)
    hashes = murmur2_of_all(data, bounds[:-1], bounds[1:] - bounds[:-1])
    assert [int(h) for h in hashes] == [murmur2(key) & 0xFFFFFFFF for key in keys[skip:]]
    assert [int(p) for p in partitions_of_keys(column, 7)] == [
        partition_for_key(key, 7) for key in keys[skip:]
    ]
