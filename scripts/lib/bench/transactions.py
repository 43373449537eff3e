"""Transactions a second, how long a commit takes, and reads of a topic that is half aborted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import product

from minikafka.client import Admin, ClientConfig, Producer, ProducerConfig
from minikafka.kernel.features import TRANSACTION_VERSION, FeatureUpdate, UpgradeType
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from scripts.lib.bench.brokers import Brokers, spread
from scripts.lib.bench.harness import cpu_seconds, percentile, wait_until
from scripts.lib.bench.load import IN_FLIGHT, Client
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import fetch_frame, fetched_bytes

SECONDS = 5
LEAST_COMMITS = 500
RECORD_BYTES = 1 << 10
FETCH_BYTES = 1 << 20
WARM_UP = 20


def producer_of(cluster: Brokers, topic: str) -> Producer:
    """Return a producer whose transactional id is the name of its topic."""
    config = ProducerConfig(transactional_id=topic, linger_ms=0)
    return Producer(real_world(), ClientConfig(cluster.bootstrap), config)


async def transact(producer: Producer, topic: str, committed: bool, record_bytes: int) -> float:
    """Write one record in a transaction. Return how long its end took, in ms."""
    producer.begin_transaction()
    await producer.send_and_wait(topic, bytes(record_bytes), partition=0)
    started = time.perf_counter()
    await (producer.commit_transaction() if committed else producer.abort_transaction())
    return (time.perf_counter() - started) * 1000


def commits(report: Report) -> None:
    for replicas in (1, 3):
        report.section(f"transactions of one 1 KB record, RF {replicas}", probe="to reach")
        factors = {"transaction.state.log.replication.factor": replicas}
        with Brokers(replicas, factors) as cluster:
            for version, count in product((1, 2), (1, 10)):
                finalize(cluster, version)
                topics = [f"tx-{version}-{count}-{number}" for number in range(count)]
                cluster.create({topic: spread(1, replicas, replicas) for topic in topics})
                who = f"{count} producers, version {version}"
                latencies, spent = run(measured(cluster, topics))
                least = LEAST_COMMITS if replicas == 1 else None
                aim = 1.0 if least else None
                done = len(latencies)
                report.row(f"{who}, commits", "1/s", done / SECONDS, least, aim)
                report.row(f"{who}, for a second of", "brokers' CPU", done / spent, least, aim)
                for share in (0.5, 0.99):
                    name = f"{who}, commit p{share * 100:.0f}"
                    report.row(name, "ms", percentile(latencies, share))


def finalize(cluster: Brokers, version: int) -> None:
    wait_until(lambda: run(is_in_force(cluster, version)), f"version {version} of transactions")


async def is_in_force(cluster: Brokers, version: int) -> bool:
    """Finalize this version of transactions (KIP-890), and return whether the brokers know it."""
    async with Admin(real_world(), ClientConfig(cluster.bootstrap)) as admin:
        for kind in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE):
            await admin.update_features([FeatureUpdate(TRANSACTION_VERSION, version, kind)])
        return (await admin.describe_features()).finalized.get(TRANSACTION_VERSION) == version


async def measured(cluster: Brokers, topics: list[str]) -> tuple[list[float], float]:
    """Return how long each commit took, sorted, and the brokers' CPU time."""
    latencies: list[float] = []
    async with AsyncExitStack() as stack:
        producers = {}
        for topic in topics:
            producer = await stack.enter_async_context(producer_of(cluster, topic))
            await producer.init_transactions()
            for _ in range(WARM_UP):
                await transact(producer, topic, True, RECORD_BYTES)
            producers[topic] = producer
        before, end = cpu_seconds(cluster.processes), time.perf_counter() + SECONDS

        async def work(topic: str) -> None:
            while time.perf_counter() < end:
                latencies.append(await transact(producers[topic], topic, True, RECORD_BYTES))

        await asyncio.gather(*map(work, topics))
        return sorted(latencies), cpu_seconds(cluster.processes) - before


def reading(size: int, isolation: int) -> Callable[[Brokers], Client]:
    """Fetch 1 MB at a time of records whose transactions are committed and aborted in turn.

    No two requests in flight want the same records: a broker may read them once for both."""

    def make(cluster: Brokers) -> Client:
        topic = f"half-{size}"
        if cluster.create({topic: [[1]]}):
            run(filled(cluster, topic, size))
        frames = [
            fetch_frame(topic, offset, FETCH_BYTES, isolation_level=isolation)
            for offset in range(IN_FLIGHT)
        ]
        return Client(cluster.ports[0], [frames], fetched_bytes)

    return make


async def filled(cluster: Brokers, topic: str, size: int) -> None:
    async with producer_of(cluster, topic) as producer:
        await producer.init_transactions()
        for number in range(max(8, 2 * FETCH_BYTES // size)):
            await transact(producer, topic, number % 2 == 0, size)
    await asyncio.sleep(0.5)  # the last marker
