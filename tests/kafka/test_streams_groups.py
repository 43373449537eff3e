"""Official Kafka 4 and we give the same answers to members of streams groups (KIP-1071), and write
the same records."""

from __future__ import annotations

import asyncio
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from minikafka.network.channel import Channel
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from minikafka.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from minikafka.protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from minikafka.protocol.messages.streams_topology import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    UserEndpoint,
)
from tests.support.cluster.group_conversation import (
    GroupConversation,
    alter_group,
    assert_same,
)

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TIMEOUT_MS = 20_000
GROUPS = ("streams", "missing", "partitions", "fixed", "stateless", "app")
PARTITIONS = {"ia": 4, "ib": 2}
STATELESS = Topology(0, [Subtopology("0", ["ia"])])
COUNTS = Topology(
    0,
    [
        Subtopology("0", ["ia"], repartition_sink_topics=["app-by-word-repartition"]),
        Subtopology(
            "1",
            repartition_source_topics=[TopicInfo("app-by-word-repartition", 2)],
            state_changelog_topics=[
                TopicInfo("app-counts-changelog", 0, 1, [KeyValue("cleanup.policy", "compact")])
            ],
            copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
        ),
    ],
)
INTERNAL = ("app-by-word-repartition", "app-counts-changelog")
JOINS: dict[str, Any] = {
    "rebalance_timeout_ms": 60_000,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "endpoint_information_epoch": -1,
}


def active(*partitions: int, name: str = "0") -> list[TaskIds]:
    return [TaskIds(name, list(partitions))] if partitions else []


class Conversation(GroupConversation):
    """The requests of members of streams groups."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, "streams", PARTITIONS)

    async def beat(
        self, label: str, member_id: str, epoch: int, **facts: Any
    ) -> StreamsGroupHeartbeatResponse:
        group_id = facts.pop("group_id", self.group)
        request = StreamsGroupHeartbeatRequest(group_id, member_id, epoch, **facts)
        response: StreamsGroupHeartbeatResponse = await self.ask(label, request)
        return response

    async def join(
        self, label: str, member_id: str, topology: Topology | None, **facts: Any
    ) -> None:
        facts = {**JOINS, "process_id": f"process-{member_id}", **facts}
        await self.beat(label, member_id, 0, topology=topology, **facts)

    async def own(
        self,
        label: str,
        member_id: str,
        epoch: int,
        tasks: list[TaskIds],
        standby: list[TaskIds] | None = None,
    ) -> None:
        """Send a heartbeat that says which tasks the member has."""
        kinds = {"active_tasks": tasks, "standby_tasks": standby or [], "warmup_tasks": []}
        await self.beat(label, member_id, epoch, **kinds)

    async def describe(self, label: str = "is described") -> None:
        await self.ask(label, StreamsGroupDescribeRequest([self.group]))

    async def commit(
        self, label: str, member_id: str, epoch: int, partition: int = 0, version: int = 9
    ) -> None:
        rows = [OffsetCommitRequestPartition(partition, 7)]
        topic = OffsetCommitRequestTopic("ia", partitions=rows)
        request = OffsetCommitRequest(self.group, epoch, member_id, topics=[topic])
        await self.ask(label, request, version)

    async def fetch(self, label: str, member_id: str | None, epoch: int) -> None:
        topic = OffsetFetchRequestTopics("ia", partition_indexes=[0])
        group = OffsetFetchRequestGroup(self.group, member_id, epoch, [topic])
        await self.ask(label, OffsetFetchRequest(groups=[group]), 9)

    def _tidy(self, value: Any) -> None:
        """Sort rows: some of Kafka's are in the order of a hash map."""
        if isinstance(value, list):
            for each in value:
                self._tidy(each)
            if value and not isinstance(value[0], int):
                value.sort(key=repr)
        elif is_dataclass(value):
            for each in fields(value):
                self._tidy(getattr(value, each.name))


async def settings(talk: Conversation) -> None:
    """Set those of the broker that are of groups: official Kafka describes other groups without
    them, and a group of another file shall be described alike."""
    changes = {"streams.initial.rebalance.delay.ms": "0", "streams.num.standby.replicas": "1"}
    for name in GROUPS:
        await talk.ask(f"sets {name}", alter_group(name, changes), 1)


