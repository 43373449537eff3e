"""Controlled shutdown: leaderships that move, time limits, and faults that must not delay it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping

import pytest

from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.simulated.verified import PARTITIONS, Events, up, verified

SESSION_S = 6
WHOLE_GAP_MS = 1_000
CLEAN_MARKER = "/data/.kafka_cleanshutdown"


def simulated(seed: int, settings: Mapping[str, str] | None = None) -> SimCluster:
    return SimCluster(seed, settings=settings)


def now_s(cluster: SimCluster) -> float:
    return cluster.simulation.loop.seconds()


async def create(cluster: SimCluster, topic: str, replication_factor: int) -> TopicPartition:
    async with Admin(cluster.client_host.world, cluster.client_config) as admin:
        await admin.create_topic(topic, 1, replication_factor)
        await admin.wait_for_topic(topic)
    return TopicPartition(topic, 0)


def is_clean(cluster: SimCluster, broker_id: int) -> bool:
    """The logs are on disk, and it is written down that they are."""
    return cluster.host(broker_id).disk.find(CLEAN_MARKER) is not None


def check_left(cluster: SimCluster, broker_id: int) -> None:
    """When its process ends, the broker leads no partition and is in no ISR."""
    for partition in PARTITIONS:
        state = cluster.state(partition).leader_and_isr
        assert state.leader not in (broker_id, -1)
        assert broker_id not in state.isr
    assert is_clean(cluster, broker_id)


@pytest.mark.mission("CSH-1", "CSH-2", "CSH-3", "CSH-8", "CSH-13")
@pytest.mark.parametrize("seed", range(2))
def test_a_rolling_restart_loses_and_duplicates_nothing(seed: int) -> None:
    """The controller is among them; no record is lost or duplicated, and gaps are short."""

    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)

        async def restarts() -> None:
            for broker_id in cluster.broker_ids:
                await cluster.stop(broker_id)
                check_left(cluster, broker_id)
                (said,) = events.named("stop_requested", broker_id)
                assert said.facts["component"] == "kafka-shutdown-hook"
                assert len(events.named("controlled_shutdown_succeeded", broker_id)) == 1
                await asyncio.sleep(1)
                await cluster.bring_up(broker_id)
                await cluster.until_whole(*PARTITIONS)
            assert not events.named("segment_recovered"), "a clean start recovers nothing"

        verdict = await verified(cluster, restarts)
        assert verdict.counts["in_doubt"] == 0
        assert verdict.counts["longest_wait_ms"] < WHOLE_GAP_MS

    simulated(seed).run(scenario)


@pytest.mark.mission("CSH-3")
def test_only_killed_brokers_recover_their_logs() -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)

        async def death() -> None:
            leader = cluster.leader(PARTITIONS[0])
            await cluster.host(leader).kill()
            await cluster.bring_up(leader)
            assert events.named("segment_recovered")

        await verified(cluster, death)

    simulated(4).run(scenario)


@pytest.mark.mission("CSH-7")
def test_the_controller_responds_to_every_version() -> None:
    """Version 0 has a special request header, without a client id."""

    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        await cluster.until("a controller", lambda: cluster.controller_id() is not None)
        world, controller = cluster.client_host.world, cluster.controller_id()
        assert controller is not None
        channel = await Channel.open(
            world.network, world.clock, host_name(controller), PORT, None, ChannelConfig()
        )
        leaving = next(b for b in cluster.broker_ids if b != controller)
        answers = {leaving: ErrorCode.NONE, 99: ErrorCode.BROKER_NOT_AVAILABLE}
        versions = ControlledShutdownRequest.SPEC.versions
        assert (versions.first, versions.last) == (0, 3)
        for version in range(4):
            for broker_id, code in answers.items():
                request = ControlledShutdownRequest(broker_id=broker_id)
                answer = await channel.request(request, version, 5_000)
                assert answer.error_code == code
                assert answer.remaining_partitions == []
        channel.close()

    simulated(8).run(scenario)


@pytest.mark.mission("CSH-4")
def test_it_can_be_switched_off() -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)

        async def restart() -> None:
            leader = cluster.leader(PARTITIONS[0])
            await cluster.stop(leader)
            assert is_clean(cluster, leader)
            assert not events.named("controlled_shutdown_requested")
            assert not events.named("controlled_shutdown_succeeded")
            await cluster.bring_up(leader)

        await verified(cluster, restart)

    simulated(1, {"controlled.shutdown.enable": "false"}).run(scenario)


@pytest.mark.mission("CSH-10")
def test_the_only_replica_of_a_partition_leads_until_its_broker_stops() -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)
        await up(cluster)
        alone = await create(cluster, "alone", 1)
        leader = cluster.leader(alone)
        await cluster.stop(leader)
        (done,) = events.named("controlled_shutdown_succeeded", leader)
        assert done.facts["attempt"] == 1
        await cluster.until("offline", lambda: cluster.leader(alone) == -1)
        await cluster.bring_up(leader)
        await cluster.until("back", lambda: cluster.leader(alone) == leader)

    simulated(2).run(scenario)


@pytest.mark.mission("CSH-5", "CSH-6", "CSH-11", "CSH-12")
def test_a_leadership_that_cannot_move_is_given_up_after_three_attempts() -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)
        await up(cluster)
        partition = await create(cluster, "pair", 3)
        await cluster.until_whole(partition)
        leader = cluster.leader(partition)
        for other in cluster.broker_ids:
            if other != leader:
                await cluster.stop(other)
        began_s = now_s(cluster)
        await cluster.stop(leader)
        refused = events.named("controlled_shutdown_refused", leader)
        assert [event.facts["attempt"] for event in refused] == [1, 2, 3]
        assert all(event.facts["remaining"] == 1 for event in refused)
        pauses = [b.seconds - a.seconds for a, b in itertools.pairwise(refused)]
        assert all(5 <= pause < 5.5 for pause in pauses)
        assert len(events.named("controlled_shutdown_failed", leader)) == 1
        assert 10 <= now_s(cluster) - began_s < 12
        assert is_clean(cluster, leader)

    simulated(3).run(scenario)


async def silence_the_controller(cluster: SimCluster) -> tuple[int, int]:
    """Frozen, as far as anybody can tell. Returns it and another broker."""
    controller = cluster.controller_id()
    assert controller is not None
    cluster.simulation.isolate(host_name(controller))
    return controller, next(b for b in cluster.broker_ids if b != controller)


@pytest.mark.mission("CSH-12", "CSH-13")
@pytest.mark.parametrize("seed", range(2))
def test_shutdown_turns_to_a_new_controller_if_the_old_one_hangs(seed: int) -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)

        async def restart() -> None:
            controller, leaving = await silence_the_controller(cluster)
            began_s = now_s(cluster)
            await cluster.stop(leaving)
            # Its session ends, another is elected, the second attempt goes there.
            assert now_s(cluster) - began_s < SESSION_S + 5 + 5
            assert events.named("controlled_shutdown_succeeded", leaving)
            assert is_clean(cluster, leaving)
            cluster.simulation.heal()
            await cluster.bring_up(leaving)
            await cluster.until("it is back", lambda: controller in cluster.nodes())

        await verified(cluster, restart)

    simulated(seed).run(scenario)


def test_a_controller_without_response_delays_shutdown_for_a_bounded_time() -> None:
    """Its session stays alive, so no other controller is elected."""

    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)
        await up(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        leaving = next(b for b in cluster.broker_ids if b != controller)
        cluster.simulation.partition(host_name(leaving), host_name(controller))
        began_s = now_s(cluster)
        await cluster.stop(leaving)
        assert now_s(cluster) - began_s < 30 + 2 * 5 + 2
        assert len(events.named("controlled_shutdown_failed", leaving)) == 1
        assert len(events.named("controller_not_reached", leaving)) >= 2
        assert is_clean(cluster, leaving)

    simulated(5).run(scenario)


@pytest.mark.mission("CSH-1")
def test_a_second_signal_ends_the_controlled_shutdown() -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)
        await up(cluster)
        _, leaving = await silence_the_controller(cluster)
        stopping = asyncio.create_task(cluster.stop(leaving))
        await asyncio.sleep(2)
        assert not stopping.done()
        began_s = now_s(cluster)
        await cluster.stop(leaving)
        await stopping
        assert now_s(cluster) - began_s < 1
        assert [e.facts["hurried"] for e in events.named("stop_requested", leaving)] == [
            False,
            True,
        ]
        assert is_clean(cluster, leaving)

    simulated(6).run(scenario)


def test_without_zookeeper_shutdown_does_not_wait() -> None:
    async def scenario(cluster: SimCluster) -> None:
        events = Events(cluster)
        await up(cluster)
        await create(cluster, "t", 3)
        cluster.simulation.zookeeper.stop()
        await asyncio.sleep(SESSION_S)  # until everybody has noticed
        began_s = now_s(cluster)
        for broker_id in cluster.broker_ids:
            await cluster.stop(broker_id)
            assert is_clean(cluster, broker_id)
        assert now_s(cluster) - began_s < 5
        assert len(events.named("controlled_shutdown_failed")) == 3

    simulated(7).run(scenario)
