"""Configuration altered while a cluster runs, and topics that grow: in effect on every broker."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.client import Admin, Producer, ProducerConfig
from minikafka.core.client.admin.configs import CLUSTER_DEFAULT, ConfigAlteration
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.cluster import NO_LEADER, ReplicaAssignment, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import CreateOp
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from minikafka.server.zookeeper.znodes import ConfigZnode
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.network.wire_end import WireEnd

TP = TopicPartition("t", 0)
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


class Tool:
    """An admin client, and ZooKeeper as another tool sees it."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster.client_host.world, cluster.client_config)

    async def __aenter__(self) -> Tool:
        self.cluster.start()
        await self.cluster.until("all up", lambda: len(self.cluster.nodes()) == 3)
        await self.admin.__aenter__()
        await self.admin.create_topic("t", 1, 3)
        await self.admin.wait_for_topic("t", 1)
        session = await self.cluster.client_host.world.coordination.open(
            "zookeeper:2181", 30_000, 30_000
        )
        self.store = ZkStore(session)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.session.close()
        await self.admin.__aexit__(None, None, None)

    def seen(self, key: str) -> dict[int, object]:
        """A setting of the partition's log, by broker."""
        found = self.cluster.replicas(TP)
        return {i: getattr(p.log.config, key) for i, p in found.items()}

    async def until_seen(self, key: str, **wanted: object) -> None:
        """``b1=..., b2=..., b3=...``; or ``all=...``."""
        every = {i: wanted.get(f"b{i}", wanted.get("all")) for i in self.cluster.nodes()}
        await self.cluster.until(f"{key} is {every}", lambda: self.seen(key) == every)


@pytest.mark.parametrize("seed", range(3))
def test_a_topic_s_settings_reach_all_its_replicas(seed: int) -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            admin = tool.admin
            await admin.alter_configs(TOPIC, "t", {"segment.bytes": "5000", "flush.ms": "70"})
            await tool.until_seen("segment_bytes", all=5000)
            await tool.until_seen("flush_ms", all=70)
            await cluster.stop(2)
            change = ConfigAlteration("flush.ms", None, AlterOperation.DELETE)
            await admin.incremental_alter_configs(TOPIC, "t", [change])
            cluster.start(2)
            await cluster.until_whole(TP)
            await tool.until_seen("flush_ms", all=2**63 - 1)
            await tool.until_seen("segment_bytes", all=5000)
            with pytest.raises(KafkaError) as refused:
                await admin.alter_configs(TOPIC, "t", {"segment.bytes": "no"})
            assert refused.value.code is ErrorCode.INVALID_CONFIG
            assert "Invalid value no for configuration segment.bytes" in str(refused.value)

    SimCluster(seed).run(play)


def test_min_insync_replicas_counts_at_once() -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            least = {"min.insync.replicas": "3"}
            await tool.admin.alter_configs(TOPIC, "t", least)
            hosted = cluster.replicas(TP)
            await cluster.until(
                "known", lambda: {p.config.min_insync_replicas for p in hosted.values()} == {3}
            )
            gone = next(i for i in cluster.nodes() if i != cluster.leader(TP))
            await cluster.stop(gone)
            config = ProducerConfig(acks=-1, delivery_timeout_ms=3000)
            async with Producer(cluster.client_host.world, cluster.client_config, config) as client:
                with pytest.raises(KafkaError):
                    await client.send_and_wait("t", b"x", partition=0)
            await tool.admin.alter_configs(TOPIC, "t", {"min.insync.replicas": "2"})
            async with Producer(cluster.client_host.world, cluster.client_config) as client:
                await client.send_and_wait("t", b"x", partition=0)

    SimCluster(1).run(play)


