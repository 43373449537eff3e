"""Single statements of reassignments that no other test would miss."""

import json

import pytest

from minikafka.protocol.messages.stop_replica import StopReplicaRequest
from minikafka.zookeeper import paths
from tests.support.reassigning import assigned, catch_up, wish

QUIET = {"auto_leader_rebalance_enable": False}


async def move(cluster, targets):
    results = await cluster.active.alter_partition_reassignments(targets)
    await cluster.settle()
    assert set(results.values()) == {None}


@pytest.mark.mission("CDU-1")
async def test_a_wish_under_way_is_not_begun_again_when_the_znode_changes(new_cluster):
    """Another partition's wish is added: the leader epoch of the first stays."""
    async with new_cluster(**QUIET) as cluster:
        await cluster.start(7, 1, 2)
        first, second = await cluster.create_topic("t", (1,), (1,))
        wish(cluster, {first: (2,)})
        await cluster.settle()
        before = await cluster.state(first)
        node = json.loads(cluster.tree.nodes[paths.REASSIGN_PARTITIONS].data)
        node["partitions"].append({"topic": "t", "partition": 1, "replicas": [2]})
        cluster.tree.set(paths.REASSIGN_PARTITIONS, json.dumps(node).encode())
        await cluster.settle()
        assert assigned(cluster, second)["adding"] == (2,)
        assert await cluster.state(first) == before


async def moved_away_from_a_dead_broker(cluster):
    """Topic t, moved from brokers 1 and 2 to 1 and 3 while 2 was dead. Broker 7 is the controller,
    the others have none."""
    await cluster.start(7)
    for broker_id in (1, 2, 3):
        await cluster.register(broker_id)
    await cluster.settle()
    (tp,) = await cluster.create_topic("t", (1, 2))
    await die(cluster, 2)
    await move(cluster, {tp: (1, 3)})
    await catch_up(cluster, tp)
    assert assigned(cluster, tp)["replicas"] == (1, 3)
    cluster.brokers.take()


async def die(cluster, broker_id):
    cluster.tree.expire(cluster.nodes.pop(broker_id).session.session_id)
    cluster.brokers.down.add(broker_id)
    await cluster.settle()


async def come_back(cluster, broker_id):
    """How often it was told to delete a replica since it was heard of last."""
    cluster.brokers.down.discard(broker_id)
    await cluster.register(broker_id)
    await cluster.settle()
    return sum(
        state.delete_partition
        for to, message in cluster.brokers.take()
        if to == broker_id and isinstance(message, StopReplicaRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    )


@pytest.mark.mission("REA-10")
@pytest.mark.parametrize("failover", [False, True])
async def test_who_missed_the_removal_of_its_replica_is_told_when_it_is_back(new_cluster, failover):
    """By the controller that removed it. The next one, or the same in its next term, does not
    know; UpdateMetadata lets the broker find out."""
    async with new_cluster(**QUIET) as cluster:
        await moved_away_from_a_dead_broker(cluster)
        if failover:
            cluster.tree.delete(paths.CONTROLLER)
            await cluster.settle()
        assert await come_back(cluster, 2) == (0 if failover else 1)


@pytest.mark.mission("REA-10")
async def test_it_is_told_until_it_answers(new_cluster):
    async with new_cluster(**QUIET) as cluster:
        await moved_away_from_a_dead_broker(cluster)
        cluster.brokers.mute.add(2)
        assert await come_back(cluster, 2) == 0  # it hangs at the requests before
        await die(cluster, 2)
        cluster.brokers.mute.clear()
        assert await come_back(cluster, 2) == 1
        await die(cluster, 2)
        assert await come_back(cluster, 2) == 0
