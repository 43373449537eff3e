"""Which batches a log accepts from a producer and a leader, and how it refuses the others."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.log.append import AppendOrigin, UnexpectedAppendOffset
from minikafka.core.log.config import LogConfig, roll_jitter_ms
from minikafka.core.log.record_validation import OpeningBudget
from minikafka.core.log.validation import (
    LONG_COMPRESSION_BYTES,
    LONG_CONVERSION_BYTES,
    LONG_RECORD_COUNT,
    MAX_OFFSET,
    follower_batches,
    is_long_work,
    leader_batch,
    prepare_batch,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import BATCH_OVERHEAD, crc_is_valid, crc_of
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.compression import Compression, DecompressedTooLarge
from minikafka.protocol.records.legacy import encode_message
from minikafka.protocol.records.record import decode_records

NOW = 1_700_000_000_000
CONFIG = LogConfig()


def batch(count: int = 1, timestamp: int = NOW, key: bytes | None = b"k", **fields: Any) -> bytes:
    return build_batch([(timestamp, key, b"value", []) for _ in range(count)], **fields)


def with_field(data: bytes, offset: int, layout: str, *values: int) -> bytes:
    """``data`` with a field changed and a CRC that is right again."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, offset, *values)
    struct.pack_into(">I", changed, 17, crc_of(changed, 0, len(changed)))
    return bytes(changed)


def refusal(
    data: bytes, config: LogConfig = CONFIG, origin: AppendOrigin = AppendOrigin.CLIENT
) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        leader_batch(data, config, origin, NOW)
    return caught.value.code


@pytest.mark.parametrize("codec", Compression)
def test_a_sound_batch_is_accepted(codec: Compression) -> None:
    data = batch(3, compression=codec)
    accepted = leader_batch(data, CONFIG, AppendOrigin.CLIENT, NOW)
    assert (accepted.record_count, accepted.size_bytes) == (3, len(data))


def test_exactly_one_batch_may_come() -> None:
    assert refusal(b"") is ErrorCode.INVALID_RECORD
    assert refusal(batch()[:-1]) is ErrorCode.INVALID_RECORD
    assert refusal(batch() + batch()) is ErrorCode.INVALID_RECORD


def test_a_torn_second_batch_is_ignored() -> None:
    data = batch()
    assert leader_batch(data + data[:-1], CONFIG, AppendOrigin.CLIENT, NOW).size_bytes == len(data)


def test_batches_and_messages_do_not_mix() -> None:
    message = encode_message(0, 1, NOW, b"k", b"v")
    assert refusal(batch() + message) is ErrorCode.INVALID_RECORD
    assert refusal(message + batch()) is ErrorCode.INVALID_RECORD


