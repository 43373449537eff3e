"""Elections on request: by znode, by API, by the clock, by a changed configuration."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.core.controller.events import AutoPreferredReplicaLeaderElection
from minikafka.core.controller.states import ControllerState
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.store import ZkStore
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster
from tests.support.controller.reassigning import catch_up

PREFERRED, UNCLEAN = ElectionType
GONE = TopicPartition("gone", 0)


async def moved_away(cluster: ClusterOfControllers, *assignments: Any) -> Any:
    """Topic t; broker 1 died and came back, in sync again, and leads nothing."""
    await cluster.start(7, 1, 2, 3)
    partitions = await cluster.create_topic("t", *assignments)
    await cluster.kill(1)
    cluster.brokers.down.discard(1)
    await cluster.start(1)
    for tp in partitions:
        await catch_up(cluster, tp)
    await cluster.active._machines.leaderships.refresh(partitions)
    return partitions


def by_znode(cluster: ClusterOfControllers, partitions: Any) -> None:
    rows = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    data = json.dumps({"version": 1, "partitions": rows}).encode()
    cluster.zookeeper.create(paths.PREFERRED_REPLICA_ELECTION, data)


def codes(results: Any) -> Any:
    return {str(tp): r.code.name if isinstance(r, KafkaError) else r for tp, r in results.items()}


# -------------------------------------------------------------------------------------- the znode


@pytest.mark.mission("CDU-2", "LEL-6")
async def test_preferred_election_by_znode(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        a, b = await moved_away(cluster, (1, 2), (1, 3))
        assert [(await cluster.state(tp))[0] for tp in (a, b)] == [2, 3]
        assert cluster.active.context.preferred_replica_imbalance_count() == 2
        for _ in range(2):  # the watch is armed again
            by_znode(cluster, [a, GONE])
            await cluster.settle()
            assert paths.PREFERRED_REPLICA_ELECTION not in cluster.zookeeper.nodes
            assert [(await cluster.state(tp))[0] for tp in (a, b)] == [1, 3]
        assert cluster.active.context.preferred_replica_imbalance_count() == 1
        assert not cluster.active.context.partitions_undergoing_preferred_replica_election


@pytest.mark.mission("CDU-2", "CCB-3")
async def test_a_new_controller_runs_a_requested_preferred_election(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (tp,) = await moved_away(cluster, (1, 2))
        cluster.zookeeper.delete("/controller")
        by_znode(cluster, [tp])
        await cluster.settle()
        assert (await cluster.state(tp))[0] == 1
        assert paths.PREFERRED_REPLICA_ELECTION not in cluster.zookeeper.nodes


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"partitions":3}'])
async def test_an_unreadable_election_znode_is_deleted(
    new_cluster: NewCluster, data: bytes
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1)
        cluster.zookeeper.create(paths.PREFERRED_REPLICA_ELECTION, data)
        await cluster.settle()
        assert paths.PREFERRED_REPLICA_ELECTION not in cluster.zookeeper.nodes
        assert cluster.active.context.epoch == 1


# --------------------------------------------------------------------------------------- requests


@pytest.mark.mission("LEL-6", "LEL-9")
async def test_preferred_election_by_request(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        a, b, c = await moved_away(cluster, (1, 2), (1, 3), (3, 2))
        await cluster.kill(3)
        results = await cluster.active.elect_leaders([a, b, c, GONE], PREFERRED)
        assert codes(results) == {
            "t-0": 1,
            "t-1": "ELECTION_NOT_NEEDED",
            "t-2": "PREFERRED_LEADER_NOT_AVAILABLE",
            "gone-0": "UNKNOWN_TOPIC_OR_PARTITION",
        }
        with pytest.raises(KafkaError) as refused:
            await cluster.nodes[1].controller.elect_leaders([a], PREFERRED)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_topic_that_is_being_deleted_elects_no_leader(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        await cluster.kill(2)  # its replica keeps the topic from going
        await ZkStore(cluster.zookeeper.new_session()).request_topic_deletion("t")
        await cluster.settle()
        results = await cluster.active.elect_leaders([tp], PREFERRED)
        assert codes(results) == {"t-0": "INVALID_TOPIC_EXCEPTION"}


async def lost(cluster: ClusterOfControllers, **config: Any) -> Any:
    """t-0: broker 1 was alone in sync and died; broker 2 lives, and lacks records."""
    await cluster.start(7, 1, 2)
    (tp,) = await cluster.create_topic("t", (1, 2), **config)
    await cluster.kill(2)
    cluster.brokers.down.discard(2)
    await cluster.start(2)
    await cluster.kill(1)
    assert (await cluster.state(tp))[:2] == (-1, (1,))
    return tp


def unclean_elections(cluster: ClusterOfControllers) -> Any:
    metrics = cluster.active._metrics
    return metrics.counter(
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec"
    ).value


@pytest.mark.mission("LEL-4")
async def test_unclean_election_by_request(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        tp = await lost(cluster)
        results = await cluster.active.elect_leaders([tp], PREFERRED)
        assert codes(results) == {"t-0": "PREFERRED_LEADER_NOT_AVAILABLE"}
        assert unclean_elections(cluster) == 0
        assert await cluster.active.elect_leaders([tp], UNCLEAN) == {tp: 2}
        assert (await cluster.state(tp))[:2] == (2, (2,))
        assert unclean_elections(cluster) == 1
        assert codes(await cluster.active.elect_leaders([tp], UNCLEAN)) == {
            "t-0": "ELECTION_NOT_NEEDED"
        }


async def test_unclean_election_without_a_live_replica(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        tp = await lost(cluster)
        await cluster.kill(2)
        assert codes(await cluster.active.elect_leaders([tp], UNCLEAN)) == {
            "t-0": "ELIGIBLE_LEADERS_NOT_AVAILABLE"
        }


@pytest.mark.mission("LEL-4")
async def test_enabling_unclean_elections_on_a_topic_elects_a_leader(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        tp = await lost(cluster)
        await cluster.create_topic("u", (9,))
        controller = cluster.active
        controller.unclean_election_enabled("t")  # before the configuration is there
        await cluster.settle()
        assert (await cluster.state(tp))[0] == -1
        store = ZkStore(cluster.zookeeper.new_session())
        cluster.zookeeper.nodes["/config/topics/t"].data = json.dumps(
            {"version": 1, "config": {"unclean.leader.election.enable": "true"}}
        ).encode()
        assert (await store.topic_configs(["t"]))["t"]
        controller.unclean_election_enabled("u")
        await cluster.settle()
        assert (await cluster.state(tp))[0] == -1
        controller.unclean_election_enabled("t")
        await cluster.settle()
        assert (await cluster.state(tp))[:2] == (2, (2,))
        assert unclean_elections(cluster) == 1


@pytest.mark.mission("LEL-4")
async def test_unclean_by_default(new_cluster: NewCluster) -> None:
    async with new_cluster(unclean_leader_election_enable=True) as cluster:
        await cluster.start(7, 1, 2)
        (tp,) = await cluster.create_topic("t", (1, 2))
        (strict,) = await cluster.create_topic(
            "s", (1, 2), config={"unclean.leader.election.enable": "false"}
        )
        await cluster.kill(2)
        cluster.brokers.down.discard(2)
        await cluster.start(2)
        with capture_logs() as logs:
            await cluster.kill(1)
        assert (await cluster.state(tp))[:2] == (2, (2,))
        assert (await cluster.state(strict))[0] == -1
        assert any("There's potential data loss" in e.get("message", "") for e in logs)
        cluster.active.unclean_election_enabled()
        await cluster.settle()
        assert (await cluster.state(strict))[0] == -1


# ------------------------------------------------------------------------------------- by the clock


def waiting() -> Any:
    return [t for t in asyncio.all_tasks() if t.get_name() == "auto-leader-rebalance-task"]


@pytest.mark.mission("CDU-10", "CDU-12")
async def test_leaders_go_back_by_themselves(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        a, b = await moved_away(cluster, (1, 2), (2, 1))
        assert len(waiting()) == 1
        cluster.clock.advance(4_999)
        await cluster.settle()
        assert (await cluster.state(a))[0] == 2
        cluster.clock.advance(1)
        await cluster.settle()
        assert [(await cluster.state(tp))[0] for tp in (a, b)] == [1, 2]
        assert cluster.active.context.preferred_replica_imbalance_count() == 0
        await cluster.kill(1)
        cluster.brokers.down.discard(1)
        await cluster.start(1)
        await catch_up(cluster, a)
        await cluster.active._machines.leaderships.refresh([a])
        cluster.clock.advance(299_999)
        await cluster.settle()
        assert (await cluster.state(a))[0] == 2
        assert len(waiting()) == 1
        cluster.clock.advance(1)
        await cluster.settle()
        assert (await cluster.state(a))[0] == 1


@pytest.mark.mission("CDU-12")
async def test_the_interval_and_the_percentage_are_settings(new_cluster: NewCluster) -> None:
    settings = {
        "leader_imbalance_check_interval_seconds": 10,
        "leader_imbalance_per_broker_percentage": 50,
    }
    async with new_cluster(**settings) as cluster:
        a, b = await moved_away(cluster, (1, 2), (1, 2))
        await cluster.active.elect_leaders([a], PREFERRED)
        for delay_ms in (5_000, 10_000, 10_000):
            cluster.clock.advance(delay_ms)
            await cluster.settle()
            assert (await cluster.state(b))[0] == 2  # one of two is not more than 50 per cent


@pytest.mark.mission("CDU-10")
async def test_no_rebalance_check_runs_when_it_is_disabled(new_cluster: NewCluster) -> None:
    async with new_cluster(auto_leader_rebalance_enable=False) as cluster:
        (tp,) = await moved_away(cluster, (1, 2))
        assert not waiting()
        cluster.clock.advance(1_000_000)
        await cluster.settle()
        assert (await cluster.state(tp))[0] == 2


@pytest.mark.mission("CFO-2", "CDU-12")
async def test_a_resigned_controller_runs_no_rebalance_check(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        first = cluster.active
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        assert len(waiting()) == 1  # the other's
        assert cluster.active is not first
        assert AutoPreferredReplicaLeaderElection.state is ControllerState.AUTO_LEADER_BALANCE
