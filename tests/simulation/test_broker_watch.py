"""A broker whose process is gone is replaced long before its session ends; one that lives is not,
or loses nothing by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from minikafka.kernel.ports import SetOp
from minikafka.server.zookeeper import paths
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import CLIENT, LogEvent, SimCluster, host_name
from minikafka.world.memory.znode_tree import Author
from tests.support.simulated.scenario import PARTITIONS, prepared, under_load

WATCHED = PARTITIONS[0]
SESSION_S = 18
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_S * 1000)}
SOON_S = 0.5
Play: TypeAlias = Callable[[SimCluster], Coroutine[Any, Any, None]]


class Seen:
    """The events of some names, in order."""

    def __init__(self, cluster: SimCluster, *names: str) -> None:
        self._names = names
        self.events: list[LogEvent] = []
        cluster.observers.append(self._observe)

    def _observe(self, event: LogEvent) -> None:
        if event.name in self._names:
            self.events.append(event)

    def named(self, name: str) -> list[LogEvent]:
        return [event for event in self.events if event.name == name]


def is_registered(cluster: SimCluster, broker: int) -> bool:
    names = cluster.simulation.zookeeper.tree.children(paths.BROKER_IDS)
    return str(broker) in names


def leads(cluster: SimCluster, broker: int) -> bool:
    return any(cluster.leader(partition) == broker for partition in PARTITIONS)


async def until_replaced(cluster: SimCluster, *gone: int) -> None:
    """Wait until others lead and control what these brokers did."""
    await cluster.until(
        "replaced",
        lambda: (
            cluster.controller_id() not in (None, *gone)
            and not any(cluster.leader(partition) in (-1, *gone) for partition in PARTITIONS)
        ),
        SOON_S,
    )


def others_than(cluster: SimCluster, broker: int | None) -> list[int]:
    return [each for each in cluster.broker_ids if each != broker]


@pytest.mark.mission("GONE-1")
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_leader_is_replaced_at_once(seed: int) -> None:
    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        controller = cluster.controller_id()
        victim = next(each for each in others_than(cluster, controller) if leads(cluster, each))
        seen = Seen(cluster, "broker_found_gone")
        await cluster.host(victim).kill()
        await until_replaced(cluster, victim)
        assert cluster.controller_id() == controller
        (found,) = seen.events
        assert found.facts["gone_broker"] == victim
        states = [cluster.state(partition) for partition in PARTITIONS]
        await asyncio.sleep(SESSION_S + 1)  # the session ends, and nothing happens
        assert [cluster.state(partition) for partition in PARTITIONS] == states

    SimCluster(seed, settings=SETTINGS).run(play)


@pytest.mark.mission("GONE-2")
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_controller_is_replaced_at_once(seed: int) -> None:
    """It leads partitions as well."""

    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        seen = Seen(cluster, "controller_elected")
        await cluster.host(controller).kill()
        await until_replaced(cluster, controller)
        assert not is_registered(cluster, controller)
        await asyncio.sleep(SESSION_S + 1)
        assert len(seen.events) == 1

    SimCluster(seed, settings=SETTINGS).run(play)


@pytest.mark.mission("GONE-2")
@pytest.mark.parametrize("seed", range(4))
def test_the_last_of_three_brokers_replaces_both_others(seed: int) -> None:
    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        other, last = others_than(cluster, controller)
        await asyncio.gather(cluster.host(controller).kill(), cluster.host(other).kill())
        await cluster.until("replaced", lambda: cluster.controller_id() == last, 2 * SOON_S)
        await cluster.until("removed", lambda: not is_registered(cluster, other), 2 * SOON_S)

    SimCluster(seed, settings=SETTINGS).run(play)


def dark(cluster: SimCluster, broker: int) -> Awaitable[None]:
    return cluster.host(broker).crash()


async def suspended(cluster: SimCluster, broker: int) -> None:
    asyncio.get_running_loop().create_task(faults.paused(cluster, broker, SESSION_S * 3))


async def cut_off(cluster: SimCluster, broker: int) -> None:
    asyncio.get_running_loop().create_task(faults.isolated(cluster, broker, SESSION_S * 3))


@pytest.mark.mission("GONE-3")
@pytest.mark.parametrize("silence", [dark, suspended, cut_off])
def test_silence_is_no_evidence(silence: Callable[[SimCluster, int], Awaitable[None]]) -> None:
    """A host without power, a stopped process, a cut link: the session decides."""

    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        controller = cluster.controller_id()
        victim = next(each for each in others_than(cluster, controller) if leads(cluster, each))
        seen = Seen(cluster, "broker_found_gone")
        await silence(cluster, victim)
        await asyncio.sleep(SESSION_S / 2)
        assert is_registered(cluster, victim)
        assert leads(cluster, victim)
        await cluster.until("expired", lambda: not is_registered(cluster, victim))
        assert seen.events == []

    SimCluster(1, settings=SETTINGS).run(play)


@pytest.mark.mission("GONE-3")
def test_a_reset_connection_is_no_evidence() -> None:
    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        seen = Seen(cluster, "broker_found_gone", "registration_lost")
        for _ in range(20):
            for one, other in ((1, 2), (2, 3), (1, 3)):
                cluster.simulation.reset(host_name(one), host_name(other))
            await asyncio.sleep(0.1)
        assert seen.events == []

    SimCluster(1, settings=SETTINGS).run(play)


@pytest.mark.mission("GONE-3")
def test_the_key_turns_it_off() -> None:
    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        victim = next(each for each in cluster.broker_ids if leads(cluster, each))
        await cluster.host(victim).kill()
        await asyncio.sleep(SESSION_S / 2)
        assert is_registered(cluster, victim)
        assert leads(cluster, victim)

    off = {**SETTINGS, "minikafka.fast.failover": "false"}
    SimCluster(1, settings=off).run(play)


@pytest.mark.mission("GONE-4")
@pytest.mark.parametrize("seed", range(4))
def test_a_restarted_broker_takes_its_id_over_at_once(seed: int) -> None:
    """It was the controller. All others are down, so that nobody else finds its earlier run
    gone."""

    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        seen = Seen(cluster, "old_registration_removed", "controller_elected")
        for broker in cluster.broker_ids:
            await cluster.host(broker).crash()
        began_s = cluster.simulation.loop.seconds()
        await cluster.bring_up(controller)
        assert cluster.simulation.loop.seconds() - began_s < SESSION_S / 2
        await cluster.until("controls", lambda: len(seen.events) == 2, SOON_S)
        assert [event.name for event in seen.events] == [
            "old_registration_removed",
            "controller_elected",
        ]

    SimCluster(seed, settings=SETTINGS).run(play)


def garble_controller_epoch(cluster: SimCluster) -> None:
    tree = cluster.simulation.zookeeper.tree
    assert tree.apply([SetOp(paths.CONTROLLER_EPOCH, b"one")], Author(0), 0).error is None


@pytest.mark.mission("GONE-3")
def test_a_znode_that_cannot_be_read_ends_no_broker() -> None:
    """Neither those that find a broker gone nor the one that starts again: the session decides."""

    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        controller = cluster.controller_id()
        victim, other = others_than(cluster, controller)
        seen = Seen(cluster, "broker_not_removed", "old_registration_awaited")
        garble_controller_epoch(cluster)
        await cluster.host(victim).kill()
        await cluster.until(
            "not removed",
            lambda: {event.facts["broker"] for event in seen.events} == {controller, other},
            SOON_S,
        )
        cluster.start(victim)
        await cluster.until("awaits", lambda: bool(seen.named("old_registration_awaited")), 2)
        assert all(cluster.is_alive(broker) for broker in cluster.broker_ids)

    SimCluster(1, settings=SETTINGS).run(play)


@pytest.mark.mission("GONE-5")
@pytest.mark.parametrize("seed", range(8))
def test_a_living_broker_that_is_taken_for_dead_loses_no_acknowledged_record(seed: int) -> None:
    """Something refuses connections for the leader, which is alive and serves its clients."""
    seen: list[Seen] = []

    async def fault(cluster: SimCluster) -> None:
        victim = cluster.leader(WATCHED)
        await faults.refused(cluster, victim, 3)
        await cluster.until("is back", lambda: is_registered(cluster, victim))

    async def play(cluster: SimCluster) -> None:
        seen.append(Seen(cluster, "broker_found_gone", "registration_lost"))
        await under_load(cluster, fault)

    SimCluster(seed).run(play)
    (found,) = seen
    assert found.named("broker_found_gone")
    assert found.named("registration_lost")


@pytest.mark.mission("GONE-5")
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_clients_see_as_dead_is_alive(seed: int) -> None:
    """Only clients cannot reach it: no broker finds it gone."""

    async def play(cluster: SimCluster) -> None:
        await prepared(cluster)
        seen = Seen(cluster, "broker_found_gone")
        cluster.simulation.reset(CLIENT, host_name(1))
        cluster.simulation.clog(CLIENT, host_name(1))
        await asyncio.sleep(2)
        assert seen.events == []

    SimCluster(seed, settings=SETTINGS).run(play)
