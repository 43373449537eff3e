"""How fast several share consumers of librdkafka read one partition, beside official Kafka 4."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.aio import Admin
from minikafka.core.config_resources import ResourceType
from scripts.lib.bench.beside_kafka_4 import cpu_s, two_brokers
from scripts.lib.bench.report import Report

TOPIC: Final = "work"
CONSUMERS: Final = 4
RECORDS: Final = 100_000
RECORD_BYTES: Final = 100
ROUNDS: Final = 3
PATIENCE_S: Final = 120.0


class Rate:
    """Reads all records by ``CONSUMERS`` members of a group, which accept them implicitly."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap, self._group = bootstrap, group
        self._lock = threading.Lock()
        self._read = 0
        self._began_s = self._ended_s = 0.0

    def run(self) -> float:
        """Return records a second, from the first record to the last one. Raises RuntimeError."""
        asyncio.run(self._begin_early())
        threads = [threading.Thread(target=self._consume) for _ in range(CONSUMERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._read < RECORDS:
            raise RuntimeError(
                f"{self._group} read {self._read} of {RECORDS} records at {self._bootstrap}"
            )
        return RECORDS / (self._ended_s - self._began_s)

    async def _begin_early(self) -> None:
        async with Admin(self._bootstrap) as admin:
            early = {"share.auto.offset.reset": "earliest"}
            await admin.alter_configs(ResourceType.GROUP, self._group, early)

    def _consume(self) -> None:
        consumer = ShareConsumer({"bootstrap.servers": self._bootstrap, "group.id": self._group})
        consumer.subscribe([TOPIC])
        until = time.monotonic() + PATIENCE_S
        while self._read < RECORDS and time.monotonic() < until:
            count = sum(message.error() is None for message in consumer.poll(0.2))
            now_s = time.monotonic()
            with self._lock:
                if count:
                    self._began_s = self._began_s or now_s
                    self._ended_s = now_s
                self._read += count
        consumer.close()


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": RECORDS})
    for _ in range(RECORDS):
        producer.produce(TOPIC, b"x" * RECORD_BYTES, partition=0)
    producer.flush(60)


def run(report: Report) -> None:
    """Rounds alternate; a rate is the best of its side. Raises NoApacheKafka."""
    with two_brokers() as places:
        rates = dict.fromkeys(places, 0.0)
        cpu_us = dict.fromkeys(places, float("inf"))
        for bootstrap in places.values():
            _fill(bootstrap)
        for number in range(ROUNDS):
            for name, bootstrap in places.items():
                before_s = cpu_s(bootstrap)
                rates[name] = max(rates[name], Rate(bootstrap, f"round-{number}").run())
                used_us = (cpu_s(bootstrap) - before_s) / RECORDS * 1e6
                cpu_us[name] = min(cpu_us[name], used_us)
    title = f"{CONSUMERS} share consumers of librdkafka on one partition, {RECORD_BYTES} B a record"
    report.section(title, *places)
    ours, theirs = places
    report.row("records a second", "records/s", rates[ours], rates[theirs])
    report.row("CPU of the broker a record", "µs", cpu_us[ours], cpu_us[theirs])
