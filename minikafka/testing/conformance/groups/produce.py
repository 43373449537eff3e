"""Appending records: acknowledgements, offsets, timestamps, and what is refused."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.batch import BATCH_OVERHEAD, CRC_OFFSET, crc_is_valid, crc_of
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.connection import frame
from minikafka.testing.conformance.expectations import expect, expect_error, expect_true
from minikafka.testing.conformance.subject import (
    TIMEOUT_MS,
    Subject,
    Topic,
    topic_rows,
    values_in,
)

PRODUCE = ApiKey.PRODUCE
# Kafka 2.0 closes the connection on requests that break the rules of their version.
FIRST_WITH_RESPONSE = 7
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
# Kafka 2.0 has no INVALID_RECORD.
INVALID = (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


async def _refused(s: Subject, topic: Topic, *expected: ErrorCode, **options: Any) -> Any:
    """Expect that records are refused, and that nothing is appended. Return the response."""
    before = await s.end_offset(topic)
    result = await s.try_produce(topic, b"v", **options)
    expect_error(result.error_code, *expected)
    expect("the log end", await s.end_offset(topic), before)
    return result


@check("ProduceResponse")
async def offsets_count_records(s: Subject) -> None:
    """A producer would report offsets at which other records are."""
    topic = await s.topic()
    found = [await s.produce(topic, *[b"v"] * n) for n in (1, 3, 2)]
    expect("the base offsets", found, [0, 1, 4])
    expect("the log end", await s.end_offset(topic), 6)


@check("ProducerConfig acks")
async def acks_1_and_all_are_acknowledged(s: Subject) -> None:
    """A producer would wait for its time-out."""
    topic = await s.topic()
    found = [await s.produce(topic, b"v", acks=acks) for acks in (1, -1)]
    expect("the base offsets", found, [0, 1])


@check("ProducerConfig acks")
async def acks_0_gets_no_response(s: Subject) -> None:
    """A producer would take the response for that of its next request."""
    topic = await s.topic()
    at = await s.leader(topic)
    rows = topic_rows(topic, "name", "partition_data", [{"index": 0, "records": s.batch(b"v")}])
    request: dict[str, Any] = {"acks": 0, "timeout_ms": TIMEOUT_MS, "topic_data": rows}
    await at.send(frame(PRODUCE, s.version(PRODUCE, 3), 4711, **request))
    expect("the log end", await s.end_offset(topic), 1)  # the response has its own correlation id


@check("ReplicaManager.isValidRequiredAcks")
async def other_acks_are_refused(s: Subject) -> None:
    """A producer would believe in replicas that its records do not have."""
    await _refused(s, await s.topic(), ErrorCode.INVALID_REQUIRED_ACKS, acks=2)


@check("RecordBatch.ensureValid")
async def a_batch_with_a_wrong_CRC_is_refused(s: Subject) -> None:
    """Bytes that broke on their way would be stored and break every consumer."""
    data = bytearray(s.batch(b"value"))
    data[-2] ^= 1
    await _refused(s, await s.topic(), ErrorCode.CORRUPT_MESSAGE, data=bytes(data))


@check("ReplicaManager.appendToLocalLog")
async def an_unknown_topic_is_an_error(s: Subject) -> None:
    """A producer would lose its records without knowing."""
    topic = Topic(s.name(), uuid4(), (next(iter(s.cluster.brokers)),))
    found = (await s.try_produce(topic, b"v", versions=(3, 12))).error_code
    expect_error(found, UNKNOWN)


@check("KIP-516")
async def an_unknown_topic_id_is_an_error(s: Subject) -> None:
    """A producer would not notice that its topic was made again."""
    topic = (await s.topic())._replace(topic_id=uuid4())
    found = (await s.try_produce(topic, b"v", versions=13)).error_code
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_ID)


@check("ReplicaManager.appendToLocalLog")
async def an_unknown_partition_is_an_error(s: Subject) -> None:
    """A producer would lose its records without knowing."""
    topic = await s.topic()
    topic = topic._replace(leaders=topic.leaders * 100)
    expect_error((await s.try_produce(topic, b"v", partition=99)).error_code, UNKNOWN)


@check("ProduceResponse")
async def an_error_of_one_partition_spares_the_others(s: Subject) -> None:
    """A producer would send records again that are already stored."""
    topic = await s.topic()
    rows = [{"index": index, "records": s.batch(b"v")} for index in (99, 0)]
    response = await s.ask(
        PRODUCE,
        3,
        await s.leader(topic),
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=topic_rows(topic, "name", "partition_data", rows),
    )
    partitions = response.responses[0].partition_responses
    found = {each.index: each.error_code for each in partitions}
    expect("the errors by partition", found, {99: UNKNOWN, 0: 0})


@check("ProduceRequest")
async def all_versions_append(s: Subject) -> None:
    """A client of that version could not write."""
    topic = await s.topic()
    for i, version in enumerate(s.all_versions(PRODUCE, 3)):
        found = await s.produce(topic, b"v", versions=(version, version))
        expect(f"the base offset in version {version}", found, i)


@check("max.message.bytes")
async def a_batch_above_the_limit_is_refused(s: Subject) -> None:
    """A producer would not split its batches, and followers and consumers could not read them."""
    topic = await s.topic(max_message_bytes=1000)
    await s.produce(topic, bytes(500))
    found = (await s.try_produce(topic, bytes(2000))).error_code
    expect_error(found, ErrorCode.MESSAGE_TOO_LARGE)


@check("KIP-32, message.timestamp.type")
async def a_topic_may_have_the_time_of_the_append(s: Subject) -> None:
    """A consumer would process records by clocks of clients that are wrong."""
    topic = await s.topic(message_timestamp_type="LogAppendTime")
    result = await s.try_produce(topic, b"v")
    expect_true(result.log_append_time_ms > s.time_ms, "the response has no time of the append")
    (batch,) = await s.batches(topic)
    expect_true(batch.timestamp_type_log_append, "the batch is not marked")
    expect("the batch's time", batch.max_timestamp, result.log_append_time_ms)
    expect_true(crc_is_valid(batch), "the CRC of the batch is wrong")


@check("KIP-32, message.timestamp.type")
async def a_topic_keeps_the_time_of_the_producer(s: Subject) -> None:
    """A consumer would see the time at which records were sent again or mirrored."""
    topic = await s.topic(message_timestamp_type="CreateTime")
    expect("the time of the append", (await s.try_produce(topic, b"v")).log_append_time_ms, -1)
    (batch,) = await s.batches(topic)
    expect("the batch's time", batch.max_timestamp, s.time_ms)


@check("KIP-207, ProduceResponse")
async def the_response_has_the_start_of_the_log(s: Subject) -> None:
    """A producer could not tell expired state from lost records (UNKNOWN_PRODUCER_ID)."""
    topic = await s.topic()
    expect("the log start", (await s.try_produce(topic, b"v", versions=5)).log_start_offset, 0)


@check("LogValidator, cleanup.policy")
async def a_compacted_topic_refuses_a_record_without_key(s: Subject) -> None:
    """The record could never be compacted, and stops the cleaner of some brokers."""
    topic = await s.topic(cleanup_policy="compact")
    result = await _refused(s, topic, *INVALID)
    if s.version(PRODUCE) >= 8:
        expect_error(result.error_code, ErrorCode.INVALID_RECORD)


@check("KIP-467")
async def a_refusal_names_the_record(s: Subject) -> None:
    """A producer would have to drop the whole batch for one bad record."""
    topic = await s.topic(cleanup_policy="compact")
    records = [(s.time_ms, b"key", b"v", ()), (s.time_ms, None, b"v", ())]
    result = await _refused(s, topic, *INVALID, versions=8, data=build_batch(records))
    expect("the bad records", [each.batch_index for each in result.record_errors], [1])


@check("LogValidator")
async def a_control_batch_of_a_client_is_refused(s: Subject) -> None:
    """A client could end the transactions of others."""
    await _refused(s, await s.topic(), *INVALID, data=s.batch(b"v", control=True))


@check("ProduceRequest.validateRecords, KIP-98")
async def two_batches_for_one_partition_are_refused(s: Subject) -> None:
    """A broker would append one of them and lose the other one."""
    s.version(PRODUCE, FIRST_WITH_RESPONSE)
    await _refused(s, await s.topic(), *INVALID, data=s.batch(b"1") + s.batch(b"2"))


@check("LogValidator.validateBatch")
async def a_count_that_does_not_fit_the_offsets_is_refused(s: Subject) -> None:
    """Two records would get one offset."""
    data = bytearray(s.batch(b"1", b"2"))
    data[57:61] = (3).to_bytes(4, "big")
    data[CRC_OFFSET : CRC_OFFSET + 4] = crc_of(data, 0, len(data)).to_bytes(4, "big")
    await _refused(s, await s.topic(), *INVALID, data=bytes(data))


@check("RecordBatch.partitionLeaderEpoch")
async def the_leader_writes_its_epoch_into_a_batch(s: Subject) -> None:
    """A follower or consumer could not find where its log leaves the leader's."""
    topic = await s.topic()
    await s.produce(topic, b"v", leader_epoch=77)
    (batch,) = await s.batches(topic)
    (row,) = (await s.ask(ApiKey.METADATA, 7, topics=[{"name": topic.name}])).topics
    expect("the epoch", batch.partition_leader_epoch, row.partitions[0].leader_epoch)


@check("LogValidator")
async def the_leader_writes_the_offsets_into_a_batch(s: Subject) -> None:
    """A consumer would read the offsets of the producer, which all begin with 0."""
    topic = await s.topic()
    await s.produce(topic, b"1")
    await s.produce(topic, b"2", b"3")
    found = [(batch.base_offset, batch.last_offset) for batch in await s.batches(topic)]
    expect("the offsets of the batches", found, [(0, 0), (1, 2)])


@check("RecordBatch")
async def records_come_back_as_they_were(s: Subject) -> None:
    """A consumer would read other keys, headers or times than were sent."""
    topic = await s.topic()
    headers = (("h", b"1"), ("h", None), ("", b""))
    sent = [
        (s.time_ms + 5, b"k", b"v", headers),
        (s.time_ms, None, None, ()),
        (0, b"", b"", ()),
    ]
    data = build_batch(sent)
    await s.produce(topic, data=data)
    (batch,) = await s.batches(topic)
    expect_true(bytes(batch.payload()) == data[BATCH_OVERHEAD:], "the records have other bytes")
    expect("the values", values_in([batch]), [b"v", None, b""])
