"""Clients of a fake cluster, each in an async context, and what tests do with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from minikafka.client import (
    Admin,
    ClientConfig,
    Consumer,
    ConsumerConfig,
    Producer,
    ProducerConfig,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.builder import build_batch
from tests.support.client.fake_cluster import FakeCluster
from tests.support.world.client_world import client_world


def client_config(cluster: FakeCluster, **settings: Any) -> ClientConfig:
    settings = {"request_timeout_ms": 5_000, **settings}
    return ClientConfig(bootstrap_servers=cluster.bootstrap, **settings)


@asynccontextmanager
async def administering(**settings: Any) -> AsyncIterator[tuple[Admin, FakeCluster]]:
    """An admin client and its cluster, which has no topics."""
    world = client_world()
    cluster = FakeCluster(world)
    await cluster.start()
    async with Admin(world, client_config(cluster, **settings)) as admin:
        yield admin, cluster


@asynccontextmanager
async def consuming(
    partitions: int = 2, **keys: Any
) -> AsyncIterator[tuple[Consumer, FakeCluster]]:
    """A consumer that starts at the earliest offset, and its cluster with the topic "t"."""
    world = client_world()
    cluster = FakeCluster(world)
    cluster.create("t", partitions)
    await cluster.start()
    keys.setdefault("auto_offset_reset", "earliest")
    async with Consumer(world, client_config(cluster), ConsumerConfig(**keys)) as consumer:
        yield consumer, cluster


@asynccontextmanager
async def producing(
    partitions: int = 2, brokers: int = 2, **keys: Any
) -> AsyncIterator[tuple[Producer, FakeCluster]]:
    """A producer and its cluster with the topic "t"."""
    world = client_world()
    cluster = FakeCluster(world, brokers)
    cluster.create("t", partitions)
    await cluster.start()
    async with Producer(world, client_config(cluster), ProducerConfig(**keys)) as producer:
        yield producer, cluster


def fill(cluster: FakeCluster, tp: TopicPartition, first: int, count: int = 1) -> None:
    """Append ``count`` batches of two records; their value is the offset, their timestamp 1000
    times the offset."""
    for offset in range(first, first + 2 * count, 2):
        rows: Any = [(o * 1_000, None, b"%d" % o, []) for o in (offset, offset + 1)]
        cluster.partitions[tp].append(build_batch(rows))


async def take(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Return (partition, offset) of the next records; check the value of each."""
    taken = []
    async for record in consumer:
        assert record.value == b"%d" % record.offset
        taken.append((record.partition, record.offset))
        if len(taken) == count:
            break
    return taken
