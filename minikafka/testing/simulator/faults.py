"""Faults of a simulated cluster: coroutines that cause a fault, wait, and repair it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import CLIENT, SimCluster, host_name

MAX_DURATION_S = 12  # twice the session time-out
LONGEST_PAUSE_S = 5
MAX_SILENCE_MS = 200

Fault = Callable[[SimCluster, int, float], Coroutine[Any, Any, None]]


async def killed(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Kill a broker as SIGKILL does; restart it after ``away_s``."""
    await _hold_messages(cluster, broker_id)
    await _stop_and_restart(cluster, broker_id, away_s, cluster.host(broker_id).kill)


async def powerless(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Switch a broker's power off; restart it after ``away_s``."""
    await _hold_messages(cluster, broker_id)
    await _stop_and_restart(cluster, broker_id, away_s, cluster.host(broker_id).crash)


async def stopped(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Stop a broker by controlled shutdown; restart it ``away_s`` after its end."""
    await _stop_and_restart(cluster, broker_id, away_s, lambda: cluster.stop(broker_id))


async def _hold_messages(cluster: SimCluster, broker_id: int) -> None:
    """Hold a broker's messages to the others for a moment, so that its last appends are not
    replicated."""
    for other in cluster.broker_ids:
        if other != broker_id:
            cluster.simulation.clog(host_name(broker_id), host_name(other))
    await asyncio.sleep(cluster.simulation.entropy.between(0, MAX_SILENCE_MS) / 1000)


async def _stop_and_restart(
    cluster: SimCluster, broker_id: int, away_s: float, stop: Callable[[], Awaitable[None]]
) -> None:
    cluster.note("leaves", broker=broker_id)
    await stop()
    for other in cluster.broker_ids:
        cluster.simulation.unclog(host_name(broker_id), host_name(other))
    await asyncio.sleep(away_s)
    await cluster.bring_up(broker_id)


async def isolated(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Cut a broker off from ZooKeeper and all other brokers, but not from clients."""
    others = [other for other in cluster.broker_ids if other != broker_id]
    await _partition(cluster, broker_id, [*map(host_name, others), "zookeeper"], away_s)


async def without_zookeeper(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Cut a broker off from ZooKeeper only: followers of a leader continue to fetch."""
    await _partition(cluster, broker_id, ["zookeeper"], away_s)


async def cut_off_from_one(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Cut a broker off from one other broker."""
    others = [other for other in cluster.broker_ids if other != broker_id]
    other = others[cluster.simulation.entropy.randrange(len(others))]
    await _partition(cluster, broker_id, [host_name(other)], away_s)


async def unreachable(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Cut a broker off from its clients only."""
    await _partition(cluster, broker_id, [CLIENT], away_s)


async def _partition(cluster: SimCluster, broker_id: int, others: list[str], away_s: float) -> None:
    simulation, name = cluster.simulation, host_name(broker_id)
    for other in others:
        simulation.partition(name, other)
    await asyncio.sleep(away_s)
    for other in others:
        simulation.unclog(name, other)
        simulation.unclog(other, name)


async def paused(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Hold all messages of a broker for ``away_s``, as if its process were suspended."""
    others = [host_name(other) for other in cluster.broker_ids if other != broker_id]
    await _partition(cluster, broker_id, [*others, "zookeeper", CLIENT], away_s)


async def disconnected(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Reset all connections with other brokers, at the start and after ``away_s``."""
    for pause_s in (away_s, 0):
        for other in cluster.broker_ids:
            if other != broker_id:
                cluster.simulation.reset(host_name(broker_id), host_name(other))
        await asyncio.sleep(pause_s)


async def refused(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Reset all connections with other brokers, and refuse new ones for ``away_s``: the others take
    the broker, which is alive, for dead."""
    cluster.simulation.refuse(host_name(broker_id))
    await disconnected(cluster, broker_id, away_s)
    cluster.simulation.refuse(host_name(broker_id), False)


async def all_without_zookeeper(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Stop ZooKeeper for ``away_s``. Sessions survive, as after the election of its leader."""
    cluster.simulation.zookeeper.stop()
    await asyncio.sleep(away_s)
    cluster.simulation.zookeeper.start()


async def full_disk(cluster: SimCluster, broker_id: int, away_s: float) -> None:
    """Fill a broker's disk for ``away_s``: appends fail, and the broker stays up."""
    disk = cluster.host(broker_id).disk
    disk.capacity_bytes = disk.used_bytes
    await asyncio.sleep(away_s)
    disk.capacity_bytes = None


async def broken_directory(cluster: SimCluster, broker_id: int, partition: TopicPartition) -> None:
    """Break the log directory of ``partition``; the broker continues with its other directories.

    When another broker leads the partition, repair the disk and restart the broker.
    """
    host = cluster.host(broker_id)
    path = cluster.replicas(partition)[broker_id].log.directory.rpartition("/")[0]
    host.disk.broken.append(path)
    await until_led_by_another(cluster, partition, broker_id)
    await cluster.stop(broker_id)
    host.disk.broken.clear()
    await cluster.bring_up(broker_id)


FAULTS: tuple[Fault, ...] = (
    killed,
    stopped,
    isolated,
    without_zookeeper,
    cut_off_from_one,
    disconnected,
    refused,
    all_without_zookeeper,
)


# Faults after which leaders and ISRs change quickly, at the beginning and at the end.
REPLICATION_FAULTS: tuple[Fault, ...] = (
    killed,
    stopped,
    paused,
    isolated,
    without_zookeeper,
    cut_off_from_one,
    cut_off_from_one,
    disconnected,
    refused,
)


async def storm(cluster: SimCluster, count: int, faults: Sequence[Fault] = FAULTS) -> None:
    """Cause up to ``count`` random faults of up to ``MAX_DURATION_S`` each.

    They may overlap, except two of one kind or two at one broker. Power loss is left out: Kafka
    guarantees nothing after two of them in a row.
    """
    entropy = cluster.simulation.entropy.fork("storm")
    busy: dict[asyncio.Task[None], tuple[Fault, int]] = {}
    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            fault = faults[entropy.randrange(len(faults))]
            broker_id = cluster.broker_ids[entropy.randrange(len(cluster.broker_ids))]
            duration_s = entropy.between(0, MAX_DURATION_S * 1000) / 1000
            running = [pair for task, pair in busy.items() if not task.done()]
            if all(fault is not kind and broker_id != victim for kind, victim in running):
                cluster.note(fault.__name__, broker=broker_id, lasting=duration_s)
                busy[tasks.create_task(fault(cluster, broker_id, duration_s))] = (fault, broker_id)
            await asyncio.sleep(entropy.between(0, LONGEST_PAUSE_S * 1000) / 1000)


async def until_led_by_another(cluster: SimCluster, partition: TopicPartition, victim: int) -> None:
    await cluster.until(
        f"another leader than {victim}", lambda: cluster.leader(partition) not in (victim, -1)
    )
