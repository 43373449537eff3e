"""Records what the page shows of a simulated cluster, for tests of the page and for pictures.

The sources of the page run over the networks of simulated hosts, so a seed decides every byte.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from minikafka.client import Admin, Consumer, ConsumerConfig, Producer, ProducerConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import Network
from minikafka.page.dashboard.broadcast import Broadcast
from minikafka.page.dashboard.follow import Follow
from minikafka.page.dashboard.messages import Hello
from minikafka.page.dashboard.recording import record
from minikafka.page.dashboard.stage import Stage
from minikafka.testing.simulator.cluster import SimCluster

DEFAULT_SEED = 21
DEBUG_PORT = 9192
AT_ONCE = 40  # records that are written ten times a second
TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "billing", "payments"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
SETTINGS = {
    "debug.listener": f"HTTP://127.0.0.1:{DEBUG_PORT}",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "zookeeper.session.timeout.ms": "6000",
}


def failover(seed: int, settings: Mapping[str, str] = SETTINGS) -> list[str]:
    """Return the lines of a recording: a topic is written and read by a group, the controller,
    which also leads a partition, is killed and comes back, one transaction commits and one is
    aborted."""
    lines: list[str] = []
    SimCluster(seed, settings=settings).run(lambda cluster: _play(cluster, lines.append))
    return lines


async def _play(cluster: SimCluster, write: Callable[[str], object]) -> None:
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    async with AsyncExitStack() as stack:
        broadcast = await followed(cluster, stack)
        recording = cluster.client_host.spawn(record(broadcast, write), "record")
        stack.push_async_callback(_end_task, recording)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        working = tasks.create_task(_traffic(cluster))
        await cluster.until("written", lambda: _end(cluster) > 20 * AT_ONCE)
        await asyncio.sleep(5)
        await _kill_controller(cluster)
        await _transaction(cluster)
        await asyncio.sleep(5)
        working.cancel()
        await asyncio.wait([working])
        await asyncio.sleep(2)


async def followed(cluster: SimCluster, stack: AsyncExitStack) -> Broadcast:
    """Follow a simulated cluster as the page's process does, until ``stack`` ends."""
    world, config = cluster.client_host.world, cluster.client_config
    hello = Hello(bootstrap=config.bootstrap_servers)
    broadcast = Broadcast(world.clock, Stage("recording", hello, world.clock.wall_ms()))
    admin = await stack.enter_async_context(Admin(world, config))

    def network_of(broker_id: int) -> Network:
        """A debug listener is reached from its own host only."""
        host = cluster.host(broker_id)
        if not host.alive:
            raise ConnectionRefusedError("connection refused")
        return host.world.network

    follow = Follow(world, admin, broadcast, network_of)
    stack.push_async_callback(_end_task, cluster.client_host.spawn(follow.run(), "follow"))
    return broadcast


async def _end_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def _traffic(cluster: SimCluster) -> None:
    """Write and read ``TOPIC`` until cancelled: one producer, a group of two consumers."""
    world, config = cluster.client_host.world, cluster.client_config
    async with Admin(world, config) as admin:
        await admin.create_topic(TOPIC, 3, 3, {"min.insync.replicas": "2"})
        await admin.wait_for_topic(TOPIC, 3)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_produce(cluster))
        for number in (1, 2):
            tasks.create_task(_consume(cluster, f"{GROUP}-{number}"))


async def _produce(cluster: SimCluster) -> None:
    config = ProducerConfig(acks=-1)
    async with Producer(cluster.client_host.world, cluster.client_config, config) as producer:
        number = 0
        while True:
            for _ in range(AT_ONCE):
                number += 1
                await producer.send(TOPIC, f"order {number}".encode(), partition=number % 3)
            await asyncio.sleep(0.1)


async def _consume(cluster: SimCluster, client_id: str) -> None:
    client = replace(cluster.client_config, client_id=client_id)
    config = ConsumerConfig(
        group_id=GROUP, auto_offset_reset="earliest", auto_commit_interval_ms=1_000
    )
    async with Consumer(cluster.client_host.world, client, config) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            await consumer.poll(timeout_ms=500)


async def _kill_controller(cluster: SimCluster) -> None:
    """Kill the controller, which also leads a partition, since each broker does. Start it again
    when another one is elected."""
    killed = cluster.controller_id()
    assert killed is not None
    led = next(tp for tp in PARTITIONS if cluster.leader(tp) == killed)
    await cluster.host(killed).kill()
    await cluster.until("another controller", lambda: cluster.controller_id() not in (killed, None))
    await cluster.until("another leader", lambda: cluster.leader(led) not in (killed, -1))
    await asyncio.sleep(5)
    await cluster.bring_up(killed)
    await cluster.until_whole(*PARTITIONS)


async def _transaction(cluster: SimCluster) -> None:
    config = ProducerConfig(transactional_id=TRANSACTIONAL_ID)
    async with Producer(cluster.client_host.world, cluster.client_config, config) as producer:
        await producer.init_transactions()
        for ending in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            for partition in range(3):
                await producer.send_and_wait(TOPIC, b"payment", partition=partition)
            await asyncio.sleep(3)
            await ending()


def _end(cluster: SimCluster) -> int:
    return max((p.high_watermark for p in cluster.replicas(PARTITIONS[0]).values()), default=0)


def main(words: list[str]) -> None:
    file = Path(words[0] if words else "failover.ndjson")
    seed = int(words[1]) if len(words) > 1 else DEFAULT_SEED
    lines = failover(seed)
    file.write_text("".join(lines), encoding="ascii")
    print(f"{file}: {len(lines)} messages, {sum(map(len, lines))} bytes, seed {seed}")


if __name__ == "__main__":
    main(sys.argv[1:])
