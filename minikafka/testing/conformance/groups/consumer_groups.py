"""Groups whose coordinator assigns the partitions (KIP-848)."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.groups.members import (
    ScriptedMember,
    refused_as_switched_off,
)
from minikafka.testing.conformance.groups.offsets import try_commit
from minikafka.testing.conformance.subject import Subject, Topic, pause

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
DESCRIBE = ApiKey.CONSUMER_GROUP_DESCRIBE
REBALANCE_MS = 10_000
JOINING, LEAVING = 0, -1


class Member:
    """A member that owns at once what it is assigned. It makes up its id, as version 1 demands."""

    def __init__(self, s: Subject, group: str, name: str = "member") -> None:
        self.s, self.group, self.member_id = s, group, f"{group}-{name}"
        self.epoch = JOINING
        self.owned: dict[UUID, list[int]] = {}
        s.at_end(partial(self.send, member_epoch=LEAVING))

    async def send(self, **fields: Any) -> Any:
        request = {
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch,
            **fields,
        }  # fmt: skip
        response = await self.s.ask_coordinator(HEARTBEAT, 0, self.group, **request)
        return refused_as_switched_off(response, "the protocol consumer")

    async def beat(self, **fields: Any) -> Any:
        """Send a heartbeat that owns what was assigned. Raises Broken for an error."""
        owned = [{"topic_id": key, "partitions": value} for key, value in self.owned.items()]
        response = accepted(await self.send(topic_partitions=owned, **fields))
        self.epoch = response.member_epoch
        if response.assignment is not None:
            rows = response.assignment.topic_partitions
            self.owned = {row.topic_id: sorted(row.partitions) for row in rows}
        return response

    async def join(self, *topics: Topic, **fields: Any) -> Any:
        names = [topic.name for topic in topics]
        return await self.beat(
            subscribed_topic_names=names, rebalance_timeout_ms=REBALANCE_MS, **fields
        )

    async def until_assigned(self, topic: Topic, count: int) -> list[int]:
        """Send heartbeats until it owns so many partitions of a topic, and return these."""
        while len(self.owned.get(topic.topic_id, [])) != count:
            await pause()
            await self.beat()
        await self.beat()  # it owns these alone, so that others may get the rest
        return self.owned.get(topic.topic_id, [])


async def _member(s: Subject, partitions: int = 1) -> tuple[Member, Topic]:
    s.version(HEARTBEAT)
    topic = await s.topic(partitions)
    member = Member(s, s.group())
    await member.join(topic)
    return member, topic


@check("KIP-848")
async def a_member_joins_with_epoch_0(s: Subject) -> None:
    """A consumer could not enter the group."""
    s.version(HEARTBEAT)
    member = Member(s, s.group())
    response = await member.join(await s.topic())
    expect_true(response.member_epoch > 0, f"the epoch is {response.member_epoch}")
    expect("the member id", response.member_id, member.member_id)
    expect_true(response.heartbeat_interval_ms > 0, "there is no interval of heartbeats")


@check("KIP-848")
async def a_lone_member_gets_all_partitions(s: Subject) -> None:
    """Nobody would read some partitions."""
    member, topic = await _member(s, 3)
    expect("the partitions", await member.until_assigned(topic, 3), [0, 1, 2])


@check("KIP-848")
async def two_members_share_the_partitions(s: Subject) -> None:
    """A partition would be read twice, or not at all."""
    first, topic = await _member(s, 4)
    await first.until_assigned(topic, 4)
    second = Member(s, first.group, "second")
    await second.join(topic)
    found = await first.until_assigned(topic, 2) + await second.until_assigned(topic, 2)
    expect("the partitions", sorted(found), [0, 1, 2, 3])


@check("KIP-848")
async def the_others_get_the_partitions_of_a_member_that_leaves(s: Subject) -> None:
    """Nobody would read the partitions of a consumer that was closed."""
    first, topic = await _member(s, 2)
    second = Member(s, first.group, "second")
    await second.join(topic)
    await first.until_assigned(topic, 1)
    await second.until_assigned(topic, 1)
    response = accepted(await second.send(member_epoch=LEAVING))
    expect("the epoch of the response", response.member_epoch, LEAVING)
    expect("the partitions", await first.until_assigned(topic, 2), [0, 1])


@check("KIP-848")
async def a_member_that_left_is_unknown(s: Subject) -> None:
    """A consumer would believe that it still owns partitions."""
    member, _ = await _member(s)
    accepted(await member.send(member_epoch=LEAVING))
    response = await member.send()
    expected = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
    expect_error(response.error_code, *expected)


@check("KIP-848")
async def an_unknown_member_is_refused(s: Subject) -> None:
    """A consumer that was removed would go on with partitions of another one."""
    member, _ = await _member(s)
    other = Member(s, member.group, "other")
    expect_error((await other.send(member_epoch=1)).error_code, ErrorCode.UNKNOWN_MEMBER_ID)


@check("KIP-848")
async def a_wrong_epoch_is_fenced(s: Subject) -> None:
    """Two processes with one member id would both read its partitions."""
    member, _ = await _member(s)
    response = await member.send(member_epoch=member.epoch + 5)
    expect_error(response.error_code, ErrorCode.FENCED_MEMBER_EPOCH)


@check("KIP-848")
async def an_empty_group_id_is_refused(s: Subject) -> None:
    """All consumers without a group id would be one group."""
    group = s.group()
    s.version(HEARTBEAT)
    member = Member(s, group)
    await member.join(await s.topic())
    response = await member.send(group_id="", member_epoch=JOINING)
    expect_error(response.error_code, ErrorCode.INVALID_REQUEST)


@check("KIP-848")
async def a_join_names_its_topics(s: Subject) -> None:
    """A consumer with a fault would wait for partitions for ever."""
    s.version(HEARTBEAT)
    member = Member(s, s.group())
    response = await member.send(rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[])
    expect_error(response.error_code, ErrorCode.INVALID_REQUEST)


@check("KIP-848, group.consumer.assignors")
async def an_unknown_assignor_is_refused(s: Subject) -> None:
    """A consumer would get its partitions by another rule than it has chosen."""
    s.version(HEARTBEAT)
    topic = await s.topic()
    response = await Member(s, s.group()).send(
        server_assignor="no-such-assignor", subscribed_topic_names=[topic.name],
        rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[],
    )  # fmt: skip
    expect_error(response.error_code, ErrorCode.UNSUPPORTED_ASSIGNOR)


@check("KIP-848, SubscribedTopicRegex")
async def a_pattern_subscribes_to_topics(s: Subject) -> None:
    """A consumer of a pattern would get no partitions."""
    s.version(HEARTBEAT, 1)
    topic = await s.topic()
    member = Member(s, s.group())
    await member.beat(subscribed_topic_regex=f"{topic.name}.*", rebalance_timeout_ms=REBALANCE_MS)
    expect("the partitions", await member.until_assigned(topic, 1), [0])


@check("KIP-848, SubscribedTopicRegex")
async def an_invalid_pattern_is_refused(s: Subject) -> None:
    """A consumer would wait for partitions for ever."""
    s.version(HEARTBEAT, 1)
    response = await Member(s, s.group()).send(
        subscribed_topic_regex="(", rebalance_timeout_ms=REBALANCE_MS, topic_partitions=[]
    )
    expect_error(response.error_code, ErrorCode.INVALID_REGULAR_EXPRESSION)


@check("KIP-848, OffsetCommit version 9")
async def a_member_commits_with_its_epoch(s: Subject) -> None:
    """A consumer could not commit."""
    s.version(ApiKey.OFFSET_COMMIT, 9)
    member, topic = await _member(s)
    found = await _committed(member, topic, member.epoch)
    expect_error(found, ErrorCode.NONE)


@check("KIP-848, OffsetCommit version 9")
async def a_commit_with_another_epoch_is_refused(s: Subject) -> None:
    """A consumer that lost its partitions would overwrite the offsets of their new owner."""
    s.version(ApiKey.OFFSET_COMMIT, 9)
    member, topic = await _member(s)
    found = await _committed(member, topic, member.epoch + 5)
    expect_error(found, ErrorCode.STALE_MEMBER_EPOCH)


async def _committed(member: Member, topic: Topic, epoch: int) -> int:
    return await try_commit(
        member.s, member.group, topic, 1,
        generation_id_or_member_epoch=epoch, member_id=member.member_id,
    )  # fmt: skip


@check("KIP-848")
async def a_classic_member_of_another_type_is_refused(s: Subject) -> None:
    """A worker of Connect could break a group of consumers by the same name."""
    member, topic = await _member(s)
    await member.until_assigned(topic, 1)
    classic = ScriptedMember(s, member.group)
    response = await classic.try_join(protocol_type="connect")
    expect_error(response.error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


async def _described(s: Subject, group: str) -> Any:
    return (await s.ask_coordinator(DESCRIBE, 0, group, group_ids=[group])).groups[0]


@check("KIP-848")
async def a_group_can_be_described(s: Subject) -> None:
    """An operator could not see who reads a topic."""
    s.version(DESCRIBE)
    member, topic = await _member(s, 2)
    await member.until_assigned(topic, 2)
    found = accepted(await _described(s, member.group))
    expect("the state", found.group_state, "Stable")
    (row,) = found.members
    expect("member and epoch", (row.member_id, row.member_epoch), (member.member_id, member.epoch))
    expect("its topics", row.subscribed_topic_names, [topic.name])
    rows = [(each.topic_name, sorted(each.partitions)) for each in row.assignment.topic_partitions]
    expect("its partitions", rows, [(topic.name, [0, 1])])


@check("KIP-848")
async def an_unknown_group_cannot_be_described(s: Subject) -> None:
    """An operator would not notice a misspelled group."""
    found = await _described(s, s.name())
    refused_as_switched_off(found, "the protocol consumer")
    expect_error(found.error_code, ErrorCode.GROUP_ID_NOT_FOUND)


@check("KIP-848, ListGroups version 5")
async def groups_are_listed_by_type(s: Subject) -> None:
    """An operator could not tell the groups of both protocols apart."""
    s.version(ApiKey.LIST_GROUPS, 5)
    member, _ = await _member(s)
    at = await s.coordinator(member.group)
    for types, expected in ((["consumer"], True), (["classic"], False)):
        response = accepted(await s.ask(ApiKey.LIST_GROUPS, 5, at, types_filter=types))
        found = member.group in {each.group_id for each in response.groups}
        expect(f"whether the group is among those of type {types[0]}", found, expected)