def test_damage_after_the_only_batch_is_corrupt() -> None:
    assert refusal(batch() + with_field(batch(), 16, ">b", 3)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(batch() + with_field(batch(), 8, ">i", 5)) is ErrorCode.CORRUPT_MESSAGE


def test_a_short_batch_is_not_taken_for_an_older_message() -> None:
    with pytest.raises(KafkaError, match="smaller than the minimum allowed overhead"):
        leader_batch(with_field(batch(), 8, ">i", 20), CONFIG, AppendOrigin.CLIENT, NOW)


def test_bytes_that_are_no_batch_are_corrupt() -> None:
    assert refusal(with_field(batch(), 16, ">b", 3)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(with_field(batch(), 8, ">i", 5)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("position", [*range(21, 61), 61, 70])
def test_a_wrong_crc_is_corrupt(position: int) -> None:
    data = bytearray(batch())
    data[position] ^= 1
    assert refusal(bytes(data)) is ErrorCode.CORRUPT_MESSAGE


def test_size_is_limited() -> None:
    data = batch()
    fits = replace(CONFIG, max_message_bytes=len(data))
    assert leader_batch(data, fits, AppendOrigin.CLIENT, NOW)
    too_small = replace(CONFIG, max_message_bytes=len(data) - 1)
    assert refusal(data, too_small) is ErrorCode.MESSAGE_TOO_LARGE


def test_first_of_several_faults_is_reported_as_in_kafka() -> None:
    damaged = bytearray(batch(base_offset=1))
    damaged[-1] ^= 1
    assert refusal(bytes(damaged)) is ErrorCode.INVALID_RECORD
    large = with_field(batch(2), 57, ">i", 9)
    assert refusal(large, replace(CONFIG, max_message_bytes=10)) is ErrorCode.MESSAGE_TOO_LARGE
    damaged = bytearray(large)
    damaged[-1] ^= 1
    assert refusal(bytes(damaged)) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(large) is ErrorCode.INVALID_RECORD


def test_a_bad_header_is_reported_before_a_size_that_just_fits() -> None:
    data = with_field(batch(2), 57, ">i", 9)
    assert refusal(data, replace(CONFIG, max_message_bytes=len(data))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (batch(base_offset=1), "the base offset of an appended batch should be 0, but it is 1"),
        (
            with_field(with_field(batch(), 23, ">i", -1), 57, ">i", 0),
            "a batch with last offset delta -1 and 0 records",
        ),
        (
            with_field(with_field(batch(), 23, ">i", -2), 57, ">i", -1),
            "a batch with last offset delta -2 and -1 records",
        ),
        (with_field(batch(2), 57, ">i", 3), "a batch with last offset delta 1 and 3 records"),
        (batch(control=True), "clients may not write control records"),
        (
            with_field(batch(), 21, ">h", 8),
            "a producer may not set the timestamp type LogAppendTime",
        ),
        (batch(producer_id=7, producer_epoch=0), "sequence number -1 with producer id 7"),
    ],
)
def test_the_error_names_the_invalid_field_of_the_header(data: bytes, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        leader_batch(data, CONFIG, AppendOrigin.CLIENT, NOW)
    assert caught.value.message == sentence


def test_records_of_a_coordinator_are_not_read_without_need() -> None:
    contradictory = with_field(batch(2), 57, ">i", 3)
    accepted = leader_batch(contradictory, CONFIG, AppendOrigin.COORDINATOR, NOW)
    assert accepted.buffer is contradictory


def test_only_batches_that_are_opened_use_the_budget() -> None:
    plain = batch(3)
    payload_bytes = len(plain) - BATCH_OVERHEAD
    budget = OpeningBudget(1000)
    leader_batch(plain, CONFIG, AppendOrigin.CLIENT, NOW, budget)
    assert budget.left == 1000
    compressed = batch(3, compression=Compression.GZIP)
    leader_batch(compressed, CONFIG, AppendOrigin.CLIENT, NOW, budget)
    assert budget.left == 1000 - payload_bytes
    wrong_timestamp = with_field(plain, 35, ">q", NOW + 1)
    leader_batch(wrong_timestamp, CONFIG, AppendOrigin.CLIENT, NOW, budget)
    assert budget.left == 1000 - 2 * payload_bytes


def test_preparation_returns_the_batch_or_the_refusal() -> None:
    data = batch()
    good = prepare_batch(data, CONFIG, NOW, OpeningBudget())
    assert good.accepted() == leader_batch(data, CONFIG, AppendOrigin.CLIENT, NOW)
    strict = replace(CONFIG, max_message_bytes=1)
    bad = prepare_batch(data, strict, NOW, OpeningBudget())
    with pytest.raises(KafkaError) as caught:
        bad.accepted()
    assert caught.value is bad.refusal
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(DecompressedTooLarge):
        prepare_batch(batch(compression=Compression.GZIP), CONFIG, NOW, OpeningBudget(1))


def test_prepared_batch_refers_to_the_copy_of_its_records() -> None:
    lent = bytearray(batch(2))
    copy = bytes(lent)
    prepared = prepare_batch(lent, CONFIG, NOW, OpeningBudget()).in_copy(lent, copy)
    assert prepared.accepted().buffer is copy
    gzip = replace(CONFIG, compression_type="gzip")
    rewritten = prepare_batch(lent, gzip, NOW, OpeningBudget())
    assert rewritten.in_copy(lent, copy) is rewritten
    refused = prepare_batch(lent, replace(CONFIG, max_message_bytes=1), NOW, OpeningBudget())
    assert refused.in_copy(lent, copy) is refused


def test_large_messages_of_older_formats_are_long_work() -> None:
    empty_bytes = len(encode_message(0, 1, NOW, b"k", b""))
    message = encode_message(0, 1, NOW, b"k", bytes(LONG_CONVERSION_BYTES - empty_bytes))
    assert not is_long_work(message, CONFIG)
    assert is_long_work(message + b"x", CONFIG)
    assert not is_long_work(b"", CONFIG)
    assert not is_long_work(batch()[: BATCH_OVERHEAD - 1], CONFIG)


def test_many_records_or_a_change_of_codec_are_long_work() -> None:
    assert not is_long_work(with_field(batch(), 57, ">i", LONG_RECORD_COUNT), CONFIG)
    assert is_long_work(with_field(batch(), 57, ">i", LONG_RECORD_COUNT + 1), CONFIG)
    assert not is_long_work(batch()[:BATCH_OVERHEAD], CONFIG)
    header = with_field(batch(), 57, ">i", LONG_RECORD_COUNT + 1)[:BATCH_OVERHEAD]
    assert is_long_work(header, CONFIG)
    padding = bytes(LONG_COMPRESSION_BYTES - len(batch()))
    at_limit, beyond = batch() + padding, batch() + padding + b"x"
    gzip = replace(CONFIG, compression_type="gzip")
    assert not is_long_work(at_limit, gzip)
    assert is_long_work(beyond, gzip)
    assert not is_long_work(beyond, CONFIG)
    zstd = batch(compression=Compression.ZSTD) + bytes(LONG_COMPRESSION_BYTES)
    assert is_long_work(zstd, gzip)
    assert not is_long_work(zstd, CONFIG)
    assert not is_long_work(with_field(beyond, 21, ">h", 5), gzip)  # no codec has this number


def test_a_client_numbers_records_from_zero() -> None:
    assert refusal(batch(base_offset=1)) is ErrorCode.INVALID_RECORD
    assert leader_batch(batch(base_offset=1), CONFIG, AppendOrigin.COORDINATOR, NOW)


@pytest.mark.parametrize(("delta", "count"), [(0, 0), (0, -1), (1, 3), (2, 2), (-1, 0), (-1, 1)])
def test_offsets_and_count_must_agree(delta: int, count: int) -> None:
    data = with_field(with_field(batch(2), 23, ">i", delta), 57, ">i", count)
    assert refusal(data) is ErrorCode.INVALID_RECORD


def test_control_batches_are_not_for_clients() -> None:
    assert refusal(batch(control=True)) is ErrorCode.INVALID_RECORD
    assert leader_batch(batch(control=True), CONFIG, AppendOrigin.COORDINATOR, NOW).is_control


def test_a_producer_id_needs_a_sequence() -> None:
    for producer_id in (0, 1):
        data = batch(producer_id=producer_id, producer_epoch=0)
        assert refusal(data) is ErrorCode.INVALID_RECORD
    assert leader_batch(data, CONFIG, AppendOrigin.COORDINATOR, NOW).producer_id == 1
    first = batch(producer_id=1, producer_epoch=0, base_sequence=0)
    assert leader_batch(first, CONFIG, AppendOrigin.CLIENT, NOW).base_sequence == 0


def test_codecs_must_exist() -> None:
    assert refusal(with_field(batch(), 21, ">h", 5)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_log_append_time_is_the_brokers_to_set() -> None:
    flagged = with_field(batch(), 21, ">h", 8)
    assert refusal(flagged) is ErrorCode.INVALID_TIMESTAMP
    by_broker = replace(CONFIG, message_timestamp_type="LogAppendTime")
    assert refusal(flagged, by_broker) is ErrorCode.INVALID_TIMESTAMP


def test_timestamps_are_limited() -> None:
    config = replace(
        CONFIG, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=100
    )
    for good in (NOW, NOW - 1000, NOW + 100, -1):
        assert leader_batch(batch(timestamp=good), config, AppendOrigin.CLIENT, NOW)
    for bad in (NOW - 1001, NOW + 101):
        assert refusal(batch(timestamp=bad), config) is ErrorCode.INVALID_TIMESTAMP
    hidden = build_batch([(NOW, None, b"", []), (NOW - 5000, None, b"", []), (NOW, None, b"", [])])
    assert refusal(hidden, config) is ErrorCode.INVALID_TIMESTAMP
    before = replace(CONFIG, message_timestamp_before_max_ms=1000)
    assert refusal(batch(timestamp=NOW - 1001), before) is ErrorCode.INVALID_TIMESTAMP
    after = replace(CONFIG, message_timestamp_after_max_ms=100)
    assert refusal(batch(timestamp=NOW + 101), after) is ErrorCode.INVALID_TIMESTAMP
    by_broker = replace(config, message_timestamp_type="LogAppendTime")
    assert leader_batch(hidden, by_broker, AppendOrigin.CLIENT, NOW)


def test_compacted_topics_need_keys() -> None:
    config = replace(CONFIG, cleanup_policy="compact,delete")
    assert leader_batch(batch(), config, AppendOrigin.CLIENT, NOW)
    assert refusal(batch(key=None), config) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", [Compression.NONE, Compression.LZ4])
def test_topics_may_want_their_own_codec(name: str, source: Compression) -> None:
    config = replace(CONFIG, compression_type=name)
    fields: dict[str, Any] = {"producer_id": 4, "producer_epoch": 1, "base_sequence": 9}
    data = batch(5, compression=source, **fields)
    accepted = leader_batch(data, config, AppendOrigin.CLIENT, NOW)
    assert accepted.compression.name.lower() == name.replace("uncompressed", "none")
    assert crc_is_valid(accepted)
    assert accepted.base_sequence == 9
    assert list(decode_records(accepted.buffer)) == list(decode_records(data))
    if accepted.compression is source:
        assert accepted.buffer is data


def test_recompression_leaves_control_batches_and_watches_the_size() -> None:
    zeros = build_batch([(NOW, None, bytes(10_000), [])], compression=Compression.GZIP)
    config = replace(CONFIG, compression_type="uncompressed", max_message_bytes=5000)
    assert refusal(zeros, config) is ErrorCode.MESSAGE_TOO_LARGE
    size = leader_batch(zeros, replace(config, max_message_bytes=20_000), AppendOrigin.CLIENT, NOW)
    fits = replace(config, max_message_bytes=size.size_bytes)
    assert leader_batch(zeros, fits, AppendOrigin.CLIENT, NOW).size_bytes == size.size_bytes
    config = replace(CONFIG, compression_type="gzip")
    marker = leader_batch(batch(control=True), config, AppendOrigin.COORDINATOR, NOW)
    assert marker.compression is Compression.NONE


def test_a_leaders_batches_come_in_any_number() -> None:
    data = batch(base_offset=5) + batch(2, base_offset=6, compression=Compression.ZSTD)
    assert [b.base_offset for b in follower_batches(data)] == [5, 6]
    assert [b.base_offset for b in follower_batches(data[:-1])] == [5]
    assert follower_batches(b"") == []
    assert [b.base_offset for b in follower_batches(batch())] == [0]


@pytest.mark.parametrize("base_offset", [-1, MAX_OFFSET + 1])
def test_offsets_that_no_log_has_are_refused(base_offset: int) -> None:
    assert follower_batches(batch(base_offset=MAX_OFFSET))
    with pytest.raises(KafkaError, match="out of order"):
        follower_batches(with_field(batch(), 0, ">q", base_offset))


def test_a_batch_cannot_end_before_it_begins() -> None:
    data = with_field(batch(), 23, ">i", -1)
    with pytest.raises(KafkaError, match="out of order"):
        follower_batches(data)
    with pytest.raises(KafkaError, match="last offset delta"):
        leader_batch(data, CONFIG, AppendOrigin.COORDINATOR, NOW)


def test_a_leaders_batches_are_checked_too() -> None:
    good, bad = batch(base_offset=5), bytearray(batch(base_offset=6))
    bad[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        follower_batches(good + bad)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    for first, second in ((5, 5), (5, 4)):
        with pytest.raises(KafkaError, match="out of order"):
            follower_batches(batch(base_offset=first) + batch(base_offset=second))


def test_append_below_the_log_end_reports_both_offsets() -> None:
    error = UnexpectedAppendOffset(5, 7, 9)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (error.first_offset, error.last_offset) == (5, 7)
    assert "first offset 5 of an append is below the log end offset 9" in str(error)


@pytest.mark.parametrize(("jitter_ms", "segment_ms"), [(50, 1000), (1000, 50)])
def test_segments_of_many_logs_are_not_rolled_all_at_once(jitter_ms: int, segment_ms: int) -> None:
    config = replace(CONFIG, segment_jitter_ms=jitter_ms, segment_ms=segment_ms)
    taken_off = {roll_jitter_ms(config, f"t-{n}/0.log") for n in range(1000)}
    assert (min(taken_off), max(taken_off)) == (0, 49)
    assert len(taken_off) == 50
    assert roll_jitter_ms(CONFIG, "t-0/0.log") == 0
