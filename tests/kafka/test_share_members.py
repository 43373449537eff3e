"""Official Kafka 4 and we give the same answers to members and administrators of share groups, and
write the same records."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.network.channel import Channel
from minikafka.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.list_groups import ListGroupsRequest
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from minikafka.protocol.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest
from tests.support.cluster.group_conversation import (
    GROUP_RESOURCE,
    GroupConversation,
    alter_group,
    assert_same,
)

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

GROUP = "sharers"
TUNED = "tuned"  # a group with settings of its own
PARTITIONS = {"sa": 3, "sb": 1}


class Conversation(GroupConversation):
    """The requests of members and administrators of share groups."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, GROUP, PARTITIONS, without=TUNED)

    async def begin(self) -> None:
        """Wait until the share coordinator is there, too: the first to ask it makes its topic."""
        await super().begin()
        rows = [DescribeShareGroupOffsetsRequestTopic("sa", [0])]
        probe = DescribeShareGroupOffsetsRequest(
            [DescribeShareGroupOffsetsRequestGroup("probe", rows)]
        )
        for _ in range(200):
            (group,) = (await self.request(probe, 0)).groups
            if not any(row.error_code for topic in group.topics for row in topic.partitions):
                return
            await asyncio.sleep(0.1)

    async def beat(
        self,
        label: str,
        member_id: str,
        epoch: int,
        *topics: str,
        rack: str | None = None,
        group_id: str | None = None,
    ) -> None:
        names = list(topics) or None
        group = self.group if group_id is None else group_id
        request = ShareGroupHeartbeatRequest(group, member_id, epoch, rack, names)
        await self.ask(label, request, 1)

    async def until(self, label: str, member_id: str, epoch: int) -> None:
        """Repeat a heartbeat until its answer raises the epoch: states were made meanwhile."""
        request = ShareGroupHeartbeatRequest(self.group, member_id, epoch)
        for _ in range(200):
            response = await self.request(request, 1)
            if response.member_epoch != epoch:
                break
            await asyncio.sleep(0.1)
        self.note(label, response)

    async def until_interval(self, label: str, interval_ms: int) -> None:
        """Let a member join and leave until it gets this heartbeat interval."""
        for _ in range(200):
            joins = ShareGroupHeartbeatRequest(TUNED, "m", 0, None, ["sb"])
            response = await self.request(joins, 1)
            leaves = ShareGroupHeartbeatRequest(TUNED, "m", -1)
            await self.request(leaves, 1)
            if response.heartbeat_interval_ms == interval_ms:
                break
            await asyncio.sleep(0.1)
        self.answers.append((label, str(response.heartbeat_interval_ms)))

    async def alter_settings(
        self, label: str, changes: dict[str, str | None], name: str = TUNED
    ) -> None:
        await self.ask(f"alters {label}", alter_group(name, changes), 1)

    async def describe_settings(self, label: str, name: str) -> None:
        resource = DescribeConfigsResource(GROUP_RESOURCE, name, None)
        request = DescribeConfigsRequest([resource], include_synonyms=True)
        await self.ask(f"describes settings {label}", request, 4)

    async def offsets(self, label: str, *topics: str, group_id: str = GROUP) -> None:
        """Describe the first share-partition of topics; all of the group without topics."""
        rows = [DescribeShareGroupOffsetsRequestTopic(topic, [0]) for topic in topics]
        group = DescribeShareGroupOffsetsRequestGroup(group_id, rows or None)
        for version in (0, 1):
            await self.ask(label, DescribeShareGroupOffsetsRequest([group]), version)

    async def alter(self, label: str, offset: int, *topics: str, group_id: str = GROUP) -> None:
        """Let partition 0 of topics, and one that no topic has, start at an offset."""
        rows = [
            AlterShareGroupOffsetsRequestTopic(
                topic,
                [
                    AlterShareGroupOffsetsRequestPartition(0, offset),
                    AlterShareGroupOffsetsRequestPartition(99, offset),
                ],
            )
            for topic in topics
        ]
        await self.ask(label, AlterShareGroupOffsetsRequest(group_id, rows), 0)

    async def delete(self, label: str, *topics: str, group_id: str = GROUP) -> None:
        rows = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
        await self.ask(label, DeleteShareGroupOffsetsRequest(group_id, rows), 0)


async def refusals(talk: Conversation) -> None:
    await talk.beat("unknown group", "m1", 3)
    await talk.beat("leaves an unknown group", "m1", -1)
    await talk.beat("no topics", "m1", 0)
    await talk.beat("no member id", "", 0, "sa")
    await talk.beat("a long member id", 37 * "x", 0, "sa")
    await talk.beat("no group id", "m1", 0, "sa", group_id="")
    await talk.beat("empty rack", "m1", 0, "sa", rack="")
    await talk.beat("epoch -2", "m1", -2)
    for name in ("no", ""):
        await talk.ask("is described", ShareGroupDescribeRequest([name]), 1)
    await talk.offsets("of an unknown group", "sa", "no", group_id="no")
    await talk.offsets("all of an unknown group", group_id="no")
    await talk.alter("without a group id", 1, "sa", group_id="")
    await talk.delete("of an unknown group", "sa", group_id="no")
    await talk.delete("without a group id", "sa", group_id="")


