"""Official Kafka 4 and we give the same answers in the protocol of KIP-848, and write the same
records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.core.client.assignors.model import Subscription
from minikafka.core.client.assignors.wire import encode_assignment, encode_subscription
from minikafka.kernel.cluster import TopicPartition
from minikafka.network.channel import Channel
from minikafka.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
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
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.cluster.group_conversation import GroupConversation, assert_same

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TIMEOUT_MS = 20_000
GROUP = "group"
BROKER = 1
# Members subscribe to one of them at a time: Kafka goes through several in the order of their ids.
PARTITIONS = {"ka": 6, "kb": 3}
JOINS: dict[str, Any] = {
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["ka"],
    "topic_partitions": [],
}


class Conversation(GroupConversation):
    """The requests of members of both protocols."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, GROUP, PARTITIONS)

    async def beat(self, label: str, member_id: str, epoch: int, **facts: Any) -> None:
        """Send a heartbeat; with ``until_epoch`` again and again until the member is in it."""
        group_id, version = facts.pop("group_id", self.group), facts.pop("version", 1)
        until_epoch = facts.pop("until_epoch", epoch)
        request = ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **facts)
        response = await self.ask(label, request, version)
        while response.member_epoch < until_epoch and not response.error_code:
            await asyncio.sleep(0.1)
            response = await self.request(request, version)
        if until_epoch != epoch:
            self.note(label, response)

    def own(self, **partitions: list[int]) -> list[TopicPartitions]:
        return [TopicPartitions(self.ids[name], rows) for name, rows in partitions.items()]

    async def commit(self, label: str, member_id: str, epoch: int, version: int = 9) -> None:
        topic = OffsetCommitRequestTopic("ka", partitions=[OffsetCommitRequestPartition(0, 7)])
        request = OffsetCommitRequest(self.group, epoch, member_id, topics=[topic])
        await self.ask(label, request, version)

    async def fetch(self, label: str, member_id: str | None, epoch: int) -> None:
        topic = OffsetFetchRequestTopics("ka", partition_indexes=[0])
        group = OffsetFetchRequestGroup(self.group, member_id, epoch, [topic])
        await self.ask(label, OffsetFetchRequest(groups=[group]), 9)

    # -- members of the classic protocol; ``who`` is a name for the id that the broker makes

    async def join(
        self,
        label: str,
        who: str,
        *,
        owned: tuple[int, ...] = (),
        topic: str = "ka",
        version: int = 9,
        protocols: tuple[str, ...] = ("range", "cooperative-sticky"),
        subscription_version: int = 3,
        **facts: Any,
    ) -> None:
        partitions = tuple(TopicPartition(topic, number) for number in owned)
        metadata = encode_subscription(Subscription((topic,), partitions), subscription_version)
        named = [JoinGroupRequestProtocol(name, metadata) for name in protocols]
        facts.setdefault("member_id", self.member_ids.get(who, ""))
        facts.setdefault("protocol_type", "consumer")
        request = JoinGroupRequest(self.group, 10_000, 60_000, protocols=named, **facts)
        response = await self.request(request, version)
        if response.member_id and not request.member_id:
            self.member_ids[who] = response.member_id
        self.note(label, response)

    async def sync(
        self, label: str, who: str, generation: int, assigns: bool = False, **facts: Any
    ) -> None:
        """Send SyncGroup; the one that ``assigns`` takes all partitions."""
        member_id = self.member_ids.get(who, who)
        every = encode_assignment([TopicPartition("ka", n) for n in range(PARTITIONS["ka"])])
        assignments = [SyncGroupRequestAssignment(member_id, every)] if assigns else []
        facts = {"protocol_type": "consumer", "protocol_name": "range", **facts}
        request = SyncGroupRequest(
            self.group, generation, member_id, assignments=assignments, **facts
        )
        await self.ask(label, request, 5)

    async def live(self, label: str, who: str, generation: int, **facts: Any) -> None:
        member_id = self.member_ids.get(who, who)
        await self.ask(label, HeartbeatRequest(self.group, generation, member_id, **facts), 4)

    async def leave(self, label: str, *members: MemberIdentity) -> None:
        await self.ask(label, LeaveGroupRequest(self.group, members=list(members)), 5)


async def refusals(talk: Conversation) -> None:
    own = talk.own(ka=[0])
    await talk.beat("unknown group", "m1", 3)
    await talk.beat("no rebalance time-out", "m1", 0)
    await talk.beat("owned partitions unsaid", "m1", 0, rebalance_timeout_ms=1)
    await talk.beat("owned", "m1", 0, rebalance_timeout_ms=1, topic_partitions=own)
    await talk.beat("no topics", "m1", 0, rebalance_timeout_ms=1, topic_partitions=[])
    await talk.beat("unknown assignor", "m1", 0, server_assignor="x", **JOINS)
    await talk.beat("no member id", "", 0, **JOINS)
    await talk.beat("epoch -3", "m1", -3)
    await talk.beat("leaves an unknown group", "m1", -1)
    await talk.beat("no group id", "m1", 0, group_id="", **JOINS)
    await talk.beat("empty instance id", "m1", 0, instance_id="", **JOINS)
    await talk.beat("empty rack", "m1", 0, rack_id="", **JOINS)
    await talk.beat("leaves for now, but is not static", "m1", -2)


