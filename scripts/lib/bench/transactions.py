"""Transactions a second, how long a commit takes, and reads of a topic that is half aborted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import uvloop

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.brokers import Brokers, spread
from scripts.lib.bench.harness import cpu_seconds, percentile
from scripts.lib.bench.load import IN_FLIGHT, Client
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import Connection, batch_of, fetch_frame, fetched_bytes

SECONDS = 5
LEAST_COMMITS = 500
TIMEOUT_MS = 30_000
RECORD_BYTES = 1 << 10
FETCH_BYTES = 1 << 20
WARM_UP = 20


class Transactor:
    """One producer of a topic, whose name is its id. ``commits``: how long EndTxn took, in ms."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.commits: list[float] = []
        self._sequence = 0

    async def start(self, cluster: Brokers) -> None:
        """Connect to the coordinator and to broker 1, which leads the partition."""
        self._leader = await Connection.open(cluster.ports[0])
        found = await self._until_accepted(
            self._leader, ApiKey.FIND_COORDINATOR, key=self.topic, key_type=1
        )
        self._coordinator = await Connection.open(found.port)
        answer = await self._until_accepted(
            self._coordinator,
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=self.topic,
            transaction_timeout_ms=TIMEOUT_MS,
        )
        self._id = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}

    @staticmethod
    async def _until_accepted(connection: Connection, api: ApiKey, /, **values: Any) -> Any:
        while True:
            answer = await connection.request(api, **values)
            if not answer.error_code:
                return answer
            await asyncio.sleep(0.1)

    async def transact(self, committed: bool = True, record_bytes: int = RECORD_BYTES) -> None:
        """Write one record in a transaction. Raises RuntimeError if a step is refused."""
        await self._add_partition()
        batch = batch_of(record_bytes, **self._id, base_sequence=self._sequence, transactional=True)
        self._sequence += 1
        data = [{"name": self.topic, "partition_data": [{"index": 0, "records": batch}]}]
        produced = await self._leader.request(
            ApiKey.PRODUCE, transactional_id=self.topic, acks=-1, timeout_ms=TIMEOUT_MS,
            topic_data=data,
        )  # fmt: skip
        if produced.responses[0].partition_responses[0].error_code:
            raise RuntimeError(f"not produced: {produced}")
        started = time.perf_counter()
        ended = await self._coordinator.request(
            ApiKey.END_TXN, transactional_id=self.topic, **self._id, committed=committed
        )
        if ended.error_code:
            raise RuntimeError(f"not ended: {ended}")
        self.commits.append((time.perf_counter() - started) * 1000)

    async def _add_partition(self) -> None:
        ids = {f"v3_and_below_{name}": value for name, value in self._id.items()}
        topics = [{"name": self.topic, "partitions": [0]}]
        while True:
            answer = await self._coordinator.request(
                ApiKey.ADD_PARTITIONS_TO_TXN, v3_and_below_transactional_id=self.topic,
                **ids, v3_and_below_topics=topics,
            )  # fmt: skip
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            if not result.partition_error_code:
                return
            if result.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                raise RuntimeError(f"not added: {result}")
            await asyncio.sleep(0.001)  # the end of the one before is still being written


def commits(report: Report) -> None:
    for replicas in (1, 3):
        report.section(f"transactions of one 1 KB record, RF {replicas}", probe="to reach")
        factors = {"transaction.state.log.replication.factor": replicas}
        with Brokers(replicas, factors) as cluster:
            for count in (1, 10):
                topics = [f"tx-{count}-{number}" for number in range(count)]
                cluster.create({topic: spread(1, replicas, replicas) for topic in topics})
                latencies, spent = uvloop.run(measured(cluster, topics))
                least = LEAST_COMMITS if replicas == 1 else None
                aim = 1.0 if least else None
                done = len(latencies)
                report.row(f"{count} producers, commits", "1/s", done / SECONDS, least, aim)
                name = f"{count} producers, commits for a second of"
                report.row(name, "brokers' CPU", done / spent, least, aim)
                for share in (0.5, 0.99):
                    name = f"{count} producers, EndTxn p{share * 100:.0f}"
                    report.row(name, "ms", percentile(latencies, share))


async def measured(cluster: Brokers, topics: list[str]) -> tuple[list[float], float]:
    """Return how long each commit took, sorted, and the brokers' CPU time."""
    transactors = [Transactor(topic) for topic in topics]
    for transactor in transactors:
        await transactor.start(cluster)
        for _ in range(WARM_UP):
            await transactor.transact()
        transactor.commits.clear()
    before, end = cpu_seconds(cluster.processes), time.perf_counter() + SECONDS

    async def work(transactor: Transactor) -> None:
        while time.perf_counter() < end:
            await transactor.transact()

    await asyncio.gather(*map(work, transactors))
    spent = cpu_seconds(cluster.processes) - before
    return sorted(ms for transactor in transactors for ms in transactor.commits), spent


def reading(size: int, isolation: int) -> Callable[[Brokers], Client]:
    """Fetch 1 MB at a time of records whose transactions are committed and aborted in turn.

    No two requests in flight want the same records: a broker may read them once for both."""

    def make(cluster: Brokers) -> Client:
        topic = f"half-{size}"
        if cluster.create({topic: [[1]]}):
            uvloop.run(filled(cluster, topic, size))
        frames = [
            fetch_frame(topic, offset, FETCH_BYTES, isolation_level=isolation)
            for offset in range(IN_FLIGHT)
        ]
        return Client(cluster.ports[0], [frames], fetched_bytes)

    return make


async def filled(cluster: Brokers, topic: str, size: int) -> None:
    transactor = Transactor(topic)
    await transactor.start(cluster)
    for number in range(max(8, 2 * FETCH_BYTES // size)):
        await transactor.transact(number % 2 == 0, size)
    await asyncio.sleep(0.5)  # the last marker
