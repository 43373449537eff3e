"""Sticky beside round robin: what records without a key cost in requests and batches (KIP-480)."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from statistics import median
from typing import Any, cast

from minikafka.client import Admin, ClientConfig, Producer, ProducerConfig
from minikafka.world.real.loop import run as run_world
from minikafka.world.real.world import real_world
from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.report import Report

BROKERS = 3
PARTITIONS = 24
RECORDS = 6_000
RECORD_BYTES = 100
LINGER_MS = 5
BURST = 10  # records that are sent together, a millisecond apart from the next ones
STRATEGIES = ("sticky", "round_robin")


def run(report: Report) -> None:
    with Brokers(BROKERS) as cluster:
        found = {name: run_world(_send(cluster.bootstrap, name)) for name in STRATEGIES}
    sticky, turns = (found[name] for name in STRATEGIES)
    title = f"partitioners: {RECORDS:,} records of {RECORD_BYTES} B, {PARTITIONS} partitions"
    report.section(f"{title}, {BROKERS} brokers", ours="sticky", probe="round robin")
    report.row("requests", "1", sticky["requests"], turns["requests"], most=0.5)
    report.row("batches", "1", sticky["batches"], turns["batches"], most=0.5)
    report.row("records a batch", "1", RECORDS / sticky["batches"], RECORDS / turns["batches"], 2.0)
    report.row("bytes sent for a record", "B", sticky["bytes"], turns["bytes"])
    report.row("acknowledged after, median", "ms", sticky["latency"], turns["latency"])


async def _send(bootstrap: str, strategy: str) -> dict[str, float]:
    """Send in small bursts, as an application under moderate load does."""
    world, config = real_world(), ClientConfig(bootstrap)
    topic = f"spread-{strategy}"
    async with Admin(world, config) as admin:
        await admin.create_topic(topic, PARTITIONS, 1)
        await admin.wait_for_topic(topic, PARTITIONS)
    keys = ProducerConfig(partitioner=cast(Any, strategy), linger_ms=LINGER_MS)
    latencies: list[float] = []
    async with Producer(world, config, keys) as producer:
        for partition in range(PARTITIONS):  # every leader is connected
            await producer.send_and_wait(topic, b"first", partition=partition)
        before = producer.metrics()
        payload = b"x" * RECORD_BYTES
        for _ in range(RECORDS // BURST):
            for _ in range(BURST):
                begun = time.perf_counter()
                promise = await producer.send(topic, payload)
                promise.add_done_callback(
                    partial(
                        lambda _, begun: latencies.append(time.perf_counter() - begun), begun=begun
                    )
                )
            await asyncio.sleep(0.001)
        await producer.flush()
        after = producer.metrics()
    grown = {name: after[name] - before[name] for name in after}
    return {
        "requests": grown["request-total"],
        "batches": grown["batch-total"],
        "bytes": grown["outgoing-byte-total"] / RECORDS,
        "latency": median(latencies) * 1000,
    }
