"""Reading records without a session: offsets, limits and waiting."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import (
    TIMEOUT_MS,
    Subject,
    Topic,
    batches_in,
    topic_rows,
    values_in,
)

FETCH = ApiKey.FETCH
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
LAST_BY_NAME, FIRST_BY_ID = 12, 13
WAIT_S = 0.5
EARLY_S = 0.4  # clocks differ


async def _filled(s: Subject, *sizes: int) -> Topic:
    """Return a topic with a batch of one record for each size of a value."""
    topic = await s.topic()
    for size in sizes:
        await s.produce(topic, bytes(size))
    return topic


@check("FetchRequest")
async def records_are_read_from_an_offset_on(s: Subject) -> None:
    """A consumer would skip records or read them twice."""
    topic = await s.topic()
    for value in (b"0", b"1", b"2"):
        await s.produce(topic, value)
    for offset, expected in enumerate(([b"0", b"1", b"2"], [b"1", b"2"], [b"2"])):
        batches = await s.batches(topic, offset)
        expect(f"the values from {offset} on", values_in(batches), expected)


@check("FetchRequest")
async def all_versions_read_the_same(s: Subject) -> None:
    """A client of that version would read other records."""
    topic = await s.topic()
    await s.produce(topic, b"0", b"1")
    for version in s.all_versions(FETCH, 4):
        found = values_in(await s.batches(topic, versions=(version, version)))
        expect(f"the values in version {version}", found, [b"0", b"1"])


@check("FetchResponse")
async def the_end_of_the_log_is_no_error(s: Subject) -> None:
    """A consumer would reset its offset whenever it has read everything."""
    topic = await _filled(s, 1, 1)
    partition = accepted(await s.fetch(topic, 2))
    expect("the number of batches", len(batches_in(partition)), 0)
    expect("the high watermark", partition.high_watermark, 2)


@check("UnifiedLog.read")
async def an_offset_behind_the_end_is_out_of_range(s: Subject) -> None:
    """A consumer whose records were cut off would wait for ever instead of resetting its offset."""
    expect_error((await s.fetch(await _filled(s, 1), 2)).error_code, OUT_OF_RANGE)


@check("UnifiedLog.read")
async def a_negative_offset_is_out_of_range(s: Subject) -> None:
    """A client with a fault would read from a place that it did not name."""
    expect_error((await s.fetch(await _filled(s, 1), -1)).error_code, OUT_OF_RANGE)


@check("KIP-107")
async def an_offset_of_deleted_records_is_out_of_range(s: Subject) -> None:
    """A consumer would not notice that records expired before it read them."""
    topic = await _filled(s, 1, 1, 1)
    row = {"partition_index": 0, "offset": 2}
    topics = [{"name": topic.name, "partitions": [row]}]
    at = await s.leader(topic)
    accepted(await s.ask(ApiKey.DELETE_RECORDS, 0, at, topics=topics, timeout_ms=TIMEOUT_MS))
    expect_error((await s.fetch(topic, 1)).error_code, OUT_OF_RANGE)
    partition = accepted(await s.fetch(topic, 2, versions=5))
    expect("the log start", partition.log_start_offset, 2)


@check("KafkaApis.handleFetchRequest")
async def an_unknown_topic_is_an_error(s: Subject) -> None:
    """A consumer would not notice that its topic was deleted."""
    topic = Topic(s.name(), uuid4(), (next(iter(s.cluster.brokers)),))
    found = (await s.fetch(topic, versions=(4, LAST_BY_NAME))).error_code
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("KIP-516")
async def an_unknown_topic_id_is_an_error(s: Subject) -> None:
    """A consumer would read the records of a new topic at the offsets of the old one."""
    topic = (await s.topic())._replace(topic_id=uuid4())
    found = (await s.fetch(topic, versions=FIRST_BY_ID)).error_code
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_ID)


@check("KafkaApis.handleFetchRequest")
async def an_unknown_partition_is_an_error(s: Subject) -> None:
    """A consumer would wait for records that never come."""
    topic = await s.topic()
    topic = topic._replace(leaders=topic.leaders * 100)
    found = (await s.fetch(topic, partition=99)).error_code
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("KIP-74")
async def the_first_batch_is_sent_whole_whatever_its_size(s: Subject) -> None:
    """A consumer would be stuck before a record larger than its buffer."""
    topic = await _filled(s, 10_000)
    partition = await s.fetch(topic, max_bytes=100, row={"partition_max_bytes": 100})
    expect("the number of whole batches", len(batches_in(partition)), 1)


@check("KIP-74, max.partition.fetch.bytes")
async def a_partition_has_a_limit(s: Subject) -> None:
    """A consumer would need more memory than it was given."""
    topic = await _filled(s, 1000, 1000, 1000)
    partition = accepted(await s.fetch(topic, row={"partition_max_bytes": 1500}))
    expect_true(len(partition.records) <= 1500, f"{len(partition.records)} bytes were sent")


@check("KIP-74, fetch.max.bytes")
async def a_response_has_a_limit(s: Subject) -> None:
    """A consumer of many partitions would need more memory than it was given."""
    topic = await s.topic(2)
    if len(set(topic.leaders)) > 1:
        topic = topic._replace(leaders=(topic.leaders[0],) * 2)
        rows = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    else:
        rows = [
            {"partition": i, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for i in range(2)
        ]
        await s.produce(topic, bytes(1000), partition=1)
    for _ in range(3):
        await s.produce(topic, bytes(1000))
    response = await s.ask(
        FETCH, 4, await s.leader(topic), max_wait_ms=0, min_bytes=1, max_bytes=1500,
        topics=topic_rows(topic, "topic", "partitions", rows),
    )  # fmt: skip
    sizes = [len(p.records or b"") for t in response.responses for p in t.partitions]
    expect_true(0 < sum(sizes) <= 2200, f"{sum(sizes)} bytes were sent")


@check("FetchRequest, Log.read")
async def an_offset_inside_a_batch_gets_the_batch(s: Subject) -> None:
    """A consumer that goes on inside a compressed batch would skip the rest of it."""
    topic = await s.topic()
    await s.produce(topic, b"0", b"1", b"2")
    (batch,) = await s.batches(topic, 2)
    expect("the offsets", (batch.base_offset, batch.last_offset), (0, 2))


@check("DelayedFetch, fetch.max.wait.ms")
async def a_fetch_waits_for_records(s: Subject) -> None:
    """A consumer would ask thousands of times a second."""
    topic = await s.topic()
    begun = asyncio.get_running_loop().time()
    accepted(await s.fetch(topic, max_wait_ms=int(WAIT_S * 1000)))
    waited = asyncio.get_running_loop().time() - begun
    expect_true(waited >= EARLY_S, f"the response came after {waited:.2f} s")


@check("DelayedFetch, fetch.min.bytes")
async def a_fetch_waits_for_enough_bytes(s: Subject) -> None:
    """A consumer that wants few large responses would get many small ones."""
    topic = await _filled(s, 10)
    begun = asyncio.get_running_loop().time()
    partition = await s.fetch(topic, max_wait_ms=int(WAIT_S * 1000), min_bytes=100_000)
    waited = asyncio.get_running_loop().time() - begun
    expect_true(waited >= EARLY_S, f"the response came after {waited:.2f} s")
    expect("the number of batches", len(batches_in(partition)), 1)


@check("DelayedFetch")
async def a_waiting_fetch_is_answered_when_records_come(s: Subject) -> None:
    """A consumer would get every record late by its waiting time."""
    topic = await s.topic()
    at = await s.connect(s.cluster.brokers[topic.leaders[0]])
    waiting = asyncio.create_task(s.fetch(topic, at=at, max_wait_ms=3 * TIMEOUT_MS))
    await asyncio.sleep(0.2)
    await s.produce(topic, b"v")
    expect("the values", values_in(batches_in(await waiting)), [b"v"])


@check("DelayedFetch")
async def an_error_does_not_wait(s: Subject) -> None:
    """A consumer would notice a lost offset late by its waiting time."""
    topic = await _filled(s, 1)
    found = (await s.fetch(topic, 9, max_wait_ms=3 * TIMEOUT_MS)).error_code
    expect_error(found, OUT_OF_RANGE)


@check("FetchRequest.maxWait")
async def without_waiting_there_is_an_answer_at_once(s: Subject) -> None:
    """A consumer that polls with other partitions would be held up."""
    topic = await _filled(s, 10)
    partition = await s.fetch(topic, min_bytes=1 << 30)
    expect("the number of batches", len(batches_in(partition)), 1)


@check("KIP-98")
async def the_last_stable_offset_is_the_high_watermark_without_transactions(s: Subject) -> None:
    """A consumer that reads committed records would be stuck."""
    partition = accepted(await s.fetch(await _filled(s, 1, 1), isolation_level=1))
    expect("the last stable offset", partition.last_stable_offset, 2)
    expect("the high watermark", partition.high_watermark, 2)


@check("KIP-107, FetchResponse")
async def the_response_has_the_start_of_the_log(s: Subject) -> None:
    """A consumer could not report how far it is from losing records."""
    partition = accepted(await s.fetch(await _filled(s, 1), versions=5))
    expect("the log start", partition.log_start_offset, 0)


@check("KIP-392")
async def a_consumer_without_rack_stays_at_the_leader(s: Subject) -> None:
    """A consumer would be sent to a broker that does not exist."""
    partition = accepted(await s.fetch(await _filled(s, 1), versions=11))
    expect("the preferred replica", partition.preferred_read_replica, -1)


@check("KafkaApis.handleFetchRequest")
async def each_partition_is_answered(s: Subject) -> None:
    """A consumer without a session would wait for the missing partition for ever."""
    topic = await s.topic()
    await s.produce(topic, b"v")
    rows = [{"partition": i, "fetch_offset": 0, "partition_max_bytes": 1000} for i in (0, 98, 99)]
    response = await s.ask(
        FETCH, 4, await s.leader(topic), max_wait_ms=0, min_bytes=1, max_bytes=10_000,
        topics=topic_rows(topic, "topic", "partitions", rows),
    )  # fmt: skip
    found = {p.partition_index: p.error_code for t in response.responses for p in t.partitions}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    expect("the errors by partition", found, {0: 0, 98: unknown, 99: unknown})
