"""Codecs: levels as in Kafka's settings, and a limit on what comes out of few bytes."""

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.buffer import write_varint
from minikafka.protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    CorruptRecordError,
    RecordBatch,
    parse_batch,
)
from minikafka.protocol.records.builder import assemble_batch
from minikafka.protocol.records.compression import (
    Compression,
    DecompressedTooLarge,
    compress,
    decompress,
)

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"".join(b"line %d of some text that repeats itself\n" % (n * n) for n in range(5_000))


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, [1, 9]),
        (Compression.LZ4, [9, 17]),
        (Compression.ZSTD, [-131072, 3, 19]),
    ],
)
def test_levels_are_heeded(codec: Compression, levels: list[int]) -> None:
    sizes = []
    for level in levels:
        data = compress(codec, TEXT, level)
        assert decompress(codec, data) == TEXT
        sizes.append(len(data))
    assert sizes[0] > sizes[-1]


def test_the_default_levels_are_kafkas() -> None:
    assert compress(Compression.GZIP, TEXT) == compress(Compression.GZIP, TEXT, -1)
    assert compress(Compression.GZIP, TEXT) == compress(Compression.GZIP, TEXT, 6)
    assert compress(Compression.LZ4, TEXT) == compress(Compression.LZ4, TEXT, 9)
    assert compress(Compression.ZSTD, TEXT) == compress(Compression.ZSTD, TEXT, 3)
    assert compress(Compression.SNAPPY, TEXT) == compress(Compression.SNAPPY, TEXT, 7)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_does_not_go_off(codec: Compression) -> None:
    limit = 3_000_000
    assert decompress(codec, compress(codec, bytes(limit)), limit) == bytes(limit)
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, compress(codec, bytes(limit + 1)), limit)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 1_000_000])
def test_whatever_the_blow_up(codec: Compression, size: int) -> None:
    for plain in (bytes(size), TEXT[:size]):
        assert decompress(codec, compress(codec, plain)) == plain


@pytest.mark.mission("SAFE-80")
@pytest.mark.parametrize("codec", CODECS)
def test_the_first_bytes_of_much_are_checked_before_the_rest_is_made(codec: Compression) -> None:
    plain = bytes(range(251)) * 40_000
    data = compress(codec, plain)
    starts: list[bytes] = []
    assert decompress(codec, data, check_start=lambda start: starts.append(bytes(start))) == plain
    (start,) = starts
    assert len(start) >= 32 * 1024
    assert plain.startswith(start)

    def refuse(start: object) -> None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "so it is")

    with pytest.raises(KafkaError, match="so it is"):
        decompress(codec, data, check_start=refuse)


@pytest.mark.mission("SAFE-80")
@pytest.mark.parametrize("codec", CODECS)
def test_records_that_begin_with_nonsense_are_not_decompressed(codec: Compression) -> None:
    zeros = compress(codec, bytes(40_000_000))
    with pytest.raises(CorruptRecordError, match="a record of 0 bytes"):
        batch_of(codec, zeros).plain_records(30_000_000)
    with pytest.raises(CorruptRecordError, match="the length of the first record"):
        batch_of(codec, compress(codec, b"\xff" * 20_000_000)).plain_records()
    huge = write_varint(10_000_001) + bytes(10_000_000)
    with pytest.raises(DecompressedTooLarge):
        batch_of(codec, compress(codec, huge)).plain_records(10_000_000)


def batch_of(codec: Compression, payload: bytes) -> RecordBatch:
    made = assemble_batch(
        payload,
        base_offset=0,
        leader_epoch=0,
        attributes=codec,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
    return parse_batch(made, 0)


@pytest.mark.parametrize("level", [1, 9, 17])
def test_lz4_keeps_to_blocks_that_javas_reader_takes(level: int) -> None:
    """Version 1, independent blocks of 64 KB, no checksums, whatever the level."""
    noise = bytes(n * n % 251 for n in range(70_000))
    for plain in (TEXT, noise, b"ab"):
        data = compress(Compression.LZ4, plain, level)
        assert data.startswith(b"\x04\x22\x4d\x18\x60\x40\x82")
        assert decompress(Compression.LZ4, data) == plain