async def two_members(talk: Conversation) -> None:
    await talk.beat("joins", "m1", 0, **JOINS)
    await talk.beat("stays", "m1", 1)
    everything = {**JOINS, "topic_partitions": talk.own(ka=list(range(6)))}
    await talk.beat("says all", "m1", 1, **everything)
    await talk.beat("joins again", "m1", 0, **JOINS)
    await talk.beat("an epoch that is none", "m1", 9)
    await talk.beat("another joins", "m2", 0, **JOINS)
    await talk.beat("is to revoke", "m1", 1)
    await talk.beat("is to revoke still", "m1", 1)
    await talk.beat("waits for the other", "m2", 2)
    await talk.beat("has revoked", "m1", 1, topic_partitions=[])
    await talk.beat("has what was revoked", "m2", 2)
    for version in (0, 1):
        await talk.ask("is described", ConsumerGroupDescribeRequest([GROUP, "no"]), version)
    await talk.ask("is listed", ListGroupsRequest([], []), 5)
    await talk.ask("is listed by type", ListGroupsRequest([], ["consumer"]), 5)
    await talk.ask("is no classic one", ListGroupsRequest([], ["classic"]), 5)
    await talk.ask("is listed by state", ListGroupsRequest(["stable"], []), 5)
    for version in (5, 6):
        await talk.ask("is no classic group", DescribeGroupsRequest([GROUP]), version)
    await talk.ask("is not empty", DeleteGroupsRequest([GROUP]), 2)


async def commits(talk: Conversation) -> None:
    await talk.commit("in the epoch", "m1", 2)
    await talk.commit("in an old epoch", "m1", 1)
    await talk.commit("in a later epoch", "m1", 5)
    await talk.commit("of no member", "mx", 2)
    await talk.commit("of an administrator", "", -1)
    await talk.commit("in a version that knows no epochs", "m1", 2, version=8)


async def fetches(talk: Conversation) -> None:
    await talk.fetch("in the epoch", "m1", 2)
    await talk.fetch("in an old epoch", "m1", 1)
    await talk.fetch("of no member", "mx", 2)
    await talk.fetch("of anybody", None, -1)


async def static_members(talk: Conversation) -> None:
    await talk.beat("joins", "s1", 0, instance_id="i1", **JOINS)
    await talk.beat("m1 is to revoke", "m1", 2)
    await talk.beat("m1 has revoked", "m1", 2, topic_partitions=[])
    await talk.beat("m2 is to revoke", "m2", 2)
    await talk.beat("m2 has revoked", "m2", 2, topic_partitions=[])
    await talk.beat("has what was revoked", "s1", 3, instance_id="i1")
    await talk.beat("the instance is taken", "s2", 0, instance_id="i1", **JOINS)
    await talk.beat("is fenced", "s2", 3, instance_id="i1")
    await talk.beat("an unknown instance", "s1", 3, instance_id="i9")
    await talk.beat("leaves for now", "s1", -2, instance_id="i1")
    await talk.beat("is away", "s1", 3, instance_id="i1")
    await talk.beat("is back", "s2", 0, instance_id="i1", **JOINS)
    await talk.beat("its old id", "s1", 3, instance_id="i1")
    await talk.ask("is described", ConsumerGroupDescribeRequest([GROUP]), 1)
    await talk.beat("leaves", "s2", -1, instance_id="i1")


async def changed_subscriptions(talk: Conversation) -> None:
    """A member that has not revoked yet is told at once what else to revoke."""
    talk.group = "changed"
    await talk.beat("joins", "m1", 0, **JOINS)
    await talk.beat("another joins", "m2", 0, **JOINS)
    own = talk.own(ka=[0, 1, 2, 3, 4, 5])
    await talk.beat("is to revoke", "m1", 1, topic_partitions=own)
    kb = ["kb"]
    await talk.beat("is to revoke all", "m1", 1, subscribed_topic_names=kb, topic_partitions=own)
    await talk.beat("is to revoke still", "m1", 1, topic_partitions=own)
    await talk.beat("the other waits", "m2", 2)
    await talk.beat("has revoked", "m1", 1, topic_partitions=[])
    await talk.beat("the other has it", "m2", 3)
    both = {"subscribed_topic_names": ["ka", "kb"], "topic_partitions": talk.own(kb=[0, 1, 2])}
    await talk.beat("subscribes to both", "m1", 3, **both)
    await talk.beat("the other is to revoke", "m2", 3)
    await talk.beat("subscribes to none", "m2", 3, subscribed_topic_names=[])
    await talk.beat("has revoked that", "m2", 3, topic_partitions=[])
    await talk.beat("leaves", "m1", -1)
    await talk.beat("leaves, too", "m2", -1)


