"""The sentences of Kafka's controller log, word for word: the fact ``message`` of an event."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from minikafka.server.zookeeper import paths
from tests.support.controller.controller_lab import NewCluster
from tests.support.controller.reassigning import catch_up, wish

# Sentences that only OPS-3 asks for begin like one of these.
BEGINNINGS = (
    "New replicas ",
    "Waiting for new replicas ",
    "Removed ",
    "Selected new leader and ISR ",
    "New broker startup callback for ",
    "Broker failure callback for ",
    "New topic creation callback for ",
    "New partition creation callback for ",
)


def sentences(logs: Any) -> Any:
    messages = [entry.get("message", "") for entry in logs]
    return [message for message in messages if message.startswith(BEGINNINGS)]


@pytest.mark.mission("OPS-3")
async def test_topics_and_brokers(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        with capture_logs() as logs:
            await cluster.create_topic("t", (2, 3), (3, 2))
        assert sentences(logs) == [
            "New topic creation callback for t-0,t-1",
            "New partition creation callback for t-0,t-1",
        ]
        assert await controller.controlled_shutdown(2, -1) == []
        with capture_logs() as logs:
            await cluster.kill(2)
            await cluster.kill(3)
        assert sentences(logs) == [
            "Broker failure callback for 2",
            "Removed 2 from list of shutting down brokers.",
            "Broker failure callback for 3",
        ]
        cluster.brokers.down.clear()
        with capture_logs() as logs:
            await cluster.start(3)
        (started, *selected) = sentences(logs)
        assert started == "New broker startup callback for 3"
        assert [s.rpartition(" for offline partition ")[2] for s in selected] == ["t-0", "t-1"]
        for sentence in selected:
            assert sentence.startswith("Selected new leader and ISR LeaderAndIsr(leader=3, ")


@pytest.mark.mission("OPS-3", "REA-5", "REA-12")
async def test_a_reassignment(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3, 4)
        moving, staying = await cluster.create_topic("t", (1, 2), (1, 2))
        await cluster.create_topic("u", (1,))
        with capture_logs() as logs:
            wish(cluster, {moving: (3, 4), staying: (2, 1)})
            await cluster.settle()
        assert sentences(logs) == [
            # t-1 only changes its order: nothing has to catch up
            "New replicas 3,4 for partition t-0 being reassigned not yet caught up with the leader",
            (
                "Waiting for new replicas 3,4 for partition t-0 being reassigned to catch up "
                "with the leader"
            ),
            "Removed partition t-1 from the list of reassigned partitions in zookeeper",
        ]
        with capture_logs() as logs:  # one of two does not end it
            await catch_up(cluster, moving, 3)
        assert sentences(logs) == []
        with capture_logs() as logs:
            await catch_up(cluster, moving)
        assert sentences(logs) == [
            "Removed partition t-0 from the list of reassigned partitions in zookeeper"
        ]
        assert paths.REASSIGN_PARTITIONS not in cluster.zookeeper.nodes


@pytest.mark.mission("OPS-3")
async def test_a_refused_reassignment_by_znode_is_removed_and_one_by_api_is_not_stored(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2)
        (tp,) = await cluster.create_topic("t", (1,))
        with capture_logs() as logs:
            wish(cluster, {tp: (1, 99)})
            await cluster.settle()
        assert sentences(logs) == [
            "Removed partition t-0 from the list of reassigned partitions in zookeeper"
        ]
        with capture_logs() as logs:
            await controller.alter_partition_reassignments({tp: (2,)})
            await catch_up(cluster, tp)
        assert [s.split()[0] for s in sentences(logs)] == ["New", "Waiting"]


@pytest.mark.mission("LEL-8", "LEL-4")
async def test_an_unclean_election_names_the_replicas_that_were_alive(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3, 4)
        config = {"unclean.leader.election.enable": "true"}
        (tp,) = await cluster.create_topic("t", (1, 2, 3, 4), config=config)
        for broker_id in (3, 2, 4):
            await cluster.kill(broker_id)
        cluster.brokers.down -= {2, 3}
        await cluster.start(3, 2)
        assert await cluster.state(tp) == (1, (1,), 3)  # they came back and are behind
        with capture_logs() as logs:
            await cluster.kill(1)
        warned = [entry for entry in logs if entry["event"] == "unclean_leader_elected"]
        assert [(entry["log_level"], entry["message"]) for entry in warned] == [
            (
                "warning",
                (
                    "No broker in ISR is alive for t-0. Elect leader 2 from live brokers 2,3. "
                    "There's potential data loss."
                ),
            )
        ]


@pytest.mark.mission("LEL-8")
async def test_an_offline_election_that_fails_names_assigned_and_live_replicas(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(7, 1, 2, 3)
        (tp,) = await cluster.create_topic("t", (1, 2, 3))
        for broker_id in (3, 2):
            await cluster.kill(broker_id)
        cluster.brokers.down.discard(2)
        await cluster.start(2)
        with capture_logs() as logs:
            await cluster.kill(1)
        assert (await cluster.state(tp))[0] == -1
        failed = [entry for entry in logs if entry["event"] == "partition_state_change_failed"]
        assert [(entry["log_level"], entry["partition"], entry["error"]) for entry in failed] == [
            (
                "error",
                "t-0",
                (
                    "no leader could be elected under strategy offline: assigned replicas are "
                    "[1,2,3], live ones among them [2], the ISR is [1], live brokers are [2,7]"
                ),
            )
        ]
