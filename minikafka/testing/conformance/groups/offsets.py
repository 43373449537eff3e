"""Committed offsets: commit, fetch, delete, and who may commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error
from minikafka.testing.conformance.groups.members import ScriptedMember, stable
from minikafka.testing.conformance.subject import Subject, Topic

COMMIT, FETCH = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH
NO_OFFSET = -1
FIRST_WITH_GROUPS = 8


async def try_commit(
    s: Subject, group: str, topic: Topic, offset: int, row: Mapping[str, Any] = {}, **fields: Any
) -> int:
    """Commit an offset of partition 0, and return the error code."""
    asked = {"partition_index": 0, "committed_offset": offset, **row}
    names = {"name": topic.name, "topic_id": topic.topic_id}
    topics = [{**names, "partitions": [asked]}]
    request = {"group_id": group, "topics": topics, **fields}
    response = await s.ask_coordinator(COMMIT, 1, group, **request)
    return int(response.topics[0].partitions[0].error_code)


async def commit(s: Subject, group: str, topic: Topic, offset: int, **row: Any) -> None:
    expect_error(await try_commit(s, group, topic, offset, row), ErrorCode.NONE)


async def fetched(
    s: Subject, group: str, topic: Topic, version: int | None = None, **more: Any
) -> Any:
    """Return the row of partition 0 in OffsetFetch."""
    chosen = s.version(FETCH, 1) if version is None else version
    names = {"name": topic.name, "partition_indexes": [0]}
    if chosen >= FIRST_WITH_GROUPS:
        rows = [{**names, "topic_id": topic.topic_id}]
        request: dict[str, Any] = {"groups": [{"group_id": group, "topics": rows}], **more}
    else:
        request = {"group_id": group, "topics": [names], **more}
    response = await s.ask_coordinator(FETCH, (chosen, chosen), group, **request)
    found = response.groups[0] if chosen >= FIRST_WITH_GROUPS else response
    expect_error(found.error_code, ErrorCode.NONE)
    return found.topics[0].partitions[0]


@check("OffsetCommit")
async def an_offset_that_was_committed_is_fetched(s: Subject) -> None:
    """A consumer would begin again from the start, or skip records."""
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 42)
    row = accepted(await fetched(s, group, topic))
    expect("the offset", row.committed_offset, 42)


@check("OffsetCommit")
async def the_last_commit_wins_even_if_it_is_lower(s: Subject) -> None:
    """A tool could not set a group back."""
    topic, group = await s.topic(), s.group()
    for offset in (5, 9, 3):
        await commit(s, group, topic, offset)
    expect("the offset", (await fetched(s, group, topic)).committed_offset, 3)


@check("OffsetFetch")
async def all_versions_fetch_the_same(s: Subject) -> None:
    """A client of that version would begin somewhere else."""
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 7)
    for version in s.all_versions(FETCH, 1):
        row = accepted(await fetched(s, group, topic, version))
        expect(f"the offset in version {version}", row.committed_offset, 7)


@check("OffsetFetch")
async def without_a_commit_there_is_no_offset(s: Subject) -> None:
    """A new consumer would begin at offset 0 instead of where auto.offset.reset says."""
    topic, group = await s.topic(), s.group()
    row = accepted(await fetched(s, group, topic))
    expect("offset and metadata", (row.committed_offset, row.metadata), (NO_OFFSET, ""))


@check("OffsetCommit")
async def metadata_are_kept(s: Subject) -> None:
    """Kafka Streams would lose the time of its tasks."""
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 1, committed_metadata="text ü")
    expect("the metadata", (await fetched(s, group, topic)).metadata, "text ü")


@check("offset.metadata.max.bytes")
async def metadata_have_a_limit(s: Subject) -> None:
    """One client could fill the topic of offsets."""
    topic, group = await s.topic(), s.group()
    found = await try_commit(s, group, topic, 1, {"committed_metadata": "x" * 5000})
    expect_error(found, ErrorCode.OFFSET_METADATA_TOO_LARGE)


@check("KIP-320")
async def the_leader_epoch_is_kept(s: Subject) -> None:
    """A consumer could not notice after a restart that its log was cut off."""
    s.version(COMMIT, 6)
    s.version(FETCH, 5)
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 1, committed_leader_epoch=3)
    expect("the leader epoch", (await fetched(s, group, topic)).committed_leader_epoch, 3)


@check("KafkaApis.handleOffsetCommitRequest")
async def a_commit_for_an_unknown_topic_is_an_error(s: Subject) -> None:
    """A consumer would not notice that its topic was deleted."""
    s.version(COMMIT, (1, 9))
    group = s.group()
    row = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": s.name(), "partitions": [row]}]
    response = await s.ask_coordinator(COMMIT, (1, 9), group, group_id=group, topics=topics)
    found = response.topics[0].partitions[0].error_code
    expect_error(found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("KIP-88")
async def all_offsets_of_a_group_are_fetched(s: Subject) -> None:
    """A tool could not show the lag of a group."""
    version = s.version(FETCH, 2)
    first, second, group = await s.topic(), await s.topic(), s.group()
    for topic in (first, second):
        await commit(s, group, topic, 1)
    row = {"group_id": group, "topics": None}
    request: dict[str, Any] = {"groups": [row]} if version >= FIRST_WITH_GROUPS else row
    response = accepted(await s.ask_coordinator(FETCH, 2, group, **request))
    found = response.groups[0] if version >= FIRST_WITH_GROUPS else response
    names = {each.name or each.topic_id for each in found.topics}
    by_id = version >= 10
    expect("the topics", names, {t.topic_id if by_id else t.name for t in (first, second)})


@check("KIP-709")
async def several_groups_are_fetched_at_once(s: Subject) -> None:
    """A tool would need a request for each group."""
    s.version(FETCH, FIRST_WITH_GROUPS)
    topic, groups = await s.topic(), [s.group(), s.group()]
    address = await s.coordinator_address(groups[0])
    while await s.coordinator_address(groups[1]) != address:
        groups[1] = s.group()
    for offset, group in enumerate(groups):
        await commit(s, group, topic, offset)
    names = {"name": topic.name, "topic_id": topic.topic_id, "partition_indexes": [0]}
    rows = [{"group_id": group, "topics": [names]} for group in groups]
    response = accepted(await s.ask_coordinator(FETCH, FIRST_WITH_GROUPS, groups[0], groups=rows))
    found = {
        each.group_id: each.topics[0].partitions[0].committed_offset for each in response.groups
    }
    expect("the offsets", found, {groups[0]: 0, groups[1]: 1})


@check("OffsetCommit")
async def a_member_commits_in_its_generation(s: Subject) -> None:
    """A consumer of a group could not commit."""
    topic = await s.topic()
    member = await stable(s, s.group())
    found = await try_commit(s, member.group, topic, 1, **_identity(member))
    expect_error(found, ErrorCode.NONE)


def _identity(member: ScriptedMember, **changed: Any) -> dict[str, Any]:
    identity = {
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
    }
    return {**identity, **changed}


@check("OffsetCommit")
async def a_commit_of_an_old_generation_is_refused(s: Subject) -> None:
    """A consumer that missed a rebalance would overwrite the offsets of the new owner."""
    topic = await s.topic()
    member = await stable(s, s.group())
    identity = _identity(member, generation_id_or_member_epoch=member.generation - 1)
    found = await try_commit(s, member.group, topic, 1, **identity)
    expect_error(found, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


@check("OffsetCommit")
async def a_commit_of_an_unknown_member_is_refused(s: Subject) -> None:
    """A consumer that was removed would overwrite the offsets of the new owner."""
    topic = await s.topic()
    member = await stable(s, s.group())
    found = await try_commit(s, member.group, topic, 1, **_identity(member, member_id="nobody"))
    expect_error(found, ErrorCode.UNKNOWN_MEMBER_ID)


@check("OffsetCommit")
async def a_group_with_members_takes_no_commit_from_outside(s: Subject) -> None:
    """A consumer with assigned partitions would overwrite the offsets of a group by that name."""
    topic = await s.topic()
    member = await stable(s, s.group())
    found = await try_commit(s, member.group, topic, 1)
    expect_error(found, ErrorCode.UNKNOWN_MEMBER_ID)


@check("OffsetCommit")
async def a_generation_of_a_group_that_is_gone_is_refused(s: Subject) -> None:
    """A consumer would commit to a group that has forgotten it."""
    topic, group = await s.topic(), s.group()
    fields: dict[str, Any] = {"generation_id_or_member_epoch": 5, "member_id": "nobody"}
    found = await try_commit(s, group, topic, 1, **fields)
    expect_error(
        found,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )


@check("OffsetCommit, CompletingRebalance")
async def a_commit_before_the_assignment_is_refused(s: Subject) -> None:
    """A consumer would commit for partitions that it does not own yet."""
    topic = await s.topic()
    member = ScriptedMember(s, s.group())
    await member.join()
    found = await try_commit(s, member.group, topic, 1, **_identity(member))
    expect_error(found, ErrorCode.REBALANCE_IN_PROGRESS)


@check("KIP-496")
async def an_offset_can_be_deleted(s: Subject) -> None:
    """A group would have lag for a topic that it does not read any more."""
    s.version(ApiKey.OFFSET_DELETE)
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 1)
    topics = [{"name": topic.name, "partitions": [{"partition_index": 0}]}]
    at = await s.coordinator(group)
    accepted(await s.ask(ApiKey.OFFSET_DELETE, 0, at, group_id=group, topics=topics))
    expect("the offset", (await fetched(s, group, topic)).committed_offset, NO_OFFSET)


@check("KIP-496")
async def offsets_of_an_unknown_group_cannot_be_deleted(s: Subject) -> None:
    """An operator would not notice a misspelled group."""
    topic, group = await s.topic(), s.name()
    topics = [{"name": topic.name, "partitions": [{"partition_index": 0}]}]
    at = await s.coordinator(group)
    response = await s.ask(ApiKey.OFFSET_DELETE, 0, at, group_id=group, topics=topics)
    expect_error(response.error_code, ErrorCode.GROUP_ID_NOT_FOUND)


@check("KIP-229")
async def a_deleted_group_has_no_offsets(s: Subject) -> None:
    """A new group by that name would begin where the old one was."""
    s.version(ApiKey.DELETE_GROUPS)
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 1)
    at = await s.coordinator(group)
    accepted(await s.ask(ApiKey.DELETE_GROUPS, 0, at, groups_names=[group]))
    expect("the offset", (await fetched(s, group, topic)).committed_offset, NO_OFFSET)


@check("OffsetCommit")
async def a_group_of_offsets_alone_is_empty(s: Subject) -> None:
    """A tool could not find the groups that can be reset."""
    s.version(ApiKey.DESCRIBE_GROUPS)
    topic, group = await s.topic(), s.group()
    await commit(s, group, topic, 1)
    at = await s.coordinator(group)
    found = (await s.ask(ApiKey.DESCRIBE_GROUPS, 0, at, groups=[group])).groups[0]
    expect("the state", found.group_state, "Empty")