async def expressions(talk: Conversation) -> None:
    """The topics are to be given up at once, in the same epoch, while the new regular expression
    is being resolved."""
    talk.group = "regex"
    await talk.beat("joins", "m1", 0, **JOINS)
    regex = {"subscribed_topic_names": [], "subscribed_topic_regex": "kb|kc"}
    await talk.beat("is to revoke", "m1", 1, **regex)
    await talk.until_resolved()
    await talk.beat("has revoked", "m1", 1, topic_partitions=[], until_epoch=2)
    await talk.beat("another subscribes by it", "m2", 0, **{**JOINS, **regex})
    await talk.beat("is to revoke again", "m1", 2)
    await talk.beat("subscribes by none", "m1", 2, **JOINS | {"subscribed_topic_regex": ""})
    await talk.beat("the other has all", "m2", 4)
    await talk.beat("leaves", "m2", -1)
    await talk.beat("leaves, too", "m1", -1)


async def an_end(talk: Conversation) -> None:
    await talk.beat("m1 goes on", "m1", 3)
    await talk.beat("m2 goes on", "m2", 3)
    await talk.beat("m2 joins again", "m2", 0, **JOINS)
    await talk.beat("prefers range", "m1", 4, server_assignor="range")
    await talk.beat("subscribes to another", "m1", 4, subscribed_topic_names=["kb"])
    await talk.beat("has that", "m1", 4, topic_partitions=[])
    await talk.beat("has it all", "m2", 4)
    await talk.beat("m1 leaves", "m1", -1)
    await talk.beat("m2 leaves", "m2", -1)
    await talk.beat("m2 has left", "m2", -1)
    await talk.ask("is described", ConsumerGroupDescribeRequest([GROUP]), 1)
    await talk.commit("of an administrator", "", -1)
    await talk.ask("is deleted", DeleteGroupsRequest([GROUP]), 2)


# -- members of the classic protocol


async def an_upgrade(talk: Conversation) -> None:
    """A classic group becomes a consumer group, and its member learns what it must revoke."""
    talk.group = "up"
    await talk.join("needs an id", "c1")
    await talk.join("joins", "c1")
    await talk.sync("assigns", "c1", 1, assigns=True)
    await talk.live("lives", "c1", 1)
    await talk.beat("stays in no consumer group", "m1", 1)
    await talk.beat("another joins", "m1", 0, **JOINS)
    await talk.ask("is described", ConsumerGroupDescribeRequest(["up"]), 1)
    await talk.ask("is no classic group", DescribeGroupsRequest(["up"]), 6)
    await talk.live("is to join again", "c1", 1)
    await talk.sync("is to join first", "c1", 1)
    await talk.commit("in its generation", talk.member_ids["c1"], 1, version=8)
    await talk.commit("in another generation", talk.member_ids["c1"], 2)
    await talk.fetch("in its generation", talk.member_ids["c1"], 1)
    await talk.fetch("in another generation", talk.member_ids["c1"], 3)
    await talk.join("joins again", "c1", owned=(0, 1, 2, 3, 4, 5))
    await talk.live("has not synced", "c1", 1)
    await talk.sync("is told what it keeps", "c1", 1)
    await talk.live("is to say that it revoked", "c1", 1)
    await talk.beat("the other waits", "m1", 2)
    await talk.join("has revoked", "c1", owned=(0, 1, 2))
    await talk.sync("keeps the rest", "c1", 2)
    await talk.live("is stable", "c1", 2)
    await talk.beat("the other has what was revoked", "m1", 2)
    await talk.ask("is described again", ConsumerGroupDescribeRequest(["up"]), 1)


async def classic_refusals(talk: Conversation) -> None:
    """Requests that no member of the classic protocol may send to the group of ``an_upgrade``."""
    await talk.join("another protocol type", "nobody", protocol_type="connect")
    await talk.join("an unknown protocol", "nobody", protocols=("custom",))
    await talk.join("no protocol", "nobody", protocols=())
    await talk.join("an unknown instance", "nobody", member_id="nobody", group_instance_id="i9")
    await talk.sync("unknown member", "nobody", 2)
    await talk.sync("another generation", "c1", 1)
    await talk.sync("another protocol", "c1", 2, protocol_name="custom")
    await talk.sync("another protocol type", "c1", 2, protocol_type="connect")
    await talk.sync("speaks the other protocol", "m1", 2)
    await talk.live("unknown member", "nobody", 2)
    await talk.live("another generation", "c1", 1)
    await talk.live("speaks the other protocol", "m1", 2)
    await talk.live("an unknown instance", "c1", 2, group_instance_id="i9")
    await talk.leave("unknown members", MemberIdentity("nobody"), MemberIdentity("", "i9"))


