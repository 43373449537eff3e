"""Offsets by time, and those of both ends of a log."""

from __future__ import annotations

from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error
from minikafka.testing.conformance.subject import TIMEOUT_MS, Subject, Topic

LIST_OFFSETS = ApiKey.LIST_OFFSETS
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
NONE = (-1, -1)


async def _topic(s: Subject) -> Topic:
    """Three records, the second one the latest: at +10, +30 and +20 ms."""
    topic = await s.topic()
    for later in (10, 30, 20):
        await s.produce(topic, data=build_batch([(s.time_ms + later, None, b"v", ())]))
    return topic


async def _found(s: Subject, topic: Topic, timestamp: int, *versions: int) -> tuple[int, int]:
    """Return timestamp, relative to the first record's base, and offset."""
    row = accepted(await s.list_offset(topic, timestamp, versions[0] if versions else 1))
    return (row.timestamp - s.time_ms if row.timestamp >= 0 else -1), row.offset


@check("ListOffsetsRequest")
async def latest_is_the_end_of_the_log(s: Subject) -> None:
    """A consumer that begins at the end would skip records or read old ones."""
    expect("time and offset", await _found(s, await _topic(s), LATEST), (-1, 3))


@check("ListOffsetsRequest")
async def earliest_is_the_start_of_the_log(s: Subject) -> None:
    """A consumer that begins at the start would skip records."""
    expect("time and offset", await _found(s, await _topic(s), EARLIEST), (-1, 0))


@check("ListOffsetsRequest")
async def both_ends_of_an_empty_log_are_0(s: Subject) -> None:
    """A consumer of a new topic would reset its offset for ever."""
    topic = await s.topic()
    expect("latest", await _found(s, topic, LATEST), (-1, 0))
    expect("earliest", await _found(s, topic, EARLIEST), (-1, 0))


@check("KIP-107")
async def earliest_follows_deleted_records(s: Subject) -> None:
    """A consumer that begins at the start would be out of range."""
    topic = await _topic(s)
    rows = [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 2}]}]
    at = await s.leader(topic)
    accepted(await s.ask(ApiKey.DELETE_RECORDS, 0, at, topics=rows, timeout_ms=TIMEOUT_MS))
    expect("earliest", await _found(s, topic, EARLIEST), (-1, 2))


@check("KIP-79")
async def a_time_has_the_first_record_that_is_not_older(s: Subject) -> None:
    """A consumer that begins at a time would skip records of that time."""
    topic = await _topic(s)
    expected = {0: (10, 0), 10: (10, 0), 11: (30, 1), 25: (30, 1), 30: (30, 1)}
    found = {later: await _found(s, topic, s.time_ms + later) for later in expected}
    expect("times and offsets", found, expected)


@check("KIP-79")
async def a_time_inside_a_batch_has_its_record(s: Subject) -> None:
    """A consumer that begins at a time would read a whole batch of older records."""
    topic = await s.topic()
    records = [(s.time_ms + i, None, b"v", ()) for i in range(10)]
    await s.produce(topic, data=build_batch(records))
    expect("time and offset", await _found(s, topic, s.time_ms + 7), (7, 7))


@check("KIP-79")
async def a_time_after_all_records_has_no_offset(s: Subject) -> None:
    """A consumer that begins at a time would read older records."""
    expect("time and offset", await _found(s, await _topic(s), s.time_ms + 31), NONE)


@check("KIP-734")
async def the_latest_time_has_its_record(s: Subject) -> None:
    """A tool that looks for a topic without news would report a wrong time."""
    s.version(LIST_OFFSETS, 7)
    expect("time and offset", await _found(s, await _topic(s), MAX_TIMESTAMP, 7), (30, 1))


@check("KIP-734")
async def an_empty_log_has_no_latest_time(s: Subject) -> None:
    """A tool would report the time of a record that does not exist."""
    s.version(LIST_OFFSETS, 7)
    expect("time and offset", await _found(s, await s.topic(), MAX_TIMESTAMP, 7), NONE)


@check("KIP-405")
async def without_tiers_the_local_log_begins_with_the_log(s: Subject) -> None:
    """A follower would believe that records are in remote storage."""
    s.version(LIST_OFFSETS, 8)
    expect("the offset", (await _found(s, await _topic(s), EARLIEST_LOCAL, 8))[1], 0)


@check("KIP-1005")
async def without_tiers_there_is_no_tiered_offset(s: Subject) -> None:
    """A tool would report records in remote storage that are not there."""
    s.version(LIST_OFFSETS, 9)
    expect("time and offset", await _found(s, await _topic(s), LATEST_TIERED, 9), NONE)


@check("ListOffsetsRequest version 0")
async def version_0_lists_segments(s: Subject) -> None:
    """An old consumer could not begin."""
    s.version(LIST_OFFSETS, (0, 0))
    topic = await _topic(s)
    row = accepted(await s.list_offset(topic, LATEST, (0, 0), max_num_offsets=10))
    expect("the offsets", list(row.old_style_offsets), [3, 0])


@check("KIP-320")
async def an_offset_has_its_leader_epoch(s: Subject) -> None:
    """A consumer could not notice that the log was cut off before it."""
    s.version(LIST_OFFSETS, 4)
    topic = await _topic(s)
    (row,) = (await s.ask(ApiKey.METADATA, 7, topics=[{"name": topic.name}])).topics
    for timestamp in (LATEST, s.time_ms):
        found = accepted(await s.list_offset(topic, timestamp, 4)).leader_epoch
        expect("the leader epoch", found, row.partitions[0].leader_epoch)


@check("ListOffsetsRequest")
async def all_versions_agree(s: Subject) -> None:
    """A client of that version would begin somewhere else."""
    topic = await _topic(s)
    for version in s.all_versions(LIST_OFFSETS, 1):
        row = accepted(await s.list_offset(topic, s.time_ms + 11, (version, version)))
        found = (row.timestamp - s.time_ms, row.offset)
        expect(f"time and offset in version {version}", found, (30, 1))


async def _errors(s: Subject, name: str, *partitions: int) -> Any:
    rows = [{"partition_index": i, "timestamp": LATEST} for i in partitions]
    topics = [{"name": name, "partitions": rows}]
    response = await s.ask(LIST_OFFSETS, 1, topics=topics, replica_id=-1)
    return [each.error_code for each in response.topics[0].partitions]


@check("KafkaApis.handleListOffsetRequest")
async def an_unknown_topic_is_an_error(s: Subject) -> None:
    """A consumer would begin at an offset of a topic that does not exist."""
    (found,) = await _errors(s, s.name(), 0)
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("ListOffsetsRequest.duplicatePartitions")
async def a_partition_that_is_named_twice_is_an_error(s: Subject) -> None:
    """A client with a fault would take one of two responses by chance."""
    topic = await s.topic()
    for found in await _errors(s, topic.name, 0, 0):
        expect_error(found, ErrorCode.INVALID_REQUEST)
