"""Leader epochs (KIP-101, KIP-320): how a client notices that it or its log is out of date."""

from __future__ import annotations

from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import Subject, Topic

END = ApiKey.OFFSET_FOR_LEADER_EPOCH
CONSUMER = -1
UNDEFINED = (-1, -1)


async def _epoch(s: Subject, topic: Topic) -> int:
    (row,) = (await s.ask(ApiKey.METADATA, 7, topics=[{"name": topic.name}])).topics
    return int(row.partitions[0].leader_epoch)


async def _filled(s: Subject) -> tuple[Topic, int]:
    """Return a topic with three records and the epoch of its leader."""
    topic = await s.topic()
    await s.produce(topic, b"0", b"1", b"2")
    return topic, await _epoch(s, topic)


async def _end(s: Subject, topic: Topic, epoch: int, partition: int = 0, **row: Any) -> Any:
    asked = {"partition": partition, "leader_epoch": epoch, **row}
    fields = {"replica_id": CONSUMER} if s.version(END, 2) >= 3 else {}
    rows = [{"topic": topic.name, "partitions": [asked]}]
    response = await s.ask(END, 2, await s.leader(topic), topics=rows, **fields)
    return response.topics[0].partitions[0]


@check("KIP-101")
async def the_current_epoch_ends_at_the_log_end(s: Subject) -> None:
    """A consumer would believe that its log was cut off."""
    topic, epoch = await _filled(s)
    found = accepted(await _end(s, topic, epoch))
    expect("epoch and end", (found.leader_epoch, found.end_offset), (epoch, 3))


@check("KIP-320, LeaderEpochFileCache.endOffsetFor")
async def a_later_epoch_is_undefined(s: Subject) -> None:
    """A consumer would go on at an offset of a log that the leader does not have."""
    topic, epoch = await _filled(s)
    found = accepted(await _end(s, topic, epoch + 5))
    expect("epoch and end", (found.leader_epoch, found.end_offset), UNDEFINED)


@check("KIP-320, Partition.checkCurrentLeaderEpoch")
async def a_client_with_newer_metadata_is_told_so(s: Subject) -> None:
    """A client would believe a leader that was replaced."""
    topic, epoch = await _filled(s)
    found = await _end(s, topic, epoch, current_leader_epoch=epoch + 1)
    expect_error(found.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@check("KIP-320, Partition.checkCurrentLeaderEpoch")
async def a_client_with_the_right_epoch_is_served(s: Subject) -> None:
    """A consumer could not read."""
    topic, epoch = await _filled(s)
    accepted(await _end(s, topic, epoch, current_leader_epoch=epoch))
    accepted(await s.fetch(topic, versions=9, row={"current_leader_epoch": epoch}))
    accepted(await s.list_offset(topic, -1, 4, current_leader_epoch=epoch))


@check("KIP-320")
async def a_fetch_with_a_newer_epoch_is_refused(s: Subject) -> None:
    """A consumer would read from a leader that was replaced."""
    s.version(ApiKey.FETCH, 9)
    topic, epoch = await _filled(s)
    found = await s.fetch(topic, versions=9, row={"current_leader_epoch": epoch + 1})
    expect_error(found.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@check("KIP-320")
async def ListOffsets_with_a_newer_epoch_is_refused(s: Subject) -> None:
    """A consumer would begin at the end of a leader that was replaced."""
    s.version(ApiKey.LIST_OFFSETS, 4)
    topic, epoch = await _filled(s)
    found = await s.list_offset(topic, -1, 4, current_leader_epoch=epoch + 1)
    expect_error(found.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@check("KafkaApis.handleOffsetForLeaderEpochRequest")
async def an_unknown_partition_is_an_error(s: Subject) -> None:
    """A consumer would believe that its log was cut off to nothing."""
    topic, epoch = await _filled(s)
    found = await _end(s, topic, epoch, 99)
    expect_error(found.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("KIP-595, FetchResponse.divergingEpoch")
async def a_fetch_behind_the_end_of_its_epoch_diverges(s: Subject) -> None:
    """A follower would not notice that its log differs from the leader's."""
    s.version(ApiKey.FETCH, 12)
    topic, epoch = await _filled(s)
    found = await s.fetch(topic, 7, versions=12, row={"last_fetched_epoch": epoch})
    expect_error(found.error_code, ErrorCode.NONE)
    expect_true(found.diverging_epoch is not None, "there is no diverging epoch")
    diverging = (found.diverging_epoch.epoch, found.diverging_epoch.end_offset)
    expect("the diverging epoch and its end", diverging, (epoch, 3))


@check("KIP-595")
async def a_fetch_at_the_end_of_its_epoch_does_not_diverge(s: Subject) -> None:
    """A follower would cut off its log again and again."""
    s.version(ApiKey.FETCH, 12)
    topic, epoch = await _filled(s)
    found = accepted(await s.fetch(topic, 3, versions=12, row={"last_fetched_epoch": epoch}))
    expect("the diverging epoch", found.diverging_epoch, None)


@check("KIP-101")
async def all_versions_know_the_end(s: Subject) -> None:
    """A client or follower of that version would cut off its log."""
    topic, epoch = await _filled(s)
    for version in s.all_versions(END):
        fields = {"replica_id": CONSUMER} if version >= 3 else {}
        rows = [{"topic": topic.name, "partitions": [{"partition": 0, "leader_epoch": epoch}]}]
        at = await s.leader(topic)
        response = accepted(await s.ask(END, (version, version), at, topics=rows, **fields))
        expect(f"the end in version {version}", response.topics[0].partitions[0].end_offset, 3)