async def refusals(talk: Conversation) -> None:
    await talk.beat("unknown group", "m1", 3)
    await talk.beat("leaves an unknown group", "m1", -1)
    await talk.join("no rebalance time-out", "m1", STATELESS, rebalance_timeout_ms=-1)
    for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
        await talk.join(f"{kind} unsaid", "m1", STATELESS, **{kind: None})
        await talk.join(kind, "m1", STATELESS, **{kind: active(0)})
    await talk.join("no topology", "m1", None)
    await talk.join("static", "m1", STATELESS, instance_id="i1")
    await talk.join("empty rack", "m1", STATELESS, rack_id="")
    await talk.join("no member id", "", STATELESS)
    await talk.join("no group id", "m1", STATELESS, group_id="")
    await talk.join("task offsets", "m1", STATELESS, task_offsets=[TaskOffset("0", 1, 2)])
    await talk.join("end offsets", "m1", STATELESS, task_end_offsets=[])
    await talk.beat("epoch -3", "m1", -3)
    await talk.beat("leaves for now", "m1", -2)
    await talk.beat("a topology that is too late", "m1", 1, topology=STATELESS)
    await talk.beat("one kind of tasks", "m1", 1, active_tasks=[])
    regex = Topology(0, [Subtopology("0", ["ia"], ["k.*"])])
    await talk.join("a regular expression", "m1", regex)
    changelog = Topology(0, [Subtopology("0", ["ia"], [], [TopicInfo("c", 3)])])
    await talk.join("a changelog with partitions", "m1", changelog)
    await talk.join(
        "an internal topic", "m1", Topology(0, [Subtopology("0", ["__consumer_offsets"])])
    )
    await talk.join("an invalid name", "m1", Topology(0, [Subtopology("0", ["a b"])]))
    loop = Topology(0, [Subtopology("0", [], [], [], ["r"], [TopicInfo("r")])])
    await talk.join("a loop", "m1", loop)
    orphan = Topology(0, [Subtopology("0", ["ia"], [], [], [], [TopicInfo("r")])])
    await talk.join("a repartition topic that nobody writes", "m1", orphan)


async def unsuitable_topics(talk: Conversation) -> None:
    talk.group = "missing"
    await talk.join("source topics are missing", "m1", Topology(0, [Subtopology("0", ["x", "y"])]))
    await talk.beat("are missing still", "m1", 2)
    await talk.describe()
    await talk.ask("is listed", ListGroupsRequest([], ["streams"]), 5)
    talk.group = "partitions"
    together = [CopartitionGroup([0, 1])]
    topology = Topology(0, [Subtopology("0", ["ia", "ib"], copartition_groups=together)])
    await talk.join("other partition counts", "m1", topology)
    talk.group = "fixed"
    group = [CopartitionGroup([0], [], [0])]
    topics = [TopicInfo("app-fixed-repartition", 3)]
    topology = Topology(0, [Subtopology("0", ["ia"], [], [], [], topics, group)])
    await talk.join("another fixed count", "m1", topology)
    for name in ("missing", "partitions", "fixed"):
        talk.group = name
        await talk.beat("leaves", "m1", -1)


async def stateless_tasks(talk: Conversation) -> None:
    talk.group = "stateless"
    facts = {"rack_id": "r1", "client_tags": [KeyValue("zone", "a")]}
    await talk.join("joins", "m1", STATELESS, **facts)
    await talk.describe("is described without counts")
    await talk.beat("stays", "m1", 2)
    await talk.join("joins again", "m1", STATELESS, **facts)
    await talk.join("another joins", "m2", STATELESS, user_endpoint=UserEndpoint("host2", 80))
    await talk.beat("is to revoke", "m1", 2)
    await talk.own("is to revoke still", "m1", 2, active(0, 1, 2, 3))
    await talk.beat("waits for the other", "m2", 3)
    await talk.describe("is described while it reconciles")
    await talk.own("has revoked", "m1", 2, active(0, 2))
    await talk.beat("has what was revoked", "m2", 3, endpoint_information_epoch=1)
    await talk.beat("has it still", "m2", 3, endpoint_information_epoch=2)
    await talk.own("lost the response", "m1", 2, active(0, 2))
    await talk.own("lost it and has too much", "m1", 2, active(0, 1))
    await talk.beat("an epoch that is none", "m1", 9)
    await talk.own("a task that is none", "m1", 3, active(7))
    await talk.own("a subtopology that is none", "m1", 3, active(0, name="x"))
    await talk.describe()
    await talk.ask("unknown", StreamsGroupDescribeRequest(["no", ""]))
    await talk.ask("is listed", ListGroupsRequest([], ["streams"]), 5)
    await talk.ask("is listed by state", ListGroupsRequest(["stable"], []), 5)
    await talk.ask("is no classic group", DescribeGroupsRequest([talk.group]), 6)
    await talk.ask("is not empty", DeleteGroupsRequest([talk.group]), 2)


