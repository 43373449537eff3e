"""Codecs, and the record formats of magic 0, 1 and 2."""

from __future__ import annotations

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.batch import crc_is_valid
from minikafka.protocol.records.compression import Compression
from minikafka.protocol.records.legacy import encode_message_set, inner_messages, iterate_messages
from minikafka.protocol.records.record import Record
from minikafka.testing.conformance.check import Check, check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import Subject, records_in, values_in

VALUE = b"abc" * 1000
FIRST_ZSTD_PRODUCE, FIRST_ZSTD_FETCH = 7, 10


def _codec_is_kept(codec: Compression) -> Check:
    @check("KIP-110" if codec is Compression.ZSTD else "CompressionType")
    async def rule(s: Subject) -> None:
        """A producer with this codec could not write, or consumers would read garbage."""
        is_zstd = codec is Compression.ZSTD
        s.version(ApiKey.PRODUCE, FIRST_ZSTD_PRODUCE if is_zstd else 3)
        topic = await s.topic()
        await s.produce(topic, VALUE, VALUE, compression=codec)
        batches = await s.batches(topic)
        expect("the codecs of the batches", [each.compression for each in batches], [codec])
        expect_true(crc_is_valid(batches[0]), "the CRC of the batch is wrong")
        expect_true(values_in(batches) == [VALUE, VALUE], "the values are others")

    return Check(
        f"records of {codec.name.lower()} stay as they are",
        rule.source,
        rule.consequence,
        rule.rule,
    )


none, gzip, snappy, lz4, zstd = map(_codec_is_kept, Compression)


@check("KIP-110, compression.type")
async def a_topic_may_have_a_codec_of_its_own(s: Subject) -> None:
    """An operator could not save disk and network without the producers."""
    topic = await s.topic(compression_type="gzip")
    await s.produce(topic, VALUE)
    (batch,) = await s.batches(topic)
    expect("the codec", batch.compression, Compression.GZIP)
    expect_true(values_in([batch]) == [VALUE], "the value is another")


@check("compression.type")
async def a_topic_may_be_uncompressed(s: Subject) -> None:
    """An operator could not serve consumers that lack a codec."""
    topic = await s.topic(compression_type="uncompressed")
    await s.produce(topic, VALUE, compression=Compression.GZIP)
    (batch,) = await s.batches(topic)
    expect("the codec", batch.compression, Compression.NONE)


@check("KIP-110, ProduceRequest.validateRecords")
async def zstd_is_refused_from_a_producer_before_it(s: Subject) -> None:
    """Consumers that do not know zstd would break on the topic."""
    s.version(ApiKey.PRODUCE, FIRST_ZSTD_PRODUCE)
    result = await s.try_produce(
        await s.topic(), b"v", versions=(3, 6), compression=Compression.ZSTD
    )
    expect_error(result.error_code, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@check("KIP-110")
async def zstd_is_not_sent_to_a_consumer_before_it(s: Subject) -> None:
    """An old consumer would break instead of reporting what is wrong."""
    s.version(ApiKey.PRODUCE, FIRST_ZSTD_PRODUCE)
    s.version(ApiKey.FETCH, FIRST_ZSTD_FETCH)
    s.version(ApiKey.FETCH, (0, 3))  # Kafka 4 trusts that every consumer knows zstd
    topic = await s.topic(compression_type="zstd")
    await s.produce(topic, b"v", compression=Compression.ZSTD)
    found = (await s.fetch(topic, versions=(4, FIRST_ZSTD_FETCH - 1))).error_code
    expect_error(found, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _legacy(s: Subject, magic: int, compression: Compression = Compression.NONE) -> bytes:
    records = [Record(i, s.time_ms + i, b"k%d" % i, b"v%d" % i, []) for i in range(3)]
    return encode_message_set(records, magic, compression)


def _is_converted_up(magic: int, versions: tuple[int, int], codec: Compression) -> Check:
    words = (
        f"magic {magic}" if codec is Compression.NONE else f"magic {magic} in {codec.name.lower()}"
    )

    async def rule(s: Subject) -> None:
        topic = await s.topic()
        await s.produce(topic, data=_legacy(s, magic, codec), versions=versions)
        batches = await s.batches(topic)
        expect("the offsets", [each.offset for each in records_in(batches)], [0, 1, 2])
        expect("the values", values_in(batches), [b"v0", b"v1", b"v2"])
        expect("the magic of the batches", {each.magic for each in batches}, {2})

    consequence = "An old producer could not write for new consumers."
    return Check(f"records of {words} become batches", "LogValidator, KIP-98", consequence, rule)


up_0 = _is_converted_up(0, (0, 1), Compression.NONE)
up_0_gzip = _is_converted_up(0, (0, 1), Compression.GZIP)
up_1 = _is_converted_up(1, (2, 2), Compression.NONE)
up_1_gzip = _is_converted_up(1, (2, 2), Compression.GZIP)


def _is_converted_down(magic: int, versions: tuple[int, int]) -> Check:
    async def rule(s: Subject) -> None:
        s.version(ApiKey.FETCH, versions)
        topic = await s.topic()
        await s.produce(topic, b"v0", b"v1")
        partition = accepted(await s.fetch(topic, versions=versions))
        messages = list(iterate_messages(partition.records))
        inner = [each for m in messages for each in (inner_messages(m) if m.compression else [m])]
        expect("the magic", {each.magic for each in inner}, {magic})
        expect("the values", [each.value for each in inner], [b"v0", b"v1"])
        expect("the offsets", [each.offset for each in inner], [0, 1])
        expect_true(all(each.crc_is_valid for each in messages), "a CRC is wrong")

    name = f"an old consumer gets messages of magic {magic}"
    consequence = "An old consumer could not read what new producers write."
    return Check(name, "LazyDownConversionRecords, KIP-283", consequence, rule)


down_0, down_1 = _is_converted_down(0, (0, 1)), _is_converted_down(1, (2, 3))


@check("ProduceRequest.validateRecords, KIP-98")
async def messages_of_magic_1_are_refused_from_new_producers(s: Subject) -> None:
    """A broker would store records without a producer id where one was promised."""
    s.version(ApiKey.PRODUCE, FIRST_ZSTD_PRODUCE)  # Kafka 2.0 closes the connection
    topic = await s.topic()
    found = (await s.try_produce(topic, data=_legacy(s, 1))).error_code
    expect_error(found, ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
