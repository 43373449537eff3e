"""Message sets of magic 0 and 1 against the record code of kafka-python and aiokafka."""

from typing import Any

import aiokafka.record.legacy_records as aiokafka_records
import kafka.record.legacy_records as kafka_records
import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaMemoryRecords
from kafka.record.memory_records import MemoryRecords as KafkaMemoryRecords

from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import (
    encode_message_set,
    iterate_messages,
)
from minikafka.protocol.records.record import Record
from tests.support.protocol.message_sets import decode_message_set

T0 = 1_700_000_000_000
RECORDS = [
    Record(0, T0, b"key", b"value " * 50, []),
    Record(1, T0 + 1, None, b"", []),
    Record(2, T0 - 5_000, b"", None, []),
    Record(3, T0 + 2**33, b"k" * 200, b"v" * 70_000, []),
]
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
CLIENTS = [(kafka_records, KafkaMemoryRecords), (aiokafka_records, AiokafkaMemoryRecords)]
pytestmark = pytest.mark.compat


def expected(magic: int) -> list[Record]:
    return RECORDS if magic else [r._replace(timestamp=-1) for r in RECORDS]


@pytest.mark.parametrize("client", CLIENTS, ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.name)
@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_batches_are_readable_in_both_directions(
    client: Any, codec: Compression, magic: int
) -> None:
    if magic == 0 and codec is Compression.LZ4:
        pytest.skip("they have no LZ4 frames of that age; librdkafka does")
    legacy, memory_records = client
    builder = legacy.LegacyRecordBatchBuilder(magic, int(codec), 1_000_000)
    for record in RECORDS:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    theirs = bytes(builder.build())
    assert all(m.crc_is_valid for m in iterate_messages(theirs))
    assert list(decode_message_set(theirs)) == expected(magic)
    ours = encode_message_set(RECORDS, magic, codec)
    if codec is Compression.NONE:
        assert ours == theirs
    found = []
    batches = memory_records(ours)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [
            Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, [])
            for r in batch
        ]
    assert found == expected(magic)