async def classic_members(talk: Conversation) -> None:
    """Members of the classic protocol join the group of ``an_upgrade``, and leave it."""
    await talk.join("needs an id", "c2")
    await talk.join("joins", "c2", subscription_version=1)
    await talk.sync("has nothing yet", "c2", 3)
    await talk.live("waits", "c2", 3)
    await talk.join("c1 has something to revoke", "c1", owned=(0, 1, 2))
    await talk.join("c1 has revoked", "c1", owned=(0, 1))
    await talk.sync("c1 syncs", "c1", 3)
    await talk.live("may have some", "c2", 3)
    await talk.beat("m1 is to revoke", "m1", 2)
    await talk.beat("m1 has revoked", "m1", 2, topic_partitions=talk.own(ka=[3, 4]))
    await talk.join("takes all", "c2", owned=())
    await talk.sync("has all", "c2", 3)
    await talk.live("is stable", "c2", 3)
    await talk.leave("leaves", MemberIdentity(talk.member_ids["c2"], reason="done"))
    await talk.join("static", "s1", group_instance_id="i1", version=8)
    await talk.sync("static syncs", "s1", 5, group_instance_id="i1")
    await talk.join("static again", "s2", group_instance_id="i1")
    await talk.live("is fenced", "s1", 5, group_instance_id="i1")
    await talk.beat("takes the place of a classic member", "m2", 0, instance_id="i1", **JOINS)
    await talk.join("is in the way", "s2", group_instance_id="i1")
    await talk.join("takes it back", "s3", group_instance_id="i1")
    await talk.leave("is fenced, too", MemberIdentity("m2", "i1"))
    await talk.leave("leaves by its instance", MemberIdentity("", "i1"))


async def a_downgrade(talk: Conversation) -> None:
    """The last member of the consumer protocol leaves the group of ``an_upgrade``."""
    await talk.beat("leaves", "m1", -1)
    await talk.ask("is no consumer group", ConsumerGroupDescribeRequest(["up"]), 1)
    await talk.live("is in an old generation", "c1", 3)
    await talk.live("is to join again", "c1", 6)
    await talk.join("leads", "c1", owned=(0, 1))
    await talk.sync("assigns", "c1", 7, assigns=True)
    await talk.live("is stable", "c1", 7)
    await talk.ask("is described", DescribeGroupsRequest(["up"]), 6)
    await talk.join("leads again", "c1", owned=(0, 1))
    await talk.ask("is described while it syncs", DescribeGroupsRequest(["up"]), 6)
    await talk.leave("leaves", MemberIdentity(talk.member_ids["c1"]))


async def a_static_downgrade(talk: Conversation) -> None:
    """A static member of the classic protocol takes the place of the last one of the other."""
    talk.group = "static"
    await talk.beat("joins", "m1", 0, instance_id="i1", **JOINS)
    await talk.join("another speaks the classic protocol", "chosen", member_id="chosen")
    await talk.sync("has nothing yet", "chosen", 2)
    await talk.beat("is to revoke", "m1", 1, instance_id="i1")
    own = talk.own(ka=[0, 1, 2])
    await talk.beat("has revoked", "m1", 1, instance_id="i1", topic_partitions=own)
    await talk.join("takes the rest", "chosen", member_id="chosen")
    await talk.sync("has the rest", "chosen", 2)
    await talk.join("comes back", "t1", group_instance_id="i1")
    await talk.ask("is described", DescribeGroupsRequest(["static"]), 6)
    await talk.sync("syncs", "t1", 2, group_instance_id="i1")
    await talk.live("lives", "t1", 2, group_instance_id="i1")
    await talk.live("another lives", "chosen", 2)


async def another_static_downgrade(talk: Conversation) -> None:
    """As before, but the new member subscribes to another topic."""
    talk.group = "other"
    await talk.beat("joins", "m1", 0, instance_id="i1", **JOINS)
    await talk.join("comes back", "u1", group_instance_id="i1", topic="kb")
    await talk.live("is to join again", "u1", 1, group_instance_id="i1")
    await talk.join("leads", "u1", group_instance_id="i1", topic="kb")


SCENES = (
    refusals,
    two_members,
    commits,
    fetches,
    static_members,
    an_end,
    changed_subscriptions,
    expressions,
    an_upgrade,
    classic_refusals,
    classic_members,
    a_downgrade,
    a_static_downgrade,
    another_static_downgrade,
)


@pytest.mark.mission("G848-1")
def test_answers_and_records_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    assert_same(theirs, ours, Conversation, SCENES)