async def members(talk: Conversation) -> None:
    await talk.beat("joins", "m1", 0, "sa", rack="r")
    await talk.until("has all partitions", "m1", 1)
    await talk.beat("stays", "m1", 2)
    await talk.beat("says all", "m1", 2, "sa")
    await talk.beat("comes with the previous epoch", "m1", 1)
    await talk.beat("an epoch that is none", "m1", 9)
    await talk.beat("no member", "mx", 2)
    await talk.beat("another joins", "m2", 0, "sb")
    await talk.until("m2 has its partition", "m2", 3)
    await talk.beat("m1 goes on", "m1", 2)
    await talk.beat("an epoch before the previous", "m1", 1)
    await talk.beat("a third one joins", "m3", 0, "sb")
    await talk.beat("m2 shares its partition", "m2", 4)
    await talk.ask("is described", ShareGroupDescribeRequest([GROUP], True), 1)
    await talk.ask("is listed", ListGroupsRequest([], ["Share"]), 5)
    await talk.ask("is listed by state", ListGroupsRequest(["stable"], []), 5)
    await talk.ask("is not empty", DeleteGroupsRequest([GROUP]), 2)
    await talk.alter("is not empty", 1, "sa")
    await talk.delete("is not empty", "sa")
    await talk.offsets("have no start yet", "sa", "sb", "no")
    await talk.offsets("have no start yet")


async def other_protocols(talk: Conversation) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    joins = JoinGroupRequest(GROUP, 10_000, 60_000, "", None, "consumer", protocols)
    await talk.ask("a classic member joins", joins, 9)
    await talk.ask("a classic member syncs", SyncGroupRequest(GROUP, 1, "m1"), 5)
    await talk.ask("a classic heartbeat", HeartbeatRequest(GROUP, 1, "m1"), 4)
    leaves = LeaveGroupRequest(GROUP, members=[MemberIdentity("m1")])
    await talk.ask("a classic member leaves", leaves, 5)
    consumer = ConsumerGroupHeartbeatRequest(
        GROUP, "c1", 0, rebalance_timeout_ms=1, subscribed_topic_names=["sa"], topic_partitions=[]
    )
    await talk.ask("a consumer joins", consumer, 1)
    await talk.ask("no consumer group", ConsumerGroupDescribeRequest([GROUP]), 1)
    await talk.ask("no classic group", DescribeGroupsRequest([GROUP]), 6)
    commits = OffsetCommitRequestTopic("sa", partitions=[OffsetCommitRequestPartition(0, 7)])
    await talk.ask("a commit", OffsetCommitRequest(GROUP, -1, "", topics=[commits]), 9)
    topics = [OffsetFetchRequestTopics("sa", partition_indexes=[0])]
    for some in (topics, None):
        fetches = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=some)])
        await talk.ask("a fetch", fetches, 9)
    deletes = OffsetDeleteRequestTopic("sa", [OffsetDeleteRequestPartition(0)])
    await talk.ask("a deletion", OffsetDeleteRequest(GROUP, [deletes]), 0)


async def changes(talk: Conversation) -> None:
    await talk.beat("subscribes to another topic", "m1", 4, "sb")
    await talk.beat("m2 goes on", "m2", 5)
    await talk.beat("m1 leaves", "m1", -1)
    await talk.beat("m2 leaves", "m2", -1)
    await talk.beat("subscribes to both", "m3", 5, "sa", "sb")
    await talk.beat("goes on", "m3", 9)
    await talk.beat("m3 leaves", "m3", -1)
    await talk.ask("is empty", ShareGroupDescribeRequest([GROUP]), 1)


async def offsets(talk: Conversation) -> None:
    await talk.alter("alters", 2, "sa", "no")
    await talk.offsets("as altered", "sa")
    await talk.delete("deletes", "sa", "no")
    await talk.offsets("deleted", "sa")
    await talk.delete("deletes again", "sa")
    await talk.alter("makes a group", 5, "sb", group_id="made")
    await talk.offsets("all of it", group_id="made")
    await talk.ask("is described", ShareGroupDescribeRequest(["made"]), 1)
    await talk.ask("are deleted", DeleteGroupsRequest([GROUP]), 2)
    await talk.ask("are deleted", DeleteGroupsRequest(["made"]), 2)
    await talk.ask("are gone", DeleteGroupsRequest([GROUP]), 2)
    await talk.offsets("gone", "sb", group_id="made")


async def settings(talk: Conversation) -> None:
    """The config resource GROUP."""
    await talk.describe_settings("of an unknown group", "any")
    await talk.describe_settings("of no group", "")
    session, beat = "share.session.timeout.ms", "share.heartbeat.interval.ms"
    await talk.alter_settings("of no group", {session: "50000"}, name="")
    await talk.alter_settings("an unknown key", {"x": "1"})
    await talk.alter_settings("a key of the broker", {"group.share.max.size": "2"})
    await talk.alter_settings("too short a session", {session: "44999"})
    await talk.alter_settings("too long a session", {session: "60001"})
    await talk.alter_settings("too short an interval", {beat: "4999"})
    await talk.alter_settings("too short a lock", {"share.record.lock.duration.ms": "14999"})
    await talk.alter_settings("too many replicas", {"streams.num.standby.replicas": "3"})
    await talk.alter_settings(
        "settings",
        {
            session: "50000",
            beat: "7000",
            "share.auto.offset.reset": "by_duration:PT1H",
            "consumer.session.timeout.ms": "46000",
        },
    )
    await talk.until_interval("as altered", 7000)  # after an answer they are not yet everywhere
    await talk.describe_settings("as altered", TUNED)
    await talk.alter_settings("settings back", {beat: None, session: None})
    await talk.until_interval("as it was", 5000)
    await talk.describe_settings("as they were", TUNED)


SCENES = (refusals, settings, members, other_protocols, changes, offsets)


@pytest.mark.mission("SHR-6")
def test_answers_and_records_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    assert_same(theirs, ours, Conversation, SCENES)
