"""Share-partitions on simulated brokers: locks end, connections are lost, leaders change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from minikafka.client import Admin
from minikafka.client.consumer.share_consumer import ShareConsumer, ShareConsumerConfig
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.client.consumer.share_session import ShareFetchSession
from minikafka.core.share.persister import (
    UNINITIALIZED_START_OFFSET,
    InitialState,
    TopicIdPartition,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from minikafka.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.server.node.state_facts import StateFacts
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name

WATCHED: Final = TopicPartition("shared", 0)
GROUP: Final = "g"
LOCK_S: Final = 30
ACCEPT, RELEASE, REJECT = 1, 2, 3
LONGER_THAN_ITS_SESSION_S = 8
E = ErrorCode


class Member:
    """A member's share session at the leader of the partition."""

    def __init__(self, stage: Stage, name: str, channel: Channel, group: str) -> None:
        self._stage = stage
        self._group = group
        self._name = name
        self.channel = channel
        self._epoch = 0

    async def fetch(self, wait_ms: int = 100) -> PartitionData | None:
        """Return what a ShareFetch has of the partition."""
        rows = [FetchPartition(0)] if self._epoch == 0 else []
        request = ShareFetchRequest(
            self._group,
            self._name,
            self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[FetchTopic(self._stage.topic_id, rows)] if rows else [],
        )
        self._epoch += 1
        response: Any = await self.channel.request(request, 2, 60_000)
        assert not response.error_code, ErrorCode(response.error_code)
        found = [row for topic in response.responses for row in topic.partitions]
        return found[0] if found else None

    async def acquired(self, wait_ms: int = 100) -> list[tuple[int, int, int]]:
        """Return what a ShareFetch acquires: first and last offset, delivery count."""
        found = await self.fetch(wait_ms)
        rows = [] if found is None else found.acquired_records
        return [(row.first_offset, row.last_offset, row.delivery_count) for row in rows]

    async def acknowledge(self, first: int, last: int, kind: int = ACCEPT) -> ErrorCode:
        batches = [AcknowledgementBatch(first, last, [kind])]
        topics = [AcknowledgeTopic(self._stage.topic_id, [AcknowledgePartition(0, batches)])]
        request = ShareAcknowledgeRequest(self._group, self._name, self._epoch, topics=topics)
        self._epoch += 1
        response: Any = await self.channel.request(request, 2, 60_000)
        assert not response.error_code, ErrorCode(response.error_code)
        return ErrorCode(response.responses[0].partitions[0].error_code)