def test_topic_settings_override_broker_settings_and_cluster_defaults() -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            admin = tool.admin
            everywhere = {"log.segment.bytes": "6000", "max.connections": "50"}
            await admin.alter_configs(BROKER, CLUSTER_DEFAULT, everywhere)
            await tool.until_seen("segment_bytes", all=6000)
            await admin.alter_configs(BROKER, "2", {"log.segment.bytes": "7000"})
            await tool.until_seen("segment_bytes", b1=6000, b2=7000, b3=6000)
            told = await admin.describe_configs(BROKER, "2", ["log.segment.bytes"])
            row = told["log.segment.bytes"]
            assert (row.value, row.source) == ("7000", ConfigSource.DYNAMIC_BROKER_CONFIG)
            assert [value for _, value, _ in row.synonyms] == ["7000", "6000", "1073741824"]
            assert not row.read_only
            for broker_id in (2, 3):  # read at the start as well
                await cluster.stop(broker_id)
                cluster.start(broker_id)
                await cluster.until_whole(TP)
            await tool.until_seen("segment_bytes", b1=6000, b2=7000, b3=6000)
            assert (
                await admin.describe_configs(BROKER, CLUSTER_DEFAULT)
            ).keys() == everywhere.keys()
            await admin.alter_configs(TOPIC, "t", {"segment.bytes": "8000"})
            await tool.until_seen("segment_bytes", all=8000)
            await admin.alter_configs(TOPIC, "t", {})
            await admin.alter_configs(BROKER, "2", {})
            await tool.until_seen("segment_bytes", all=6000)
            with pytest.raises(KafkaError) as refused:
                await admin.alter_configs(BROKER, "1", {"listeners": "PLAINTEXT://:1"})
            assert refused.value.code is ErrorCode.INVALID_REQUEST

    SimCluster(2).run(play)


def test_settings_written_to_zookeeper_by_other_tools_take_effect() -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            node = ConfigZnode(paths.TOPIC_CONFIGS, "t", {"retention.ms": "11", "x.y": "?"})
            old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
            await tool.store.session.multi(
                [
                    CreateOp("/config/changes/config_change_", b"garbage", sequential=True),
                    *await _set(tool, node.path, node.encode()),
                    CreateOp("/config/changes/config_change_", old, sequential=True),
                ]
            )
            await tool.until_seen("retention_ms", all=11)

    SimCluster(3).run(play)


async def _set(tool: Tool, path: str, data: bytes) -> list[CreateOp]:
    if await tool.store.session.exists(path, None) is None:
        return [CreateOp(path, data)]
    await tool.store.session.set(path, data, -1)
    return []


def test_a_restarted_broker_reads_changed_settings_and_old_notifications_are_deleted() -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            admin = tool.admin
            away = next(i for i in cluster.broker_ids if i != cluster.controller_id())
            fault = asyncio.create_task(faults.without_zookeeper(cluster, away, 17 * 60))
            await asyncio.sleep(10)
            await admin.alter_configs(TOPIC, "t", {"retention.ms": "22"})
            await asyncio.sleep(16 * 60)
            assert tool.seen("retention_ms")[away] == 604_800_000
            await admin.alter_configs(BROKER, CLUSTER_DEFAULT, {"log.segment.bytes": "9000"})
            await asyncio.sleep(1)
            assert len(await tool.store.config_changes()) == 1, "old notices are there still"
            await fault
            await tool.until_seen("retention_ms", all=22)
            await tool.until_seen("segment_bytes", all=9000)

    SimCluster(4).run(play)


def _isr(cluster: SimCluster) -> tuple[int, ...]:
    return cluster.state(TP).leader_and_isr.isr


@pytest.mark.parametrize("where", ["topic", "broker"])
def test_an_unclean_leader_is_elected_as_soon_as_it_is_allowed(where: str) -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            leader = cluster.leader(TP)
            others = [i for i in cluster.broker_ids if i != leader]
            for broker_id in others:
                await cluster.host(broker_id).kill()
            await cluster.until("the leader is alone", lambda: _isr(cluster) == (leader,))
            await cluster.host(leader).kill()
            cluster.start(*others)
            await cluster.until("two are up", lambda: len(cluster.nodes()) == 2)
            await cluster.until("nobody leads", lambda: cluster.leader(TP) == NO_LEADER)
            if where == "topic":
                allowed = {"unclean.leader.election.enable": "true"}
                await tool.admin.alter_configs(TOPIC, "t", allowed)
            else:
                allowed = {"unclean.leader.election.enable": "true"}
                await tool.admin.alter_configs(BROKER, CLUSTER_DEFAULT, allowed)
            await cluster.until("somebody leads", lambda: cluster.leader(TP) in others)
            cluster.start(leader)

    SimCluster(5).run(play)


