"""Thousands of changes go slice by slice: brokers hear of the first before the last is written."""

import pytest

from minikafka.controller import machines
from minikafka.core.controller.states import PartitionState, ReplicaState


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(machines, "SLICE", 2)


@pytest.mark.mission("CCB-3", "CCB-5")
async def test_a_broker_with_many_partitions_dies(new_cluster, in_short):
    async with new_cluster() as cluster:
        (controller, _, _) = await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *[(3, 1, 2), (1, 2, 3), (2, 3, 1)] * 3)
        cluster.brokers.take()
        await cluster.kill(3)
        context = controller.context
        assert {context.partition_state(tp) for tp in partitions} == {PartitionState.ONLINE}
        for tp in partitions:
            leader, isr, _ = await cluster.state(tp)
            assert leader in (1, 2)
            assert set(isr) == {1, 2}
            states = [context.replica_states[r] for r in context.replicas_for_partitions([tp])]
            assert sorted(states).count(ReplicaState.OFFLINE) == 1
        requests = in_short(cluster.brokers.take())
        to_lead = [told for kind, broker, told in requests if (kind, broker) == ("LeaderAndIsr", 1)]
        assert len(to_lead) > 3
        last = {}
        for told in to_lead:
            last |= told
        assert last == {str(tp): (await cluster.state(tp))[:2] for tp in partitions}


@pytest.mark.mission("CTX-6")
async def test_a_topic_is_announced_whole(new_cluster, in_short):
    """Else a producer with keys would take the first slice's partitions for all there are."""
    async with new_cluster() as cluster:
        await cluster.start(1, 2)
        cluster.brokers.take()
        partitions = await cluster.create_topic("t", *[(1, 2)] * 5)
        requests = in_short(cluster.brokers.take())
        leaders = [told for kind, broker, told in requests if (kind, broker) == ("LeaderAndIsr", 1)]
        assert len(leaders) == 3
        metadata = [told for kind, _, told in requests if kind == "UpdateMetadata" and told]
        assert metadata
        for told in metadata:
            assert told.keys() == {str(tp) for tp in partitions}
