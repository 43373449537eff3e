"""Disks that fail under load: other brokers lead their partitions, and no record is lost."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from minikafka.client import Admin, Consumer
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.simulator.cluster import LogEvent, SimCluster
from tests.support.simulated.directory_campaign import home
from tests.support.simulated.scenario import PARTITIONS, prepared, under_load
from tests.support.simulated.workload import Writer, read_all

SETTINGS = {"log.dirs": "/one,/two", "log.initial.task.delay.ms": "1000"}
WATCHED = PARTITIONS[0]


def moved(
    cluster: SimCluster, broker_id: int, wanted: dict[TopicPartition, str]
) -> Callable[[], bool]:
    return lambda: all(home(cluster, broker_id, p) == path for p, path in wanted.items())


@pytest.mark.parametrize("seed", range(8))
def test_one_of_two_directories_fails(seed: int) -> None:
    """Its partitions are led by others; the broker goes on with the rest. A restart on the mended
    disk brings all back."""

    async def fault(cluster: SimCluster) -> None:
        victim = cluster.leader(WATCHED)
        path = home(cluster, victim, WATCHED)
        there = [p for p in PARTITIONS if home(cluster, victim, p) == path]
        rest = [p for p in PARTITIONS if p not in there]
        assert rest
        disk = cluster.host(victim).disk
        disk.broken.append(path)
        await cluster.until(
            "other leaders", lambda: all(cluster.leader(p) not in (victim, -1) for p in there)
        )
        await asyncio.sleep(2)
        assert victim in cluster.nodes()
        assert not any(victim in cluster.replicas(p) for p in there)
        for partition in rest:
            assert victim in cluster.state(partition).leader_and_isr.isr
        for partition in there:
            assert victim not in cluster.state(partition).leader_and_isr.isr
        assert not cluster.simulation.zookeeper.tree.children("/log_dir_event_notification")
        await cluster.stop(victim)
        disk.broken.clear()
        await cluster.bring_up(victim)

    SimCluster(seed, settings=SETTINGS).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_without_a_directory_left_ends_itself(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        victim = cluster.leader(WATCHED)
        disk = cluster.host(victim).disk
        disk.broken += ["/one", "/two"]
        error = await cluster.end_of(victim)
        assert isinstance(error, OSError)
        assert error.errno == errno.EIO
        assert "all log directories have failed (/one, /two)" in str(error)
        await cluster.until("another leader", lambda: cluster.leader(WATCHED) not in (victim, -1))
        disk.broken.clear()
        await cluster.bring_up(victim)

    SimCluster(seed, settings=SETTINGS).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.parametrize("seed", range(4))
def test_a_full_disk_is_no_failure(seed: int) -> None:
    """The leader refuses what it cannot keep, followers fall back; all is well when there is space
    again."""

    async def fault(cluster: SimCluster) -> None:
        victim = cluster.broker_ids[seed % len(cluster.broker_ids)]
        disk = cluster.host(victim).disk
        disk.capacity_bytes = disk.used_bytes
        await asyncio.sleep(5)
        assert victim in cluster.nodes()
        disk.capacity_bytes = None
        assert "disk_failed" in {event.name for event in seen}
        assert "log_directory_failed" not in {event.name for event in seen}

    seen: list[LogEvent] = []
    cluster = SimCluster(seed, settings=SETTINGS)
    cluster.observers.append(seen.append)
    cluster.run(lambda cluster: under_load(cluster, fault))


@pytest.mark.parametrize("seed", range(3))
def test_a_full_disk_gets_the_replicas_that_it_had_no_room_for(seed: int) -> None:
    """A topic is created while the disk is full; its replicas are created once there is space."""
    late = [TopicPartition("late", index) for index in range(3)]

    async def scenario(cluster: SimCluster) -> None:
        await prepared(cluster)
        victim = cluster.broker_ids[seed % len(cluster.broker_ids)]
        disk = cluster.host(victim).disk
        disk.capacity_bytes = disk.used_bytes
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("late", len(late), 3)
        await cluster.until("led", lambda: all(cluster.leader(p) not in (victim, -1) for p in late))
        await asyncio.sleep(10)
        assert not any(victim in cluster.replicas(p) for p in late)
        disk.capacity_bytes = None
        await cluster.until_whole(*late)

    SimCluster(seed, settings=SETTINGS).run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_replicas_move_under_load(seed: int) -> None:
    async def fault(cluster: SimCluster) -> None:
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            for broker_id in cluster.broker_ids:
                paths = {p: home(cluster, broker_id, p) for p in PARTITIONS}
                wanted = {p: "/two" if path == "/one" else "/one" for p, path in paths.items()}
                outcomes = await admin.alter_replica_log_dirs(broker_id, wanted)
                assert outcomes == dict.fromkeys(PARTITIONS)
                await cluster.until(
                    f"replicas moved on {broker_id}", moved(cluster, broker_id, wanted)
                )
                dirs = (await admin.describe_log_dirs([broker_id]))[broker_id]
                assert {p: path for path in dirs for p in dirs[path].replicas} == wanted

    SimCluster(seed, settings=SETTINGS).run(lambda cluster: under_load(cluster, fault))


@pytest.mark.parametrize("seed", range(3))
def test_retention_under_load(seed: int) -> None:
    """The remaining records are the same on all replicas; deleted offsets are out of range."""
    settings = SETTINGS | {
        "log.retention.check.interval.ms": "500",
        "log.segment.bytes": "2000",
        "log.retention.bytes": "4000",
        "log.segment.delete.delay.ms": "1000",
        "log.flush.interval.messages": "7",
    }

    async def scenario(cluster: SimCluster) -> None:
        await prepared(cluster)
        writer = Writer(cluster, PARTITIONS)
        writer.start()

        def starts(partition: TopicPartition) -> list[int]:
            return [p.log.log_start_offset for p in cluster.replicas(partition).values()]

        await cluster.until(
            "log starts moved",
            lambda: all(min(starts(p)) > 30 for p in PARTITIONS),
        )
        await writer.stop()
        await asyncio.sleep(5)
        found = await read_all(cluster, PARTITIONS[0].topic)
        for partition in PARTITIONS:
            assert len(set(starts(partition))) == 1
            first = min(found[partition])
            assert first >= starts(partition)[0]
            kept = {v: o for v, o in writer.acknowledged[partition].items() if o >= first}
            assert kept == {value: offset for offset, value in found[partition].items()}
            for broker_id, replica in cluster.replicas(partition).items():
                names = cluster.host(broker_id).disk.directory(replica.log.directory).entries
                logs = sorted(name for name in names if name.endswith(".log"))
                assert int(logs[0][:-4]) == replica.log.segments.base_offsets[0]
                assert not [name for name in names if name.endswith(".deleted")]
        async with Consumer(cluster.client_host.world, cluster.client_config) as consumer:
            consumer.assign(PARTITIONS)
            first_offsets = {p: starts(p)[0] for p in PARTITIONS}
            assert await consumer.beginning_offsets() == first_offsets

    SimCluster(seed, settings=settings).run(scenario)
