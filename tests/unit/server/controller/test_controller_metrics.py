"""The values of the controller's metrics (ControllerStats, KafkaControllerMBean)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.core.controller.events import ControlledShutdown
from minikafka.server.zookeeper.store import ZkStore
from tests.support import metric_names
from tests.support.controller.controller_lab import NewCluster

CONTROLLED_SHUTDOWN = 8  # the number of this state in Kafka


def figure(controller: Any, name: str) -> Any:
    return metric_names.figures(controller._metrics)[name]


def figures(controller: Any, *names: Any) -> Any:
    return {name: figure(controller, name) for name in names}


@pytest.mark.mission("OPS-4")
async def test_gauges_show_the_cluster_at_the_controller_and_nothing_elsewhere(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (first, second, _) = await cluster.start(1, 2, 3)
        await cluster.create_topic("t", (1, 2), (3, 1), (2, 1))
        await cluster.create_topic("lone", (3,))
        await cluster.create_topic("doomed", (2, 3), (2, 1))
        await cluster.kill(3)
        cluster.brokers.mute.add(2)  # it does not respond to StopReplica
        await ZkStore(cluster.zookeeper.new_session()).request_topic_deletion("doomed")
        await cluster.settle()
        expected = {
            "ActiveControllerCount": 1,
            "ControllerState": 0,
            "ActiveBrokerCount": 2,
            "GlobalTopicCount": 3,
            "OfflinePartitionsCount": 1,  # lone-0
            "PreferredReplicaImbalanceCount": 2,  # lone-0 and t-1; doomed topics do not count
            "TopicsToDeleteCount": 1,
            "TopicsIneligibleToDeleteCount": 1,
            "ReplicasToDeleteCount": 3,  # doomed-1 at broker 1 is gone
            "ReplicasIneligibleToDeleteCount": 1,  # doomed-0 at broker 3
        }
        assert figures(first, *expected) == expected
        assert figure(first, "GlobalPartitionCount") == len(first.context.leadership) > 0
        assert figures(second, *expected, "GlobalPartitionCount") == (
            dict.fromkeys([*expected, "GlobalPartitionCount"], 0)
        )
        await cluster.kill(2)
        cluster.brokers.mute.clear()
        cluster.brokers.down.clear()
        await cluster.start(2, 3)
        expected |= {
            "ActiveBrokerCount": 3,
            "GlobalTopicCount": 2,
            "OfflinePartitionsCount": 0,
            "PreferredReplicaImbalanceCount": 2,  # t-1 and t-2: 3 and 2 are not in sync yet
            "TopicsToDeleteCount": 0,
            "TopicsIneligibleToDeleteCount": 0,
            "ReplicasToDeleteCount": 0,
            "ReplicasIneligibleToDeleteCount": 0,
        }
        assert figures(first, *expected) == expected
        assert figure(first, "GlobalPartitionCount") == 4


@pytest.mark.mission("OPS-4")
async def test_the_state_of_the_event_being_handled_and_how_long_it_took(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (2, 1))
        name = "ControlledShutdownRateAndTimeMs"
        assert figures(controller, f"{name}:Count", f"{name}:Mean") == {
            f"{name}:Count": 0,
            f"{name}:Mean": 0,
        }
        asked = controller.queue.submit(ControlledShutdown(2, -1))
        await asyncio.sleep(0)
        assert figure(controller, "ControllerState") == CONTROLLED_SHUTDOWN
        cluster.clock.advance(70)
        assert await asked == []
        await cluster.settle()
        assert figure(controller, "ControllerState") == 0
        assert figures(controller, f"{name}:Count", f"{name}:Mean") == {
            f"{name}:Count": 1,
            f"{name}:Mean": 70,
        }


@pytest.mark.mission("OPS-4", "LEL-4")
async def test_only_unclean_elections_mark_their_rate(new_cluster: NewCluster) -> None:
    name = "UncleanLeaderElectionsPerSec"
    async with new_cluster(unclean_leader_election_enable=True) as cluster:
        (controller, *_) = await cluster.start(7, 1, 2)
        both = await cluster.create_topic("t", (1, 2), (1, 2))
        await cluster.kill(1)  # 2 is in sync: clean
        assert [(await cluster.state(tp))[0] for tp in both] == [2, 2]
        assert figure(controller, name) == 0
        cluster.brokers.down.clear()
        await cluster.start(1)
        await cluster.kill(2)  # 1 is back and behind
        assert [(await cluster.state(tp))[0] for tp in both] == [1, 1]
        assert figure(controller, name) == 2  # one for each partition
