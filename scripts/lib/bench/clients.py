"""Our client beside others, on one broker in one run: records a second, sent and read.

Each measurement is a process: ``python -m scripts.lib.bench.clients CLIENT send|read BOOTSTRAP
TOPIC COUNT SIZE`` prints records a second, and the CPU time of one in µs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.report import Report

OTHERS = ("confluent-kafka", "aiokafka", "kafka-python")
AIMS = {"confluent-kafka": 0.3, "aiokafka": 1.0, "kafka-python": 1.0}
RECORDS = {100: 60_000, 1000: 30_000}
# Records handed over many at once: more of them, since a call has thousands.
MANY = ("minikafka many", "minikafka arrow")
MANY_RECORDS = {100: 500_000, 1000: 100_000}
ARROW_AIM = 1_000_000  # records of 100 B in a second of a core
ROUNDS = 2  # the better one counts: others work on this machine, too
SETTINGS = {"group.initial.rebalance.delay.ms": 0}
VERBS = {"send": "sent", "read": "read"}
LIMIT_S = 300

LINGER_MS = 5
BATCH_BYTES = 131_072
CHUNK = 500
MANY_AT_ONCE = 10_000
WAIT_MS = 30_000

Figures = dict[str, dict[str, float]]  # of each client: "rate", "cpu"


def run(report: Report) -> None:
    with Brokers(1, SETTINGS) as cluster:
        for size, count in RECORDS.items():
            for what, verb in VERBS.items():
                found = best(cluster, what, ("minikafka", *OTHERS), "minikafka", size, count)
                for name in OTHERS:
                    report.section(f"client: records of {size} B {verb}", probe=name[:11])
                    print_rows(report, found["minikafka"], found[name], AIMS[name])
        for size, count in MANY_RECORDS.items():
            for what, verb in VERBS.items():
                names = (*MANY, "confluent-kafka")
                found = best(cluster, what, names, MANY[0], size, count)
                for name in MANY:
                    title = f"client: {name.split()[-1]} records of {size} B {verb} at once"
                    report.section(title, probe="confluent")
                    least = 1.0 if name == MANY[0] else None
                    print_rows(report, found[name], found["confluent-kafka"], least)
                if size == 100:
                    title = f"client: Arrow tables {verb}, by one core"
                    report.section(title, probe="the aim")
                    rate = 1e6 / found[MANY[1]]["cpu"]
                    report.row("records a CPU second", "1/s", rate, ARROW_AIM, 1.0)


def print_rows(
    report: Report, ours: dict[str, float], theirs: dict[str, float], least: float | None
) -> None:
    report.row("records a second", "1/s", ours["rate"], theirs["rate"], least)
    report.row("CPU of the client for a record", "µs", ours["cpu"], theirs["cpu"])


def best(
    cluster: Brokers, what: str, names: tuple[str, ...], read: str, size: int, count: int
) -> Figures:
    """Return the best of some rounds in turns. Each client writes to other topics; all read
    the first one that ``read`` has written."""
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(ROUNDS):
        for name, found in rounds.items():
            writer = (name, number) if what == "send" else (read, 0)
            topic = f"{writer[0].replace(' ', '-')}-{size}-{count}-{writer[1]}"
            cluster.create({topic: [[1]]})
            command = [sys.executable, "-m", "scripts.lib.bench.clients", name, what]
            command += [cluster.bootstrap, topic, str(count), str(size)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            if done.returncode:
                raise RuntimeError(f"{name} could not {what}: {done.stderr[-2000:]}")
            found.append(json.loads(done.stdout))
    return {
        name: {
            "rate": max(each["rate"] for each in found),
            "cpu": min(each["cpu"] for each in found),
        }
        for name, found in rounds.items()
    }


# ------------------------------------------------------------------------------ in another process


class Stopwatch:
    """Wall and CPU time from ``start`` to ``stop``."""

    def start(self) -> None:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()

    def stop(self) -> None:
        self.wall += time.perf_counter()
        self.cpu += time.process_time()


# Sends so many records of a payload and returns how many were acknowledged; or reads as many as
# are there, at most so many, and returns their number.
Send = Callable[[bytes, int, Stopwatch], Awaitable[int]]
Read = Callable[[int], Awaitable[int]]


def one_by_one(producer: Any, topic: str) -> Send:
    """The send of an asyncio client."""

    async def send(payload: bytes, count: int, watch: Stopwatch) -> int:
        watch.start()
        futures = [await producer.send(topic, payload, partition=0) for _ in range(count)]
        await producer.flush()
        watch.stop()
        return sum(future.exception() is None for future in futures)

    return send


def many_at_once(producer: Any, topic: str) -> Send:
    async def send(payload: bytes, count: int, watch: Stopwatch) -> int:
        watch.start()
        futures = [
            await producer.send_many(
                topic, [payload for _ in range(min(MANY_AT_ONCE, count - begin))], partition=0
            )
            for begin in range(0, count, MANY_AT_ONCE)
        ]
        written = [each for future in futures for each in await future]
        watch.stop()
        return sum(each.record_count for each in written)

    return send


def as_table(producer: Any, topic: str) -> Send:
    import pyarrow as pa

    async def send(payload: bytes, count: int, watch: Stopwatch) -> int:
        partitions = pa.repeat(pa.scalar(0, "int32"), count)
        values = pa.array([payload] * count, pa.binary())
        table = pa.table({"value": values, "partition": partitions})
        watch.start()
        written = await (await producer.send_arrow(topic, table))
        watch.stop()
        return sum(each.record_count for each in written)

    return send


SENDS = {"minikafka": one_by_one, "minikafka many": many_at_once, "minikafka arrow": as_table}


@asynccontextmanager
async def minikafka_sender(name: str, bootstrap: str, topic: str) -> AsyncIterator[Send]:
    from minikafka.client import ClientConfig, Producer, ProducerConfig
    from minikafka.world.real.world import real_world

    config = ProducerConfig(linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
    async with Producer(real_world(), ClientConfig(bootstrap), config) as producer:
        yield SENDS[name](producer, topic)


@asynccontextmanager
async def minikafka_reader(name: str, bootstrap: str, topic: str) -> AsyncIterator[Read]:
    """``poll``, ``poll_many`` or ``poll_arrow``. Every value of many is looked at, as with
    confluent-kafka."""
    from minikafka.client import ClientConfig, Consumer, ConsumerConfig
    from minikafka.world.real.world import real_world

    config = ConsumerConfig(auto_offset_reset="earliest")
    async with Consumer(real_world(), ClientConfig(bootstrap), config) as consumer:

        async def read(most: int) -> int:
            if name == "minikafka":
                return len(await consumer.poll(WAIT_MS, most))
            limit = {"max_records": 1} if most == 1 else {}
            if name == "minikafka arrow":
                return int((await consumer.poll_arrow(WAIT_MS, **limit)).num_rows)
            batches = await consumer.poll_many(WAIT_MS, **limit)
            return sum(value is not None for batch in batches for value in batch.values)

        await consumer.assign_topics(topic)
        yield read


@asynccontextmanager
async def confluent_sender(_: str, bootstrap: str, topic: str) -> AsyncIterator[Send]:
    from confluent_kafka import Producer

    settings = {"linger.ms": LINGER_MS, "batch.size": BATCH_BYTES, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})

    async def send(payload: bytes, count: int, watch: Stopwatch) -> int:
        errors: list[object] = []

        def settle(error: object, message: object) -> None:
            errors.append(error)

        watch.start()
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, payload, partition=0, on_delivery=settle)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush()
        watch.stop()
        return errors.count(None)

    yield send


@asynccontextmanager
async def confluent_reader(_: str, bootstrap: str, topic: str) -> AsyncIterator[Read]:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])

    async def read(most: int) -> int:
        got = 0
        for message in consumer.consume(most, WAIT_MS / 1000):
            assert message.error() is None
            message.value()
            got += 1
        return got

    yield read
    consumer.close()


@asynccontextmanager
async def aiokafka_sender(_: str, bootstrap: str, topic: str) -> AsyncIterator[Send]:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES, acks="all",
        enable_idempotence=True,
    ) as producer:  # fmt: skip
        yield one_by_one(producer, topic)


@asynccontextmanager
async def aiokafka_reader(_: str, bootstrap: str, topic: str) -> AsyncIterator[Read]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    settings = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(**settings) as consumer:

        async def read(most: int) -> int:
            found = await consumer.getmany(timeout_ms=WAIT_MS, max_records=most)
            return sum(map(len, found.values()))

        consumer.assign([TopicPartition(topic, 0)])
        yield read


@asynccontextmanager
async def kafka_python_sender(_: str, bootstrap: str, topic: str) -> AsyncIterator[Send]:
    from kafka import KafkaProducer

    settings = {"linger_ms": LINGER_MS, "batch_size": BATCH_BYTES, "acks": "all"}
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)

    async def send(payload: bytes, count: int, watch: Stopwatch) -> int:
        watch.start()
        futures = [producer.send(topic, payload, partition=0) for _ in range(count)]
        producer.flush()
        watch.stop()
        return sum(future.succeeded() for future in futures)

    yield send
    producer.close()


@asynccontextmanager
async def kafka_python_reader(_: str, bootstrap: str, topic: str) -> AsyncIterator[Read]:
    from kafka import KafkaConsumer, TopicPartition

    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **settings)
    consumer.assign([TopicPartition(topic, 0)])

    async def read(most: int) -> int:
        return sum(map(len, consumer.poll(WAIT_MS, max_records=most).values()))

    yield read
    consumer.close()


SENDERS = {
    **dict.fromkeys(SENDS, minikafka_sender), "confluent-kafka": confluent_sender,
    "aiokafka": aiokafka_sender, "kafka-python": kafka_python_sender,
}  # fmt: skip
READERS = {
    **dict.fromkeys(SENDS, minikafka_reader), "confluent-kafka": confluent_reader,
    "aiokafka": aiokafka_reader, "kafka-python": kafka_python_reader,
}  # fmt: skip


async def work(name: str, what: str, bootstrap: str, topic: str, count: int, size: int) -> None:
    """Send or read, after one record that does not count; print the figures as JSON."""
    watch = Stopwatch()
    if what == "send":
        async with SENDERS[name](name, bootstrap, topic) as send:
            assert await send(b"first", 1, watch) == 1
            assert await send(b"x" * size, count, watch) == count
    else:
        async with READERS[name](name, bootstrap, topic) as read:
            while not (got := await read(1)):
                pass
            watch.start()
            while got < count:
                got += await read(CHUNK)
            watch.stop()
    print(json.dumps({"rate": count / watch.wall, "cpu": watch.cpu / count * 1e6}))


def main(name: str, what: str, bootstrap: str, topic: str, count: str, size: str) -> None:
    done = work(name, what, bootstrap, topic, int(count), int(size))
    if name in SENDS:
        from minikafka.world.real.world import run
    else:
        from uvloop import run
    run(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
