"""How fast several share consumers read one partition, beside official Kafka 4: consumers of
librdkafka, which are the limit on a small machine, and bare requests, which cost a client little.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Final

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.aio import Admin
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import error_codes
from scripts.lib.bench.beside_kafka_4 import cpu_s, two_brokers
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import Connection

TOPIC: Final = "work"
CONSUMERS: Final = 4
RECORDS: Final = 100_000
RECORD_BYTES: Final = 100
MAX_RECORDS: Final = 500  # of one ShareFetch, as librdkafka's and Java's max.poll.records
ACCEPT: Final = 1
ROUNDS: Final = 3
PATIENCE_S: Final = 120.0


class Rate:
    """Counts what the ``CONSUMERS`` members of a group acquire of all records."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap, self.group = bootstrap, group
        self._lock = threading.Lock()
        self._until_s = time.monotonic() + PATIENCE_S
        self._read = 0
        self._began_s = self._ended_s = 0.0

    def goes_on(self) -> bool:
        return self._read < RECORDS and time.monotonic() < self._until_s

    def add(self, count: int) -> None:
        now_s = time.monotonic()
        with self._lock:
            if count:
                self._began_s = self._began_s or now_s
                self._ended_s = now_s
            self._read += count

    def per_second(self) -> float:
        """From the first record to the last one. Raises RuntimeError if some were not read."""
        if self._read < RECORDS:
            raise RuntimeError(
                f"{self.group} read {self._read} of {RECORDS} records at {self.bootstrap}"
            )
        return RECORDS / (self._ended_s - self._began_s)


def by_librdkafka(rate: Rate) -> None:
    """Each member has a thread, and accepts implicitly."""

    def consume() -> None:
        options = {"bootstrap.servers": rate.bootstrap, "group.id": rate.group}
        with closing(ShareConsumer(options)) as consumer:
            consumer.subscribe([TOPIC])
            while rate.goes_on():
                rate.add(sum(message.error() is None for message in consumer.poll(0.2)))

    threads = [threading.Thread(target=consume) for _ in range(CONSUMERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_bare_requests(rate: Rate) -> None:
    """Each member accepts with its next ShareFetch what the last one has acquired, as librdkafka
    does, but looks at no record."""

    async def consume_all() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONSUMERS):
                tasks.create_task(_consume(rate))

    asyncio.run(consume_all())


async def _consume(rate: Rate) -> None:
    member = {"group_id": rate.group, "member_id": str(uuid.uuid4())}
    with closing(await Connection.open(int(rate.bootstrap.rpartition(":")[2]))) as broker:
        topic_id = await _join(broker, member)
        acquired: list[dict[str, object]] = []
        epoch = 0
        while rate.goes_on():
            wanted = {"partition_index": 0, "acknowledgement_batches": acquired}
            response = await broker.request(
                ApiKey.SHARE_FETCH,
                **member,
                share_session_epoch=epoch,
                max_wait_ms=200,
                min_bytes=1,
                max_bytes=50 << 20,
                max_records=MAX_RECORDS,
                batch_size=MAX_RECORDS,
                topics=[{"topic_id": topic_id, "partitions": [wanted]}],
            )
            if error_codes(response):
                raise RuntimeError(f"a ShareFetch was answered with {response}")
            epoch += 1
            found = [
                row
                for topic in response.responses
                for partition in topic.partitions
                for row in partition.acquired_records
            ]
            rate.add(sum(row.last_offset - row.first_offset + 1 for row in found))
            acquired = [
                {
                    "first_offset": row.first_offset,
                    "last_offset": row.last_offset,
                    "acknowledge_types": [ACCEPT],
                }
                for row in found
            ]


async def _join(broker: Connection, member: dict[str, str]) -> uuid.UUID:
    """Return the id of the topic when it is assigned to the member."""
    epoch = 0
    while True:
        response = await broker.request(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            **member,
            member_epoch=epoch,
            subscribed_topic_names=[TOPIC],
        )
        if response.error_code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            raise RuntimeError(f"a member does not join: {response}")
        epoch = response.member_epoch
        if response.assignment is not None and response.assignment.topic_partitions:
            topic_id: uuid.UUID = response.assignment.topic_partitions[0].topic_id
            return topic_id
        await asyncio.sleep(0.05)


WAYS: Final[dict[str, Callable[[Rate], None]]] = {
    "share consumers of librdkafka": by_librdkafka,
    "share consumers of bare requests": by_bare_requests,
}


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": RECORDS})
    for _ in range(RECORDS):
        producer.produce(TOPIC, b"x" * RECORD_BYTES, partition=0)
    producer.flush(60)


async def _begin_early(bootstrap: str, group: str) -> None:
    async with Admin(bootstrap) as admin:
        early = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs(ResourceType.GROUP, group, early)


def run(report: Report) -> None:
    """Rounds alternate; a rate is the best of its side. Raises NoApacheKafka."""
    with two_brokers() as places:
        for bootstrap in places.values():
            _fill(bootstrap)
        for title, consume in WAYS.items():
            rates = dict.fromkeys(places, 0.0)
            cpu_us = dict.fromkeys(places, float("inf"))
            for number in range(ROUNDS):
                for name, bootstrap in places.items():
                    rate = Rate(bootstrap, f"{consume.__name__}-{number}")
                    asyncio.run(_begin_early(bootstrap, rate.group))
                    before_s = cpu_s(bootstrap)
                    consume(rate)
                    rates[name] = max(rates[name], rate.per_second())
                    used_us = (cpu_s(bootstrap) - before_s) / RECORDS * 1e6
                    cpu_us[name] = min(cpu_us[name], used_us)
            report.section(
                f"{CONSUMERS} {title} on one partition, {RECORD_BYTES} B a record", *places
            )
            ours, theirs = places
            report.row("records a second", "records/s", rates[ours], rates[theirs])
            report.row("CPU of the broker a record", "µs", cpu_us[ours], cpu_us[theirs])
