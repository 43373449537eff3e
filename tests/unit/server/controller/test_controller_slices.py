"""The controller writes thousands of changes in slices.

Brokers are notified of the first slice before the last is written, and other events run in between.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from minikafka.core.controller.states import PartitionState, ReplicaState
from minikafka.kernel.cluster import PartitionAndReplica
from minikafka.kernel.slices import Slices
from minikafka.server.controller import state_machines as machines
from minikafka.server.controller.isr_removal import PAUSE_MS
from tests.support.controller.controller_lab import ClusterOfControllers, InShort, NewCluster
from tests.support.world.turns import most_calls_in_a_turn

LED_BY_ALL = [(3, 1, 2), (1, 2, 3), (2, 3, 1)] * 3


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "SLICE", 2)


async def all_left(cluster: Any) -> None:
    while cluster.active._isr_removals:
        cluster.clock.advance(PAUSE_MS)
        await cluster.settle()


async def isrs(cluster: ClusterOfControllers, partitions: Any) -> Any:
    return [set((await cluster.state(tp))[1]) for tp in partitions]


@pytest.mark.mission("CCB-2")
async def test_a_broker_with_many_partitions_dies(
    new_cluster: NewCluster, in_short: InShort
) -> None:
    async with new_cluster() as cluster:
        (controller, _, _) = await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *LED_BY_ALL)
        cluster.brokers.take()
        await cluster.kill(3)
        await all_left(cluster)
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
        last: dict[Any, Any] = {}
        for told in to_lead:
            last |= told
        assert last == {str(tp): (await cluster.state(tp))[:2] for tp in partitions}


@pytest.mark.mission("CTX-6")
async def test_a_topic_is_announced_whole(new_cluster: NewCluster, in_short: InShort) -> None:
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


@pytest.mark.mission("CCB-2", "CCB-3", "RSM-17")
@pytest.mark.parametrize("victim", [1, 3])
async def test_leaders_are_elected_first_then_requests_are_served_then_isrs_shrink(
    new_cluster: NewCluster, victim: Any
) -> None:
    """``victim`` 1 is the controller."""
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *LED_BY_ALL)
        await cluster.kill(victim)
        live = {1, 2, 3} - {victim}
        assert {(await cluster.state(tp))[0] for tp in partitions} == live
        left = [victim not in isr for isr in await isrs(cluster, partitions)]
        assert left == [replicas[0] == victim for replicas in LED_BY_ALL]
        (new,) = await cluster.create_topic("new", tuple(sorted(live)))
        assert await cluster.has_state(new)
        for waiting in (4, 2, 0):
            cluster.clock.advance(PAUSE_MS)
            await cluster.settle()
            assert len(cluster.active._isr_removals) == waiting
        assert await isrs(cluster, partitions) == [live] * len(partitions)
        context = cluster.active.context
        states = {context.replica_state(PartitionAndReplica(tp, victim)) for tp in partitions}
        assert states == {ReplicaState.OFFLINE}


@pytest.mark.mission("CCB-1", "CCB-2")
async def test_a_broker_that_comes_back_has_left_before(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *LED_BY_ALL)
        await cluster.kill(3)
        assert cluster.active._isr_removals
        cluster.brokers.down.clear()
        await cluster.start(3)
        assert not cluster.active._isr_removals
        assert await isrs(cluster, partitions) == [{1, 2}] * len(partitions)
        context = cluster.active.context
        states = {context.replica_state(PartitionAndReplica(tp, 3)) for tp in partitions}
        assert states == {ReplicaState.ONLINE}


@pytest.mark.mission("CCB-2", "DEL-5")
async def test_a_topic_deleted_between_two_slices(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3)
        partitions = await cluster.create_topic("t", *LED_BY_ALL)
        await cluster.kill(3)
        await cluster.nodes[1].store.request_topic_deletion("t")
        await cluster.settle()
        assert not cluster.active._isr_removals
        context = cluster.active.context
        assert context.topics_ineligible_for_deletion == {"t"}
        states = {context.replica_state(PartitionAndReplica(tp, 3)) for tp in partitions}
        assert states == {ReplicaState.OFFLINE}


@pytest.mark.mission("CCB-3", "CEL-17")
async def test_a_controller_that_resigns_between_two_slices_leaves_the_rest_to_the_next(
    new_cluster: NewCluster,
) -> None:
    async with new_cluster() as cluster:
        await cluster.start(1, 2, 3, 4)
        partitions = await cluster.create_topic("t", *LED_BY_ALL)
        await cluster.kill(3)
        assert cluster.active._isr_removals
        cluster.zookeeper.delete("/controller")
        await cluster.settle()
        await all_left(cluster)
        assert await isrs(cluster, partitions) == [{1, 2}] * len(partitions)
        cluster.clock.advance(PAUSE_MS)  # what the old one had planned comes to nothing
        await cluster.settle()


async def largest_step(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], Coroutine[Any, Any, Any]], at_once: int
) -> int:
    with monkeypatch.context() as patch:
        patch.setattr(machines, "SLICE", at_once)
        patch.setattr(Slices, "ended", lambda self: at_once < 3)
        return (await most_calls_in_a_turn(work()))[1]


@pytest.mark.mission("SCALE-7")
async def test_a_failover_takes_up_many_partitions_in_slices(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        for number in range(20):
            await cluster.create_topic(f"t{number}", (1,), (1,))
        start = controller._failover._start_state_machines
        in_slices = await largest_step(monkeypatch, start, 2)
        assert in_slices * 4 < await largest_step(monkeypatch, start, 1_000)


@pytest.mark.mission("SCALE-7")
async def test_many_partitions_lose_their_leader_in_slices(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written for it that would let other tasks run."""
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        partitions = await cluster.create_topic("t", *[(1,)] * 40)

        def lose() -> Coroutine[Any, Any, Any]:
            return controller._machines.change_partitions(partitions, PartitionState.OFFLINE)

        in_slices = await largest_step(monkeypatch, lose, 2)
        assert in_slices * 4 < await largest_step(monkeypatch, lose, 1_000)


@pytest.mark.mission("SCALE-7", "SCALE-10")
async def test_the_metadata_of_all_partitions_are_made_in_slices_and_sent_at_once(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch, in_short: InShort
) -> None:
    async with new_cluster() as cluster:
        (controller, _) = await cluster.start(1, 2)
        partitions = [
            tp for n in range(20) for tp in await cluster.create_topic(f"t{n}", (1,), (1,))
        ]
        cluster.brokers.take()

        def send() -> Coroutine[Any, Any, None]:
            return controller._machines.send_all_metadata([1, 2, 9])

        in_slices = await largest_step(monkeypatch, send, 2)
        assert in_slices * 2 < await largest_step(monkeypatch, send, 1_000)
        await cluster.settle()
        sent = cluster.brokers.take()
        bytes_sent = {id(topic.encoded) for _, message in sent for topic in message.topic_states}
        assert len(bytes_sent) == 2 * 20  # of each topic once, whichever broker gets it
        requests = in_short(sent)
        assert sorted(broker for _, broker, _ in requests) == [1, 1, 2, 2]
        for _, _, told in requests:
            assert told.keys() == {str(tp) for tp in partitions}
