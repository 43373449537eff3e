"""The dump of the controller's context."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from minikafka.core.controller.events import ControlledShutdown, TopicChange
from tests.support.controller.controller_lab import NewCluster

FIELDS_OF_KAFKA_0_8 = {
    "controllerChannelManager",
    "controllerLock",
    "shuttingDownBrokerIds",
    "brokerShutdownLock",
    "epoch",
    "epochZkVersion",
    "correlationId",
    "allTopics",
    "partitionReplicaAssignment",
    "partitionLeadershipInfo",
    "partitionsBeingReassigned",
    "partitionsUndergoingPreferredReplicaElection",
    "liveBrokersUnderlying",
    "liveBrokerIdsUnderlying",
}


def dump(controller: Any, limit: int = 1000) -> Any:
    """As a client decodes the JSON."""
    return json.loads(json.dumps(controller.context_dump(limit)))


@pytest.mark.mission("CTX-2")
async def test_every_field_of_the_context_is_in_the_dump(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        cluster.brokers.mute.add(2)
        await cluster.create_topic("u", (1, 2))
        shown = dump(controller)
        assert shown.keys() >= FIELDS_OF_KAFKA_0_8
        assert (shown["epoch"], shown["epochZkVersion"]) == (1, 1)
        assert shown["allTopics"] == ["t", "u"]
        assert shown["liveBrokerIdsUnderlying"] == [1, 2]
        assert [broker["id"] for broker in shown["liveBrokersUnderlying"]] == [1, 2]
        assert shown["liveBrokersUnderlying"][0]["endpoints"][0]["host"] == "host1"
        replicas = {"replicas": [1, 2], "adding": [], "removing": []}
        assert shown["partitionReplicaAssignment"] == {"t-0": replicas, "u-0": replicas}
        assert shown["partitionLeadershipInfo"]["t-0"]["leader_and_isr"]["isr"] == [1, 2]
        assert shown["partitionStates"] == {"t-0": "OnlinePartition", "u-0": "OnlinePartition"}
        # broker 2 took the first request and does not answer it; the second waits
        assert shown["controllerChannelManager"] == [
            {"broker": 1, "queue": 0, "troubled": False},
            {"broker": 2, "queue": 1, "troubled": False},
        ]


@pytest.mark.mission("CTX-2")
async def test_the_correlation_id_counts_the_batches_of_a_term(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        assert dump(controller)["correlationId"] == 1  # UpdateMetadata at the failover
        await cluster.create_topic("t", (1,), (1,))
        assert dump(controller)["correlationId"] == 2  # one batch for both partitions
        await controller.queue.submit(TopicChange())
        assert dump(controller)["correlationId"] == 2  # nothing changed, nothing was sent
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        assert controller.context.epoch == 2
        assert dump(controller)["correlationId"] < 4  # a new count in a new term


@pytest.mark.mission("CTX-2", "CTX-5")
async def test_an_event_that_is_handled_plays_the_part_of_the_lock(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        await cluster.create_topic("t", (2, 1))
        free = {"heldBy": None, "waiting": 0}
        assert dump(controller)["controllerLock"] == free
        assert dump(controller)["brokerShutdownLock"] == free
        asked = [controller.queue.submit(ControlledShutdown(b, -1)) for b in (2, 1)]
        behind = controller.queue.submit(TopicChange())
        await asyncio.sleep(0)
        shown = dump(controller)
        assert shown["controllerLock"] == {"heldBy": "CONTROLLED_SHUTDOWN", "waiting": 2}
        assert shown["brokerShutdownLock"] == {"heldBy": "CONTROLLED_SHUTDOWN", "waiting": 1}
        await asyncio.gather(*asked, behind)
        await cluster.settle()
        assert dump(controller)["shuttingDownBrokerIds"] == [1, 2]
        other = controller.queue.submit(TopicChange())
        await asyncio.sleep(0)
        shown = dump(controller)
        assert shown["controllerLock"] == {"heldBy": "TOPIC_CHANGE", "waiting": 0}
        assert shown["brokerShutdownLock"] == free
        await other


async def test_a_limit_bounds_every_list_and_map(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller, *_) = await cluster.start(1, 2, 3)
        for name in ("c", "a", "b"):
            await cluster.create_topic(name, (1, 2, 3), (2, 3, 1))
        shown = dump(controller, limit=2)
        assert shown["allTopics"] == ["a", "b"]
        assert list(shown["partitionReplicaAssignment"]) == ["a-0", "a-1"]
        sized = [value for value in shown.values() if isinstance(value, dict | list)]
        assert max(map(len, sized)) == 2


async def test_a_broker_that_is_not_the_controller_knows_nothing(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (_, second) = await cluster.start(1, 2)
        await cluster.create_topic("t", (1, 2))
        shown = dump(second)
        assert shown.keys() >= FIELDS_OF_KAFKA_0_8
        assert shown["epoch"] == 0
        assert not any(shown[name] for name in ("allTopics", "liveBrokerIdsUnderlying"))
