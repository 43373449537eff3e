"""Transactions a second, how long a commit takes, and what reading committed records costs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import uvloop

from minikafka.network.channel import Channel
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.schema import Message
from minikafka.world.real.clock import RealClock
from minikafka.world.real.network import RealNetwork
from scripts.lib.bench import requests
from scripts.lib.bench.load import drive_in_turn
from scripts.lib.bench.produce import IN_FLIGHT, leader_port, rate
from scripts.lib.bench.report import Report
from scripts.lib.cluster import Cluster

SECONDS = 5
LEAST_COMMITS = 500
LEAST_SHARE = 0.8
TIMEOUT_MS = 30_000
CONCURRENT_TRANSACTIONS = 51
CLIENTS_VERSIONS = {22: 4, 24: 3, 26: 3, 0: 9, 10: 3}
RECORD_BYTES = 1 << 10
FETCH_BYTES = 1 << 20
ROUNDS = 5


class Transactor:
    """One producer with connections of its own. ``commits`` are how long EndTxn took, in ms."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.commits: list[float] = []
        self._sequence = 0

    async def start(self, bootstrap_port: int, leader: int) -> None:
        any_broker = await connect(bootstrap_port)
        while True:
            found = await ask(any_broker, FindCoordinatorRequest(self.name, 1))
            if not found.error_code:
                break
            await asyncio.sleep(0.1)
        self._coordinator = await connect(found.port)
        self._leader = await connect(leader)
        while True:
            answer = await ask(self._coordinator, InitProducerIdRequest(self.name, TIMEOUT_MS))
            if not answer.error_code:
                break
            await asyncio.sleep(0.1)
        self._id, self._epoch = answer.producer_id, answer.producer_epoch

    async def transact(self, committed: bool = True, record_bytes: int = RECORD_BYTES) -> None:
        """One record in a transaction of its own."""
        topics = [AddPartitionsToTxnTopic(self.topic, [0])]
        add = AddPartitionsToTxnRequest([], self.name, self._id, self._epoch, topics)
        while True:
            answer = await ask(self._coordinator, add)
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            if not code.partition_error_code:
                break
            if code.partition_error_code != CONCURRENT_TRANSACTIONS:
                raise RuntimeError(f"not added: {code}")
            await asyncio.sleep(0.001)  # the end of the one before is still being written
        batch = build_batch(
            [(int(time.time() * 1000), None, bytes(record_bytes), ())],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        data = [TopicProduceData(self.topic, [PartitionProduceData(0, batch)])]
        produced = await ask(self._leader, ProduceRequest(self.name, -1, TIMEOUT_MS, data))
        if produced.responses[0].partition_responses[0].error_code:
            raise RuntimeError(f"not produced: {produced}")
        started = time.perf_counter()
        ended = await ask(
            self._coordinator, EndTxnRequest(self.name, self._id, self._epoch, committed)
        )
        if ended.error_code:
            raise RuntimeError(f"not ended: {ended}")
        self.commits.append((time.perf_counter() - started) * 1000)


async def connect(port: int) -> Channel:
    return await Channel.open(RealNetwork(), RealClock(), "127.0.0.1", port, "bench")


async def ask(channel: Channel, message: Message) -> Any:
    assert message.SPEC.api_key is not None
    return await channel.request(message, CLIENTS_VERSIONS[message.SPEC.api_key], TIMEOUT_MS)


def run(report: Report) -> None:
    for replicas in (1, 3):
        report.section(f"transactions of one 1 KB record, RF {replicas}", probe="to reach")
        with tempfile.TemporaryDirectory() as home, Cluster(Path(home), replicas) as cluster:
            for count in (1, 10):
                commits, of_a_core, latencies = uvloop.run(measured(cluster, count, replicas))
                least = LEAST_COMMITS if replicas == 1 else None
                aim = None if least is None else 1.0
                report.row(f"{count} producers, commits", "1/s", commits, least, aim)
                name = f"{count} producers, commits for a second of"
                report.row(name, "brokers' CPU", of_a_core, least, aim)
                for share in (0.5, 0.99):
                    at = latencies[int(len(latencies) * share)]
                    report.row(f"{count} producers, EndTxn p{share * 100:.0f}", "ms", at)
            if replicas == 1:
                reading(report, cluster)


async def measured(cluster: Cluster, count: int, replicas: int) -> tuple[float, float, list[float]]:
    """Commits a second; commits for a second that the brokers had a core; latencies, sorted."""
    transactors = []
    for number in range(count):
        name = f"tx-{count}-{number}"
        await asyncio.to_thread(create, cluster, name, replicas)
        leader = await asyncio.to_thread(leader_port, cluster, name)
        transactors.append(Transactor(name, name))
        await transactors[-1].start(port_of(cluster), leader)
    for transactor in transactors:
        for _ in range(20):
            await transactor.transact()
        transactor.commits.clear()
    brokers = [psutil.Process(cluster.broker_pid(1 + number)) for number in range(replicas)]
    before = cpu_seconds(brokers)
    end = time.perf_counter() + SECONDS

    async def work(transactor: Transactor) -> None:
        while time.perf_counter() < end:
            await transactor.transact()

    await asyncio.gather(*map(work, transactors))
    latencies = sorted(ms for transactor in transactors for ms in transactor.commits)
    spent = cpu_seconds(brokers) - before
    return len(latencies) / SECONDS, len(latencies) / spent, latencies


def cpu_seconds(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return float(sum(each.user + each.system for each in times))


def create(cluster: Cluster, topic: str, replicas: int) -> None:
    from scripts.lib.bench.produce import create as create_topic

    create_topic(cluster, topic, replicas)


def port_of(cluster: Cluster) -> int:
    return int(cluster.bootstrap.split(",")[0].rpartition(":")[2])


def reading(report: Report, cluster: Cluster) -> None:
    report.section("fetch in 1 MB reads, half of it aborted (MB/s)", "committed", "plain")
    for size in (1 << 10, 16 << 10, 256 << 10):
        topic = f"half-{size}"
        create(cluster, topic, 1)
        port = leader_port(cluster, topic)
        uvloop.run(filled(port, topic, size))
        # No two in flight want the same: it would be read once.
        frames = [[fetch_frame(topic, i, at) for at in range(IN_FLIGHT)] for i in (1, 0)]
        results: list[list[float]] = [[], []]
        for each in frames:
            _, answer = uvloop.run(drive_in_turn(port, each, 50, IN_FLIGHT))
        records = len(requests.fetched(answer))
        for _ in range(ROUNDS):
            for found, each in zip(results, frames, strict=True):
                found.append(rate([uvloop.run(drive_in_turn(port, each, 500, IN_FLIGHT))[0]]))
        committed, plain = (median(found) * records / 1e6 for found in results)
        aim = LEAST_SHARE if size > RECORD_BYTES else None
        report.row(f"transactions of {size >> 10} KB", "MB/s", committed, plain, aim)


async def filled(port: int, topic: str, size: int) -> None:
    """Enough for a read, every other transaction aborted."""
    transactor = Transactor(topic, topic)
    await transactor.start(port, port)
    for number in range(max(8, 2 * FETCH_BYTES // size)):
        await transactor.transact(number % 2 == 0, size)
    await asyncio.sleep(0.5)  # the last marker


def fetch_frame(topic: str, isolation: int, offset: int) -> bytes:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return encode_request(RequestHeader(1, requests.FETCH_VERSION, 1, "bench"), request)
