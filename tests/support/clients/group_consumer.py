"""A consumer process in a group, of a client library of one's choice: prints what it gets, commits.

Lines of JSON: {"assigned": [partition, ...]} whenever that changed, {"record": [partition, offset,
value]} before the offset is committed. Ends by SIGTERM, leaving the group, or by SIGKILL.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from tests.support.clients.confluent import value_of

SESSION_MS = 6_000


def emit(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Stopping:
    def __init__(self) -> None:
        self.requested = False
        signal.signal(signal.SIGTERM, self._request)

    def _request(self, *_: object) -> None:
        self.requested = True


class Assignment:
    def __init__(self) -> None:
        self._last_emitted: list[int] | None = None

    def emit_changes(self, partitions: Iterable[Any]) -> None:
        now = sorted(each.partition for each in partitions)
        if now != self._last_emitted:
            self._last_emitted = now
            emit(assigned=now)


def confluent(options: dict[str, Any], *, has_epochs: bool = False) -> None:
    """With ``has_epochs`` its group has the protocol of KIP-848."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    stopping, assignment = Stopping(), Assignment()
    settings = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 2_000,
    }
    if has_epochs:
        settings["group.protocol"] = "consumer"
    else:
        settings |= {
            "session.timeout.ms": options.get("session_ms", SESSION_MS),
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": options.get("strategy", "range"),
        }
    if "instance" in options:
        settings["group.instance.id"] = options["instance"]
    consumer = Consumer(settings)
    consumer.subscribe([options["topic"]])
    while not stopping.requested:
        messages = consumer.consume(50, timeout=0.2)
        assignment.emit_changes(consumer.assignment())
        records = [message for message in messages if message.error() is None]
        for message in records:
            emit(record=[message.partition(), message.offset(), value_of(message).decode()])
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

    stopping, assignment = Stopping(), Assignment()
    consumer = KafkaConsumer(options["topic"], **settings_of("kafka", options))
    while not stopping.requested:
        found = consumer.poll(200)
        assignment.emit_changes(consumer.assignment())
        tell_records(found)
        if found:
            try:
                consumer.commit()
            except KafkaError as error:
                emit(commit_failed=repr(error))
    consumer.close()


async def aiokafka(options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError

    stopping, assignment = Stopping(), Assignment()
    consumer = AIOKafkaConsumer(
        options["topic"], rebalance_timeout_ms=20_000, **settings_of("aiokafka", options)
    )
    await consumer.start()
    while not stopping.requested:
        found = await consumer.getmany(timeout_ms=200)
        assignment.emit_changes(consumer.assignment())
        tell_records(found)
        if found:
            try:
                await consumer.commit()
            except KafkaError as error:
                emit(commit_failed=repr(error))
    await consumer.stop()


def settings_of(package: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer of kafka-python, or of aiokafka, which has the same
    ones."""
    settings = {
        "bootstrap_servers": options["bootstrap"],
        "group_id": options["group"],
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": options.get("session_ms", SESSION_MS),
        "heartbeat_interval_ms": 500,
        "partition_assignment_strategy": assignors(package, options.get("strategy")),
    }
    if "instance" in options:
        settings["group_instance_id"] = options["instance"]
    return settings


def assignors(package: str, strategy: str | None) -> list[Any]:
    """Return the assignor of this name; by default one that all clients support."""
    room = f"{package}.coordinator.assignors"
    named = {
        "range": import_module(f"{room}.range").RangePartitionAssignor,
        "roundrobin": import_module(f"{room}.roundrobin").RoundRobinPartitionAssignor,
        "sticky": import_module(f"{room}.sticky.sticky_assignor").StickyPartitionAssignor,
    }
    return [named["range"], named["roundrobin"]] if strategy is None else [named[strategy]]


def tell_records(found: Mapping[Any, Iterable[Any]]) -> None:
    for records in found.values():
        for record in records:
            emit(record=[record.partition, record.offset, record.value.decode()])


if __name__ == "__main__":
    library, text = sys.argv[1:]
    given = json.loads(text)
    if library == "aiokafka":
        asyncio.run(aiokafka(given))
    else:
        libraries: dict[str, Callable[[dict[str, Any]], None]] = {
            "confluent": confluent,
            "confluent-epochs": partial(confluent, has_epochs=True),
            "kafka-python": kafka_python,
        }
        libraries[library](given)