async def offsets(talk: Conversation) -> None:
    await talk.commit("in the epoch", "m1", 3)
    await talk.commit("in the epoch of the task", "m1", 2)
    await talk.commit("of a task that it had", "m1", 2, partition=1)
    await talk.commit("before it had the task", "m2", 2, partition=1)
    await talk.commit("in an epoch before its tasks", "m1", 1)
    await talk.commit("in a later epoch", "m1", 5)
    await talk.commit("of no member", "mx", 3)
    await talk.commit("of an administrator", "", -1)
    await talk.commit("in a version that knows no epochs", "m1", 3, version=8)
    await talk.fetch("in the epoch", "m1", 3)
    await talk.fetch("in an old epoch", "m1", 2)
    await talk.fetch("of no member", "mx", 3)
    await talk.fetch("of anybody", None, -1)
    rows = [OffsetDeleteRequestPartition(0)]
    topics = [OffsetDeleteRequestTopic(name, rows) for name in ("ia", "ib")]
    await talk.ask("is read", OffsetDeleteRequest(talk.group, topics))


async def topologies(talk: Conversation) -> None:
    await talk.join("another topology", "m3", Topology(0, [Subtopology("0", ["ib"])]))
    await talk.join("a newer topology", "m3", Topology(1, [Subtopology("0", ["ia"])]))
    classic = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(
        talk.group, 10_000, 10_000, "m9", protocol_type="consumer", protocols=classic
    )
    await talk.ask("a classic member", request, 9)


async def an_end(talk: Conversation) -> None:
    await talk.beat("wants all to end", "m1", 3, shutdown_application=True)
    await talk.beat("is to end", "m2", 3, endpoint_information_epoch=2)
    await talk.beat("leaves", "m1", -1)
    await talk.beat("has left", "m1", -1)
    await talk.beat("takes all", "m2", 3, endpoint_information_epoch=2)
    await talk.describe()
    await talk.beat("leaves", "m2", -1)
    await talk.describe("is empty")
    await talk.join("joins an empty group", "m4", STATELESS)
    await talk.beat("leaves", "m4", -1)
    await talk.commit("of an administrator", "", -1)
    rows = [OffsetDeleteRequestPartition(partition) for partition in range(4)]
    topics = [OffsetDeleteRequestTopic("ia", rows)]
    await talk.ask("has no offset then", OffsetDeleteRequest(talk.group, topics))
    await talk.describe("is there without offsets")
    await talk.ask("is deleted", DeleteGroupsRequest([talk.group]), 2)
    await talk.describe("is gone")


async def internal_topics(talk: Conversation) -> None:
    talk.group = "app"
    await talk.join("internal topics are missing", "m1", COUNTS)
    counts = await talk.until_topics(*INTERNAL)
    talk.answers.append(("the internal topics have partitions", repr(counts)))
    beat = StreamsGroupHeartbeatRequest("app", "m1", 2)
    response = await talk.request(beat, 0)
    while any(s.status_code == StatusCode.MISSING_INTERNAL_TOPICS for s in response.status):
        await asyncio.sleep(0.1)
        response = await talk.request(beat, 0)
    talk.note("they are there", response)
    await talk.describe()
    all_tasks = [TaskIds("0", [0, 1, 2, 3]), TaskIds("1", [0, 1])]
    await talk.own("has all", "m1", 3, all_tasks)
    await talk.join("another joins", "m2", COUNTS)
    await talk.own("is to revoke", "m1", 3, all_tasks)
    await talk.describe("is described while it reconciles")
    await talk.beat("waits", "m2", 4)
    response = await talk.beat("is to revoke still", "m1", 3)
    assert response.active_tasks is None
    await talk.own("has revoked", "m1", 3, [])
    await talk.beat("m2 has what was revoked", "m2", 4)
    await talk.beat("m1 has its standby task", "m1", 4)
    await talk.beat("m2 goes on", "m2", 4)
    await talk.beat("m1 goes on", "m1", 4)
    await talk.describe("has standby tasks")
    await talk.join("of the same process", "m3", COUNTS, process_id="process-m1")
    for round_number in range(3):
        for member, epoch in (("m1", 4), ("m2", 4), ("m3", 5)):
            await talk.beat(f"{member} in round {round_number}", member, epoch)
    await talk.describe("has three members")
    await talk.beat("m2 leaves", "m2", -1)
    await talk.describe("has lost one")


SCENES = (
    settings,
    refusals,
    unsuitable_topics,
    stateless_tasks,
    offsets,
    topologies,
    an_end,
    internal_topics,
)


@pytest.mark.mission("STR-1")
def test_answers_and_records_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    assert_same(theirs, ours, Conversation, SCENES)