class Stage:
    """A cluster with a topic, whose share-partition begins at offset 0."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster

    async def begin(self) -> None:
        cluster = self.cluster
        cluster.start()
        await cluster.until("up", lambda: len(cluster.nodes()) == 3)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topics([NewTopic(WATCHED.topic, 1, 3, {}, {})])
        await cluster.until_whole(WATCHED)
        parts = cluster.nodes()[1]._parts
        await cluster.until("known", lambda: parts.cache.contains_topic(WATCHED.topic))
        self.topic_id = parts.cache.image.topic_ids[WATCHED.topic]
        await self.initialize(GROUP, 0)

    async def initialize(self, group: str, start_offset: int) -> None:
        where = TopicIdPartition(self.topic_id, 0)
        persister = self.cluster.nodes()[1]._parts.share_states.persister
        state = {where: InitialState(0, start_offset)}
        assert await persister.initialize_state(group, state) == {where: E.NONE}

    async def channel(self) -> Channel:
        world, leader = self.cluster.client_host.world, self.cluster.leader(WATCHED)
        return await Channel.open(
            world.network, world.clock, host_name(leader), PORT, "tool", ChannelConfig()
        )

    async def member(self, name: str, group: str = GROUP) -> Member:
        return Member(self, name, await self.channel(), group)

    async def produce(self, count: int) -> None:
        """Append records, each in a batch of its own."""
        channel = await self.channel()
        for _ in range(count):
            now_ms = self.cluster.client_host.world.clock.wall_ms()
            rows = [PartitionProduceData(0, build_batch([(now_ms, None, b"x", ())]))]
            topics = [TopicProduceData(WATCHED.topic, partition_data=rows)]
            request = ProduceRequest(acks=-1, timeout_ms=9_000, topic_data=topics)
            response: Any = await channel.request(request, 9, 9_000)
            assert not response.responses[0].partition_responses[0].error_code
        channel.close()


def play(scene: Callable[[Stage], Awaitable[None]], seed: int = 5) -> None:
    async def on(cluster: SimCluster) -> None:
        stage = Stage(cluster)
        await stage.begin()
        await scene(stage)

    SimCluster(seed).run(on)


@pytest.mark.mission("SHR-8")
def test_a_group_begins_by_settings_that_were_just_written() -> None:
    """Its leader has not been notified of them yet: here, nobody ever notifies it."""

    async def scene(stage: Stage) -> None:
        await stage.produce(3)
        store = stage.cluster.nodes()[1]._zk.store
        early = {"share.auto.offset.reset": "earliest"}
        await store.set_entity_config(paths.GROUP_CONFIGS, "new", early)
        await stage.initialize("new", UNINITIALIZED_START_OFFSET)
        member = await stage.member("a", "new")
        assert await member.acquired(10_000) == [(0, 2, 1)]

    play(scene)


@pytest.mark.mission("SHR-13")
def test_records_are_delivered_again_when_their_locks_end() -> None:
    async def scene(stage: Stage) -> None:
        await stage.produce(3)
        first, second = await stage.member("a"), await stage.member("b")
        assert await first.acquired() == [(0, 2, 1)]
        assert await first.acknowledge(0, 0) is E.NONE
        waiting = asyncio.ensure_future(second.acquired(2 * LOCK_S * 1_000))
        await asyncio.sleep(LOCK_S - 1)
        assert not waiting.done()
        await asyncio.sleep(2)
        assert await waiting == [(1, 2, 2)]
        assert await first.acknowledge(1, 1) is E.INVALID_RECORD_STATE
        assert await second.acknowledge(1, 2) is E.NONE

    play(scene)


def test_a_change_that_is_late_takes_no_later_one_back() -> None:
    """Here the end of a lock is stored late, as if the share coordinator had been away."""

    async def scene(stage: Stage) -> None:
        await stage.produce(2)
        first, second = await stage.member("a"), await stage.member("b")
        assert await first.acquired() == [(0, 1, 1)]
        where, leader = TopicIdPartition(stage.topic_id, 0), stage.cluster.leader(WATCHED)
        persister = stage.cluster.nodes()[leader]._parts.share_states.persister
        write, delays_s = persister.write_state, [5, 0, 0]

        async def late(*args: Any) -> Any:
            await asyncio.sleep(delays_s.pop(0))
            return await write(*args)

        persister.write_state = late  # type: ignore[assignment, method-assign]
        assert await second.acquired(2 * LOCK_S * 1_000) == [(0, 1, 2)]
        assert await second.acknowledge(0, 0) is E.NONE
        assert await second.acknowledge(1, 1) is E.NONE
        await asyncio.sleep(10)
        assert not delays_s
        stored = (await persister.read_state(GROUP, {where: 0}))[where]
        assert stored.start_offset == 1

    play(scene)


@pytest.mark.mission("SHR-14")
def test_a_fetch_waits_for_records_and_for_those_that_others_release() -> None:
    async def scene(stage: Stage) -> None:
        first, second = await stage.member("a"), await stage.member("b")
        waiting = asyncio.ensure_future(first.acquired(9_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await stage.produce(1)
        assert await waiting == [(0, 0, 1)]
        waiting = asyncio.ensure_future(second.acquired(9_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        assert await first.acknowledge(0, 0, RELEASE) is E.NONE
        assert await waiting == [(0, 0, 2)]

    play(scene)


@pytest.mark.mission("SHR-15")
def test_a_lost_connection_releases_what_its_member_has() -> None:
    async def scene(stage: Stage) -> None:
        await stage.produce(2)
        first, second = await stage.member("a"), await stage.member("b")
        assert await first.acquired() == [(0, 1, 1)]
        assert await second.acquired() == []
        waiting = asyncio.ensure_future(second.acquired(9_000))
        await asyncio.sleep(1)
        first.channel.close()
        assert await waiting == [(0, 1, 2)]

    play(scene)


@pytest.mark.mission("SHR-20")
def test_the_leader_shows_its_records_in_flight() -> None:
    async def scene(stage: Stage) -> None:
        await stage.produce(5)
        first, second = await stage.member("a"), await stage.member("b")
        assert await first.acquired() == [(0, 4, 1)]
        assert await first.acknowledge(0, 0) is E.NONE
        assert await first.acknowledge(2, 2) is E.NONE
        assert await first.acknowledge(3, 3, REJECT) is E.NONE
        assert await first.acknowledge(4, 4, RELEASE) is E.NONE
        assert await second.acquired() == [(4, 4, 2)]
        await stage.produce(2)
        node = stage.cluster.nodes()[stage.cluster.leader(WATCHED)]
        changes = StateFacts(node.entities).at_once(0, {})
        (share,) = [change for change in changes.changed if change.kind == "share_partition"]
        assert share.name == f"{GROUP}:{WATCHED}"
        facts = dict(share.facts)
        until_ms = [run.pop("locked_until_ms") for run in facts["runs"]]
        now_ms = node.entities.clock.wall_ms()
        assert [until is not None for until in until_ms] == [True, False, False, True]
        assert all(now_ms < until <= now_ms + LOCK_S * 1_000 for until in until_ms if until)
        shown = [tuple(run.values()) for run in facts.pop("runs")]
        assert shown == [
            (1, 1, "acquired", "a", 1, True),
            (2, 2, "acknowledged", None, 1, True),
            (3, 3, "archived", None, 1, True),
            (4, 4, "acquired", "b", 2, True),
        ]
        names = ("start_offset", "end_offset", "in_flight", "lag", "state_epoch", "error")
        assert [facts[name] for name in names] == [1, 4, 4, 4, 0, None]
        records = {"available": 0, "acquired": 2, "acknowledged": 1, "archived": 1}
        assert facts["records"] == records
        assert facts["attempts"] == {"1": 1, "2": 1}

    play(scene)


@pytest.mark.mission("SHR-16")
@pytest.mark.parametrize("seed", range(4))
def test_the_next_leader_delivers_what_was_not_accepted(seed: int) -> None:
    async def scene(stage: Stage) -> None:
        await stage.produce(4)
        member = await stage.member("a")
        assert await member.acquired() == [(0, 3, 1)]
        assert await member.acknowledge(1, 2) is E.NONE
        leader = stage.cluster.leader(WATCHED)
        await faults.killed(stage.cluster, leader, LONGER_THAN_ITS_SESSION_S)
        assert stage.cluster.leader(WATCHED) != leader
        heir = await stage.member("a")
        delivered: list[int] = []
        while len(delivered) < 2:
            for first, last, _ in await heir.acquired(5_000):
                delivered += range(first, last + 1)
        assert sorted(delivered) == [0, 3]
        for offset in delivered:
            assert await heir.acknowledge(offset, offset) is E.NONE

    play(scene, seed)


@pytest.mark.mission("SHR-16")
def test_a_broker_that_does_not_lead_names_the_leader() -> None:
    async def scene(stage: Stage) -> None:
        await stage.produce(1)
        other = next(each for each in (1, 2, 3) if each != stage.cluster.leader(WATCHED))
        world = stage.cluster.client_host.world
        channel = await Channel.open(
            world.network, world.clock, host_name(other), PORT, "tool", ChannelConfig()
        )
        found = await Member(stage, "a", channel, GROUP).fetch()
        assert found is not None
        assert found.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert found.current_leader.leader_id == stage.cluster.leader(WATCHED)

    play(scene)


def test_a_consumer_sends_nothing_to_a_broker_that_leads_no_partition_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It did, without a pause, as long as it was connected with the broker."""
    fetches: list[int] = []
    make = ShareFetchSession.fetch_request

    def counted(session: ShareFetchSession, *args: Any) -> ShareFetchRequest:
        fetches.append(1)
        return make(session, *args)

    monkeypatch.setattr(ShareFetchSession, "fetch_request", counted)

    async def scene(stage: Stage) -> None:
        cluster, leader = stage.cluster, stage.cluster.leader(WATCHED)
        own = ShareConsumerConfig(group_id=GROUP)
        async with ShareConsumer(cluster.client_host.world, cluster.client_config, own) as consumer:
            consumer.subscribe([WATCHED.topic])
            while not await consumer.poll():
                await stage.produce(1)
            isolating = asyncio.ensure_future(faults.isolated(cluster, leader, 15))
            while cluster.leader(WATCHED) == leader:
                await consumer.poll()
            await isolating
            while not await consumer.poll():
                await stage.produce(1)
            fetches.clear()
            for _ in range(20):
                await consumer.poll(1_000)
        assert len(fetches) < 100, "each waits for half a second"

    play(scene)
