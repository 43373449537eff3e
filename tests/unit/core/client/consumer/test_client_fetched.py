"""From fetched bytes to records: whole batches, markers, aborted transactions."""

from typing import Any

import pytest

from minikafka.core.client.consumer.fetched import ConsumerRecord, FetchedChunk, ReadPosition
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.protocol.records.record import Record

TP = TopicPartition("t", 3)


def batch(base_offset: int, *values: bytes, **more: Any) -> bytes:
    records = [(1_000 + i, b"k", value, [("h", None)]) for i, value in enumerate(values)]
    return build_batch(records, base_offset=base_offset, **more)


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytes:
    key, value = encode_end_txn_marker(EndTxnMarker(kind, 0))
    return build_batch(
        [(0, key, value, [])],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def transactional(offset: int, producer_id: int, *values: bytes) -> bytes:
    return batch(offset, *values, producer_id=producer_id, producer_epoch=0, transactional=True)


def fetched_records(
    tp: TopicPartition,
    data: bytes,
    position: int,
    aborted: list[tuple[int, int]] | None = None,
    check_crcs: bool = True,
) -> tuple[list[ConsumerRecord], int]:
    """All of a chunk, taken three at a time."""
    chunk = FetchedChunk(tp, data, ReadPosition(position), aborted or [], check_crcs)
    records: list[ConsumerRecord] = []
    place = ReadPosition(position)
    while not chunk.is_used_up:
        taken, after = chunk.take(3)
        records += taken
        place = after or place
    assert place == chunk.end or not data
    return records, place.offset


def values(data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None) -> Any:
    records, next_position = fetched_records(TP, data, position, aborted or [])
    return [(record.offset, record.value) for record in records], next_position


def test_a_record_has_all_its_fields() -> None:
    (record,), position = fetched_records(TP, batch(7, b"v", leader_epoch=5), 7)
    assert record == ("t", 3, 7, 1_000, b"k", b"v", [("h", None)], 5)
    assert position == 8


@pytest.mark.parametrize("codec", list(Compression))
def test_records_before_the_position_are_dropped(codec: Compression) -> None:
    data = batch(10, b"a", b"b", b"c", compression=codec) + batch(13, b"d", compression=codec)
    assert values(data, 11) == ([(11, b"b"), (12, b"c"), (13, b"d")], 14)
    assert values(data, 13) == ([(13, b"d")], 14)


def test_a_torn_last_batch_waits_for_the_next_fetch() -> None:
    data = batch(0, b"a") + batch(1, b"b")[:-3]
    assert values(data) == ([(0, b"a")], 1)
    assert values(b"", 5) == ([], 5)


def test_the_position_moves_on_over_gaps_and_markers() -> None:
    compacted = build_batch(
        [Record(4, 0, b"k", b"v", []), Record(9, 0, b"k", b"w", [])], base_offset=2
    )
    data = compacted + marker(10, 1, ControlRecordType.COMMIT)
    assert values(data, 5) == ([(9, b"w")], 11)


def test_a_wrong_crc_is_an_error() -> None:
    data = bytearray(batch(0, b"abc"))
    data[-2] ^= 1
    with pytest.raises(KafkaError) as caught:
        fetched_records(TP, bytes(data), 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert fetched_records(TP, bytes(data), 0, check_crcs=False)[1] == 1


def test_aborted_transactions_are_hidden_and_others_interleaved_are_not() -> None:
    data = (
        transactional(0, 1, b"aborted")
        + transactional(1, 2, b"committed")
        + batch(2, b"plain")
        + transactional(3, 1, b"aborted too")
        + marker(4, 1, ControlRecordType.ABORT)
        + transactional(5, 1, b"second try")
        + marker(6, 2, ControlRecordType.COMMIT)
        + marker(7, 1, ControlRecordType.COMMIT)
    )
    assert values(data, aborted=[(1, 0)]) == (
        [(1, b"committed"), (2, b"plain"), (5, b"second try")],
        8,
    )
    # Read uncommitted: no list comes with the fetch, and only the markers are hidden.
    assert [offset for offset, _ in values(data)[0]] == [0, 1, 2, 3, 5]


def test_a_producer_may_abort_twice_in_one_fetch() -> None:
    data = (
        transactional(0, 1, b"x")
        + marker(1, 1, ControlRecordType.ABORT)
        + transactional(2, 1, b"y")
        + marker(3, 1, ControlRecordType.ABORT)
        + transactional(4, 1, b"z")
    )
    assert values(data, aborted=[(1, 2), (1, 0)]) == ([(4, b"z")], 5)


def test_records_before_a_broken_batch_come_first() -> None:
    data = batch(0, b"a", b"b") + b"?" * 100
    chunk = FetchedChunk(TP, data, ReadPosition(0))
    assert [record.offset for record in chunk.take(9)[0]] == [0, 1]
    for _ in range(2):
        with pytest.raises(KafkaError):
            chunk.take(9)
    assert chunk.end.offset == 2


def test_position_advances_with_the_records_taken() -> None:
    data = batch(4, b"a", b"b", leader_epoch=2) + batch(6, b"c", leader_epoch=3)
    chunk = FetchedChunk(TP, data, ReadPosition(5, 1))
    assert chunk.end == (7, 3)
    assert chunk.take(1)[1] == (6, 2)
    assert chunk.take(1)[1] == (7, 3)
    assert chunk.is_used_up
    assert FetchedChunk(TP, b"", ReadPosition(5, 1)).end == (5, 1)


def test_batches_are_handed_out_in_parts() -> None:
    chunk = FetchedChunk(TP, batch(0, b"a", b"b", b"c") + batch(3, b"d", b"e"), ReadPosition(0))
    for offsets in ([0, 1], [2, 3], [4]):
        assert not chunk.is_used_up
        taken, place = chunk.take(2)
        assert [record.offset for record in taken] == offsets
        assert place == (offsets[-1] + 1, -1)
    assert chunk.is_used_up


def test_records_before_a_batch_with_a_wrong_crc_come_first() -> None:
    broken = bytearray(batch(1, b"b"))
    broken[-2] ^= 1
    chunk = FetchedChunk(TP, batch(0, b"a") + bytes(broken), ReadPosition(0))
    taken, place = chunk.take(9)
    assert ([record.offset for record in taken], place) == ([0], (1, -1))
    with pytest.raises(KafkaError):
        chunk.take(9)


@pytest.mark.parametrize(
    "data",
    [
        batch(0, b"a", b"b", leader_epoch=2) + batch(2, b"bad", b"d", leader_epoch=3),
        batch(0, b"a", b"b", b"bad", b"d", leader_epoch=2),
    ],
    ids=["of the batch before", "of the same batch"],
)
def test_records_before_one_that_cannot_be_converted_come_first(data: bytes) -> None:
    def convert(record: ConsumerRecord) -> ConsumerRecord:
        if record.value == b"bad":
            raise KafkaError(ErrorCode.INVALID_RECORD)
        return record

    chunk = FetchedChunk(TP, data, ReadPosition(0), convert=convert)
    taken, place = chunk.take(9)
    assert ([record.offset for record in taken], place) == ([0, 1], (2, 2))
    with pytest.raises(KafkaError):
        chunk.take(9)


@pytest.mark.parametrize("first", [0, 4])
def test_a_chunk_that_ends_before_its_start_moves_nothing(first: int) -> None:
    chunk = FetchedChunk(TP, batch(first, b"a", leader_epoch=2), ReadPosition(5, 1))
    assert chunk.end == (5, 1)
    assert chunk.take(9) == ([], None)
    assert chunk.is_used_up


def test_only_the_transactional_batches_of_a_producer_are_aborted() -> None:
    plain = batch(1, b"plain", producer_id=1, producer_epoch=0)
    data = transactional(0, 1, b"x") + plain + marker(2, 1, ControlRecordType.ABORT)
    assert values(data, aborted=[(1, 0)]) == ([(1, b"plain")], 3)


def test_nothing_but_an_abort_marker_ends_an_aborted_transaction() -> None:
    unknown = build_batch(
        [(0, b"\0\0\0\x63", b"\0\0\0\0\0\0", [])],
        base_offset=2,
        producer_id=1,
        producer_epoch=0,
        transactional=True,
        control=True,
    )
    data = (
        transactional(0, 1, b"x")
        + marker(1, 1, ControlRecordType.COMMIT)
        + unknown
        + transactional(3, 1, b"y")
        + marker(4, 1, ControlRecordType.ABORT)
    )
    assert values(data, aborted=[(1, 0)]) == ([], 5)
