"""`minikafka reassign --throttle`: moves keep to the rate, and end once it is lifted."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

import pytest

from minikafka.cli.cluster import reassign as verb
from minikafka.cli.cluster.reassign import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    ReassignmentFile,
    Replica,
)
from minikafka.client import Admin, Producer, ProducerConfig
from minikafka.core.client.admin.configs import CLUSTER_DEFAULT, ConfigAlteration
from minikafka.core.client.admin.topics import NewTopic
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.dynamic_settings import FOLLOWER_RATE, LEADER_RATE, LOG_DIRS_RATE
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.reassignments import assignment, moved_under_load, until_moved
from tests.support.simulated.scenario import TOPIC as UNDER_LOAD

TP = TopicPartition("flights", 0)
NEAR = TopicPartition("near", 0)
KB = 1024
SIZE = 1_000 * KB
RATE = 50 * KB
FETCH = 10 * KB  # what may be one too many
BROKERS = (1, 2, 3)
SETTINGS = {"replica.fetch.max.bytes": str(FETCH), "log.dirs": "/data,/more"}
BROKER, TOPIC = ResourceType.BROKER, ResourceType.TOPIC
EVERY = [ConfigAlteration(name, "*") for name in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]


class Verb:
    """The verb, as an operator uses it, of a cluster with a topic on broker 1."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.admin = Admin(cluster.client_host.world, cluster.client_config)

    async def __aenter__(self) -> Verb:
        self.cluster.start()
        await self.cluster.until("all up", lambda: len(self.cluster.nodes()) == len(BROKERS))
        await self.admin.__aenter__()
        await self.admin.create_topics(
            [
                NewTopic(TP.topic, assignments={0: [1]}),
                NewTopic(NEAR.topic, assignments={0: [1, 2]}),
            ]
        )
        for tp in (TP, NEAR):
            await self.admin.wait_for_topic(tp.topic)
        await self.fill(TP, SIZE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.admin.__aexit__(None, None, None)

    async def fill(self, tp: TopicPartition, size: int) -> None:
        config = ProducerConfig(batch_size=4 * KB, delivery_timeout_ms=60_000)
        world = self.cluster.client_host.world
        async with Producer(world, self.cluster.client_config, config) as producer:
            for _ in range(size // KB):
                await producer.send(tp.topic, bytes(KB - 10), partition=0)

    def _given(self, *words: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        verb.add_arguments(parser)
        args = parser.parse_args(
            [*words, "--reassignment-json-file", "f", "--bootstrap-server", "x:1"]
        )
        verb.check(args)
        return args

    async def execute(self, plan: ReassignmentFile, *words: str) -> None:
        clock = self.cluster.client_host.world.clock
        await verb.execute(self.admin, clock, plan, self._given("--execute", *words))

    async def verify(self, plan: ReassignmentFile, *words: str) -> int:
        return await verb.verify(self.admin, plan, self._given("--verify", *words))

    async def cancel(self, plan: ReassignmentFile, *words: str) -> None:
        clock = self.cluster.client_host.world.clock
        await verb.cancel(self.admin, clock, plan, self._given("--cancel", *words))

    async def set_for(self, kind: ResourceType, name: str) -> dict[str, str | None]:
        """Throttles of a topic, or of a broker alone; a notification informs them."""
        await asyncio.sleep(0.1)
        source = {
            TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
            BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
        }
        found = await self.admin.describe_configs(kind, name)
        return {
            row.name: row.value
            for row in found.values()
            if row.source is source[kind] and ("throttled" in row.name or "alter.log" in row.name)
        }

    def copied(self, broker: int, tp: TopicPartition = TP) -> int:
        replica = self.cluster.replicas(tp).get(broker)
        return replica.log.size_bytes if replica is not None and replica.has_log else 0


def play(scenario: Callable[[Verb], Awaitable[None]]) -> None:
    async def run(cluster: SimCluster) -> None:
        async with Verb(cluster) as tool:
            await scenario(tool)

    SimCluster(1, BROKERS, SETTINGS).run(run)


@pytest.mark.mission("REA-5")
def test_a_throttled_move_keeps_to_its_rate(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(tool: Verb) -> None:
        plan = ReassignmentFile({TP: (3,)}, {})
        await tool.execute(plan, "--throttle", str(RATE))
        assert await tool.set_for(TOPIC, TP.topic) == {
            LEADER_REPLICAS: "0:1",
            FOLLOWER_REPLICAS: "0:3",
        }
        rates = {LEADER_RATE: str(RATE), FOLLOWER_RATE: str(RATE)}
        for broker, wanted in ((1, rates), (2, {}), (3, rates)):
            assert await tool.set_for(BROKER, str(broker)) == wanted
        for second in range(1, 16):
            await asyncio.sleep(1)
            assert tool.copied(3) <= RATE * (second + 2) + 2 * FETCH
        assert tool.copied(3) >= RATE * 10
        assert await tool.verify(plan) == 1
        assert await tool.set_for(TOPIC, TP.topic)  # not before the end
        await until_moved(tool.cluster, [TP])
        assert await tool.verify(plan, "--preserve-throttles") == 0
        assert await tool.set_for(TOPIC, TP.topic)
        assert await tool.verify(plan) == 0
        assert await tool.set_for(TOPIC, TP.topic) == {}
        assert [await tool.set_for(BROKER, str(broker)) for broker in BROKERS] == [{}] * 3
        told = capsys.readouterr().out
        assert f"The inter-broker throttle limit was set to {RATE} B/s" in told
        assert "Clearing broker-level throttles on brokers 1,2,3" in told
        assert "Clearing topic-level throttles on topic flights" in told

    play(scenario)


@pytest.mark.mission("REA-5")
@pytest.mark.parametrize("how", ["additional", "configs"])
def test_a_throttle_can_be_raised_during_a_move(how: str) -> None:
    async def scenario(tool: Verb) -> None:
        plan = ReassignmentFile({TP: (3,)}, {})
        await tool.execute(plan, "--throttle", "1")
        await asyncio.sleep(30)
        assert tool.copied(3) <= 6 * FETCH
        if how == "additional":
            await tool.execute(plan, "--throttle", str(100 * RATE), "--additional")
        else:
            gone = [
                ConfigAlteration(name, None, AlterOperation.DELETE)
                for name in (LEADER_RATE, FOLLOWER_RATE)
            ]
            for broker in ("1", "3"):
                await tool.admin.incremental_alter_configs(BROKER, broker, gone)
        await asyncio.sleep(5)
        assert tool.copied(3) == tool.copied(1) or not tool.copied(1)
        await until_moved(tool.cluster, [TP])

    play(scenario)


@pytest.mark.mission("REA-5")
@pytest.mark.parametrize("restarted", [1, 3])
def test_a_throttle_outlives_restarts(restarted: int) -> None:
    """Of the leader, and of the follower: each applies the throttle alone."""

    async def scenario(tool: Verb) -> None:
        plan = ReassignmentFile({TP: (3,)}, {})
        await tool.execute(plan, "--throttle", str(RATE))
        other = LEADER_RATE if restarted == 3 else FOLLOWER_RATE
        gone = [ConfigAlteration(other, None, AlterOperation.DELETE)]
        await tool.admin.incremental_alter_configs(BROKER, "1" if restarted == 3 else "3", gone)
        await asyncio.sleep(2)
        await tool.cluster.stop(restarted)
        before = tool.copied(3)
        tool.cluster.start(restarted)
        await tool.cluster.until("all up", lambda: len(tool.cluster.nodes()) == len(BROKERS))
        for second in range(1, 8):
            await asyncio.sleep(1)
            assert tool.copied(3) - before <= RATE * (second + 3) + 2 * FETCH
        await until_moved(tool.cluster, [TP])
        assert await tool.verify(plan) == 0

    play(scenario)


@pytest.mark.mission("REA-5", "REA-10")
def test_a_throttled_move_away_from_a_dead_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """The dead broker gets no limit; the others do."""

    async def scenario(tool: Verb) -> None:
        plan = ReassignmentFile({NEAR: (1, 3)}, {})
        await tool.fill(NEAR, 200 * KB)
        await tool.cluster.host(2).kill()
        await tool.cluster.until(
            "it is out", lambda: tool.cluster.state(NEAR).leader_and_isr.isr == (1,)
        )
        await tool.execute(plan, "--throttle", str(RATE))
        assert "No limit could be set on broker 2," in capsys.readouterr().out
        await asyncio.sleep(2)
        assert tool.copied(3, NEAR) <= 4 * RATE
        await tool.cluster.until("moved", lambda: assignment(tool.cluster, NEAR).removing == ())
        assert await tool.verify(plan) == 0
        assert await tool.set_for(BROKER, "3") == {}

    play(scenario)


@pytest.mark.mission("REA-5", "REA-13")
def test_throttled_moves_in_a_storm() -> None:
    """All replicas are throttled, to more than is written: every move ends, and nothing is lost."""

    async def storm(cluster: SimCluster) -> None:
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.incremental_alter_configs(TOPIC, UNDER_LOAD, EVERY)
            rates = [ConfigAlteration(name, str(20 * KB)) for name in (LEADER_RATE, FOLLOWER_RATE)]
            await admin.incremental_alter_configs(BROKER, CLUSTER_DEFAULT, rates)
        await faults.storm(cluster, 6)

    SimCluster(4, (1, 2, 3, 4, 5)).run(lambda cluster: moved_under_load(cluster, storm))


@pytest.mark.mission("REA-5")
def test_a_follower_in_sync_goes_on_beside_a_throttled_move() -> None:
    """Listed as it is, on the same connection: it is not held back, and stays in the ISR."""

    async def scenario(tool: Verb) -> None:
        await tool.admin.incremental_alter_configs(TOPIC, NEAR.topic, EVERY)
        await tool.execute(ReassignmentFile({TP: (1, 2)}, {}), "--throttle", "1")
        isrs = []
        for _ in range(10):
            await tool.fill(NEAR, 20 * KB)
            await asyncio.sleep(1)
            isrs.append(tool.cluster.state(NEAR).leader_and_isr.isr)
        assert isrs == [(1, 2)] * 10
        assert tool.copied(2, NEAR) == tool.copied(1, NEAR) >= 200 * KB
        assert tool.copied(2) <= 4 * FETCH
        await tool.cancel(ReassignmentFile({TP: (1, 2)}, {}))
        assert assignment(tool.cluster, TP).replicas == (1,)
        assert await tool.set_for(BROKER, "1") == {}

    play(scenario)


@pytest.mark.mission("REA-5")
def test_a_throttled_move_to_another_directory(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(tool: Verb) -> None:
        old = tool.cluster.replicas(TP)[1].log.directory.rpartition("/")[0]
        other = "/more" if old == "/data" else "/data"
        plan = ReassignmentFile({TP: (1,)}, {Replica(1, TP): other})
        rate = ("--replica-alter-log-dirs-throttle", str(SIZE // 10))
        await tool.execute(plan, *rate)
        assert await tool.set_for(BROKER, "1") == {LOG_DIRS_RATE: str(SIZE // 10)}
        # One slice of a move is a MB: the next waits until the first was no more than the rate.
        await asyncio.sleep(5)
        assert await tool.verify(plan) == 1
        await tool.cluster.until(
            "moved", lambda: tool.cluster.replicas(TP)[1].log.directory == f"{other}/{TP}"
        )
        assert await tool.verify(plan) == 0
        assert await tool.set_for(BROKER, "1") == {}
        told = capsys.readouterr().out
        assert f"Successfully started moving log directory to {other}" in told
        assert "Reassignment of replica flights-0-1 is still in progress." in told
        assert "Reassignment of replica flights-0-1 completed successfully." in told

    play(scenario)


def test_a_replica_moves_to_a_chosen_directory_of_another_broker() -> None:
    async def scenario(tool: Verb) -> None:
        await tool.fill(NEAR, 10 * KB)
        for path in ("/data", "/more"):
            broker = 2 if path == "/data" else 3
            plan = ReassignmentFile({TP: (broker,)}, {Replica(broker, TP): path})
            await tool.execute(plan)
            await until_moved(tool.cluster, [TP])
            assert tool.cluster.replicas(TP)[broker].log.directory == f"{path}/{TP}"
            assert await tool.verify(plan) == 0

    play(scenario)