@pytest.mark.mission("CCB-8")
@pytest.mark.parametrize("seed", range(3))
def test_a_topic_grows_by_the_api_and_by_the_znode_alone(seed: int) -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            admin = tool.admin
            assert await admin.create_partitions({"t": 4}) == {"t": None}
            assert len((await admin.wait_for_topic("t", 4)).partitions) == 4
            known = (await tool.store.topic_assignments(["t"]))["t"]
            grown = {**known.partitions, 4: ReplicaAssignment((3, 1))}
            await tool.store.set_topic_assignment("t", known.topic_id, grown)
            await admin.wait_for_topic("t", 5)
            async with Producer(cluster.client_host.world, cluster.client_config) as client:
                for partition in range(5):
                    await client.send_and_wait("t", b"x", partition=partition)
            await cluster.until(
                "replicated", lambda: set(cluster.replicas(TopicPartition("t", 4))) == {1, 3}
            )
            outcome = await admin.create_partitions({"t": 4, "u": 2})
            codes = {name: error and error.code for name, error in outcome.items()}
            assert codes == {
                "t": ErrorCode.INVALID_PARTITIONS,
                "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            told = [[1, 2, 3], [2, 3, 1]]
            assert await admin.create_partitions({"t": 7}, {"t": told}) == {"t": None}
            assert cluster.leader(TopicPartition("t", 6)) == 2

    SimCluster(seed).run(play)


def test_an_unknown_topic_error_is_not_retried() -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            begun = cluster.simulation.loop.seconds()
            change = ConfigAlteration("retention.ms", "1")
            for asked in (
                tool.admin.describe_configs(TOPIC, "missing"),
                tool.admin.incremental_alter_configs(TOPIC, "missing", [change]),
            ):
                with pytest.raises(KafkaError) as caught:
                    await asked
                assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert cluster.simulation.loop.seconds() - begun < 5

    SimCluster(1).run(play)


@pytest.mark.mission("SAFE-22")
@pytest.mark.mission("SEC-103")
@pytest.mark.mission("SEC-182")
def test_limits_of_connections_apply_to_new_ones() -> None:
    async def play(cluster: SimCluster) -> None:
        async with Tool(cluster) as tool:
            stranger = cluster.simulation.host("stranger").world.network

            async def connect() -> WireEnd:
                _, end = await stranger.connect(WireEnd, host_name(1), PORT)
                assert isinstance(end, WireEnd)
                return end

            async def is_refused() -> bool:
                end = await connect()
                await asyncio.sleep(1)  # far longer than the way there and back
                end.transport.close()
                return end.at_eof

            async def limit(per_ip: str) -> None:
                await tool.admin.alter_configs(BROKER, "1", {"max.connections.per.ip": per_ip})

            before = [await connect() for _ in range(3)]
            with pytest.raises(KafkaError) as refused:
                await limit("0")
            assert refused.value.code is ErrorCode.INVALID_REQUEST
            await limit("2")
            refusals = [await is_refused() for _ in range(20)]  # the change takes a while
            assert refusals[-1]
            assert not any(end.at_eof for end in before)
            for end in before:
                end.transport.close()
            await asyncio.sleep(1)  # until the broker has noticed
            assert [await is_refused() for _ in range(3)] == [False] * 3

            async def at_most(**settings: str) -> int:
                """How many connections are accepted under these settings, five at most."""
                given = {name.replace("_", "."): text for name, text in settings.items()}
                await tool.admin.alter_configs(BROKER, "1", given)
                await asyncio.sleep(5)
                ends = [await connect() for _ in range(5)]
                await asyncio.sleep(1)
                held = [end for end in ends if not end.at_eof]
                for end in ends:
                    assert end.reads == [], "a refused connection is closed without a byte"
                    end.transport.close()
                await asyncio.sleep(1)
                return len(held)

            assert await at_most(max_connections_per_ip="2") == 2
            own = {"max_connections_per_ip_overrides": "stranger:4"}
            assert await at_most(max_connections_per_ip="2", **own) == 4
            assert await at_most(listener_name_plaintext_max_connections="1") == 0
            assert await at_most() == 5

    SimCluster(3).run(play)
