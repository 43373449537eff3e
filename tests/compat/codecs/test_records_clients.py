"""Record batches against the record code of kafka-python and aiokafka, with every codec."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_records
import lz4.frame
import pytest
import snappy
import zstandard
from aiokafka.record.memory_records import MemoryRecords as AiokafkaMemoryRecords
from kafka.record.memory_records import MemoryRecords as KafkaMemoryRecords

from minikafka.protocol.records.batch import crc_is_valid, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression, compress, decompress
from minikafka.protocol.records.record import Record, decode_records

T0 = 1_700_000_000_000
MESSAGES: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (T0, b"key", b"value " * 50, []),
    (T0 + 1, None, b"", [("trace", b"\x00\x01"), ("none", None), ("é", b"")]),
    (T0 - 5_000, b"", None, []),
    (T0 + 2**33, b"k" * 200, b"v" * 70_000, []),
]
RECORDS = [Record(i, *m) for i, m in enumerate(MESSAGES)]
CODECS = list(Compression)


class Client(NamedTuple):
    name: str
    builder: Callable[..., Any]
    memory_records: Callable[[bytes], Any]
    leader_epoch: int  # what it writes into a field that is the broker's


CLIENTS = [
    Client("kafka-python", kafka_records.DefaultRecordBatchBuilder, KafkaMemoryRecords, 0),
    Client("aiokafka", aiokafka_records.DefaultRecordBatchBuilder, AiokafkaMemoryRecords, -1),
    Client(
        "aiokafka, pure",
        aiokafka_records._DefaultRecordBatchBuilderPy,
        AiokafkaMemoryRecords,
        -1,
    ),
]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda c: c.name)
each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.name)
pytestmark = pytest.mark.compat


def built_by(client: Client, codec: Compression, **fields: Any) -> bytes:
    settings = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | fields
    builder = client.builder(
        magic=2,
        compression_type=int(codec),
        is_transactional=settings.pop("is_transactional", 0),
        batch_size=1_000_000,
        **settings,
    )
    for offset, (timestamp, key, value, headers) in enumerate(MESSAGES):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def read_by(client: Client, data: bytes) -> Iterator[Record]:
    batches = client.memory_records(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for r in batch:
            yield Record(r.offset, r.timestamp, r.key, r.value, [(n, v) for n, v in r.headers])


@each_client
@each_codec
def test_batches_built_by_other_clients_are_decoded(client: Client, codec: Compression) -> None:
    data = built_by(client, codec)
    (batch,) = parse_batches(data)
    assert crc_is_valid(batch)
    assert batch.compression is codec
    assert (batch.record_count, batch.last_offset) == (len(MESSAGES), len(MESSAGES) - 1)
    assert batch.max_timestamp == max(m[0] for m in MESSAGES)
    assert list(decode_records(data)) == RECORDS


@each_client
@each_codec
def test_other_clients_decode_batches_built_here(client: Client, codec: Compression) -> None:
    data = build_batch(MESSAGES, compression=codec)
    data += build_batch(MESSAGES, compression=codec, base_offset=len(MESSAGES))
    again = [r._replace(offset=r.offset + len(MESSAGES)) for r in RECORDS]
    assert list(read_by(client, data)) == RECORDS + again


@each_client
def test_plain_batches_are_the_same_bytes(client: Client) -> None:
    assert built_by(client, Compression.NONE) == build_batch(
        MESSAGES, leader_epoch=client.leader_epoch
    )
    fields: dict[str, Any] = {"producer_id": 2**40, "producer_epoch": 7, "base_sequence": 1000}
    theirs = built_by(client, Compression.NONE, is_transactional=1, **fields)
    epoch = client.leader_epoch
    assert theirs == build_batch(MESSAGES, transactional=True, leader_epoch=epoch, **fields)


PLAIN = b"a line that repeats itself\n" * 10_000


def test_other_codec_libraries_read_ours() -> None:
    assert gzip.decompress(compress(Compression.GZIP, PLAIN)) == PLAIN
    assert lz4.frame.decompress(compress(Compression.LZ4, PLAIN)) == PLAIN
    zstd = zstandard.ZstdDecompressor().decompressobj()
    assert zstd.decompress(compress(Compression.ZSTD, PLAIN)) == PLAIN


@pytest.mark.parametrize("linked", [True, False])
def test_ours_read_other_codec_libraries(linked: bool) -> None:
    assert decompress(Compression.GZIP, gzip.compress(PLAIN)) == PLAIN
    frame = lz4.frame.compress(PLAIN, block_linked=linked, content_checksum=True)
    assert decompress(Compression.LZ4, frame) == PLAIN
    assert decompress(Compression.ZSTD, zstandard.compress(PLAIN)) == PLAIN
    assert decompress(Compression.SNAPPY, snappy.compress(PLAIN)) == PLAIN
