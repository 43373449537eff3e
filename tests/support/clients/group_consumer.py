"""A consumer process in a group, of a client library of one's choice: prints what it gets, commits.

Lines of JSON: {"assigned": [partition, ...]} whenever that changed, {"record": [partition, offset,
value]} before the offset is committed. Ends by SIGTERM, leaving the group, or by SIGKILL.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

from tests.support.clients.confluent import value_of

SESSION_MS = 6_000


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Stopping:
    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


def confluent(options: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaError, KafkaException

    stopping = Stopping()
    settings = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": options.get("strategy", "range"),
        "topic.metadata.refresh.interval.ms": 2_000,
    }
    if "instance" in options:
        settings["group.instance.id"] = options["instance"]
    consumer = Consumer(settings)
    consumer.subscribe([options["topic"]])
    told: list[int] | None = None
    while not stopping.asked:
        messages = consumer.consume(50, timeout=0.2)
        now = sorted(p.partition for p in consumer.assignment())
        if now != told:
            told = now
            tell(assigned=now)
        records = [message for message in messages if message.error() is None]
        for message in records:
            tell(record=[message.partition(), message.offset(), value_of(message).decode()])
        if records:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                # Another generation by now, or no coordinator: what was read is read again.
                if error.args[0].code() == KafkaError._INVALID_ARG:
                    raise
    consumer.close()


def kafka_python(options: dict[str, Any]) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    stopping = Stopping()
    extra = {"group_instance_id": options["instance"]} if "instance" in options else {}
    consumer = KafkaConsumer(
        options["topic"],
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        partition_assignment_strategy=kafka_python_assignors(options),
        **extra,
    )
    told: list[int] | None = None
    while not stopping.asked:
        found = consumer.poll(200)
        now = sorted(p.partition for p in consumer.assignment())
        if now != told:
            told = now
            tell(assigned=now)
        for records in found.values():
            for record in records:
                tell(record=[record.partition, record.offset, record.value.decode()])
        if found:
            try:
                consumer.commit()
            except KafkaError as error:
                tell(commit_failed=repr(error))
    consumer.close()


def kafka_python_assignors(options: dict[str, Any]) -> list[Any]:
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    named = {"roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}
    if "strategy" in options:
        return [named[options["strategy"]]]
    return [RangePartitionAssignor, RoundRobinPartitionAssignor]


def aiokafka(options: dict[str, Any]) -> None:
    asyncio.run(_aiokafka(options))


def aiokafka_assignors(options: dict[str, Any]) -> list[Any]:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    named = {"roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}
    if "strategy" in options:
        return [named[options["strategy"]]]
    return [RangePartitionAssignor, RoundRobinPartitionAssignor]


async def _aiokafka(options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    stopping = Stopping()
    extra = {"group_instance_id": options["instance"]} if "instance" in options else {}
    consumer = AIOKafkaConsumer(
        options["topic"],
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        rebalance_timeout_ms=20_000,
        partition_assignment_strategy=aiokafka_assignors(options),
        **extra,
    )
    await consumer.start()
    told: list[int] | None = None
    while not stopping.asked:
        found = await consumer.getmany(timeout_ms=200)
        now = sorted(p.partition for p in consumer.assignment())
        if now != told:
            told = now
            tell(assigned=now)
        for records in found.values():
            for record in records:
                tell(record=[record.partition, record.offset, record.value.decode()])
        if found:
            try:
                await consumer.commit()
            except KafkaError as error:
                tell(commit_failed=repr(error))
    await consumer.stop()


if __name__ == "__main__":
    library, text = sys.argv[1:]
    {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}[library](
        json.loads(text)
    )
