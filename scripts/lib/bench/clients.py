"""Our client beside others, on one broker in one run: records a second, sent and read.

Each measurement is a process: ``python -m scripts.lib.bench.clients CLIENT send|read BOOTSTRAP
TOPIC COUNT SIZE`` prints records a second, and the CPU time of one in µs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.harness import Figures, figures_of, in_turns
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

LINGER_MS = 5
BATCH_BYTES = 131_072
CHUNK = 500
MANY_AT_ONCE = 10_000
WAIT_MS = 30_000


def run(report: Report) -> None:
    with Brokers(1, SETTINGS) as cluster:
        for size, count in RECORDS.items():
            for what, verb in VERBS.items():
                found = best(cluster, what, ("minikafka", *OTHERS), size, count)
                for name in OTHERS:
                    report.section(f"client: records of {size} B {verb}", probe=name[:11])
                    print_rows(report, found["minikafka"], found[name], AIMS[name])
        for size, count in MANY_RECORDS.items():
            for what, verb in VERBS.items():
                found = best(cluster, what, (*MANY, "confluent-kafka"), size, count)
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


def print_rows(report: Report, ours: Figures, theirs: Figures, least: float | None) -> None:
    report.row("records a second", "1/s", ours["rate"], theirs["rate"], least)
    report.row("CPU of the client for a record", "µs", ours["cpu"], theirs["cpu"])


def best(
    cluster: Brokers, what: str, names: tuple[str, ...], size: int, count: int
) -> dict[str, Figures]:
    """Return the best of some rounds in turns. Each client writes to a topic that has its name; all
    read the topic of the first client."""

    def measure(name: str) -> Figures:
        topic = f"{(name if what == 'send' else names[0]).replace(' ', '-')}-{size}-{count}"
        cluster.create({topic: [[1]]})
        command = (sys.executable, "-m", "scripts.lib.bench.clients", name, what)
        return figures_of(*command, cluster.bootstrap, topic, count, size)

    rounds = in_turns({name: partial(measure, name) for name in names}, ROUNDS)
    return {
        name: {"rate": max(each["rate"] for each in found), "cpu": min(e["cpu"] for e in found)}
        for name, found in rounds.items()
    }


# ------------------------------------------------------------------------------ in another process

# A client that sends takes a payload and a count: it prepares the records and returns a coroutine
# function that sends them and returns how many were acknowledged. A client that reads waits for
# records, at most so many, and returns their number.


def one_by_one(producer: Any, topic: str, payload: bytes, count: int) -> Callable[[], Any]:
    async def send() -> int:
        futures = [await producer.send(topic, payload, partition=0) for _ in range(count)]
        await producer.flush()
        return sum(future.exception() is None for future in futures)

    return send


def many_at_once(producer: Any, topic: str, payload: bytes, count: int) -> Callable[[], Any]:
    async def send() -> int:
        futures = [
            await producer.send_many(
                topic, [payload for _ in range(min(MANY_AT_ONCE, count - begin))], partition=0
            )
            for begin in range(0, count, MANY_AT_ONCE)
        ]
        written = [each for future in futures for each in await future]
        return sum(each.record_count for each in written)

    return send


def as_table(producer: Any, topic: str, payload: bytes, count: int) -> Callable[[], Any]:
    import pyarrow as pa

    partitions = pa.repeat(pa.scalar(0, "int32"), count)
    values = pa.array([payload] * count, pa.binary())
    table = pa.table({"value": values, "partition": partitions})

    async def send() -> int:
        return sum(each.record_count for each in await (await producer.send_arrow(topic, table)))

    return send


SENDS = {"minikafka": one_by_one, "minikafka many": many_at_once, "minikafka arrow": as_table}


@asynccontextmanager
async def of_minikafka(name: str, what: str, bootstrap: str, topic: str) -> AsyncIterator[Any]:
    """Reads with ``poll``, ``poll_many``, whose values are all looked at, or ``poll_arrow``."""
    from minikafka.client import ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig
    from minikafka.world.real.world import real_world

    world, config = real_world(), ClientConfig(bootstrap)
    if what == "send":
        settings = ProducerConfig(linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
        async with Producer(world, config, settings) as producer:
            yield partial(SENDS[name], producer, topic)
        return
    async with Consumer(world, config, ConsumerConfig(auto_offset_reset="earliest")) as consumer:

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
async def of_confluent(_: str, what: str, bootstrap: str, topic: str) -> AsyncIterator[Any]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    sends = {"linger.ms": LINGER_MS, "batch.size": BATCH_BYTES, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **sends})
    reads = {"group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **reads})

    def prepare(payload: bytes, count: int) -> Callable[[], Any]:
        errors: list[object] = []

        async def send() -> int:
            for _ in range(count):
                while True:
                    try:
                        producer.produce(topic, payload, partition=0, on_delivery=settle)
                        break
                    except BufferError:
                        producer.poll(0.01)
                producer.poll(0)
            producer.flush()
            return errors.count(None)

        def settle(error: object, message: object) -> None:
            errors.append(error)

        return send

    async def read(most: int) -> int:
        got = 0
        for message in consumer.consume(most, WAIT_MS / 1000):
            assert message.error() is None
            message.value()
            got += 1
        return got

    if what == "read":
        consumer.assign([TopicPartition(topic, 0, 0)])
    yield prepare if what == "send" else read
    consumer.close()


@asynccontextmanager
async def of_aiokafka(_: str, what: str, bootstrap: str, topic: str) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    if what == "send":
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES,
            acks="all", enable_idempotence=True,
        ) as producer:  # fmt: skip
            yield partial(one_by_one, producer, topic)
        return
    settings = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(**settings) as consumer:

        async def read(most: int) -> int:
            found = await consumer.getmany(timeout_ms=WAIT_MS, max_records=most)
            return sum(map(len, found.values()))

        consumer.assign([TopicPartition(topic, 0)])
        yield read


@asynccontextmanager
async def of_kafka_python(_: str, what: str, bootstrap: str, topic: str) -> AsyncIterator[Any]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    if what == "send":
        settings = {"linger_ms": LINGER_MS, "batch_size": BATCH_BYTES, "acks": "all"}
        producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)

        def prepare(payload: bytes, count: int) -> Callable[[], Any]:
            async def send() -> int:
                futures = [producer.send(topic, payload, partition=0) for _ in range(count)]
                producer.flush()
                return sum(future.succeeded() for future in futures)

            return send

        yield prepare
        producer.close()
        return
    reads = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **reads)
    consumer.assign([TopicPartition(topic, 0)])

    async def read(most: int) -> int:
        return sum(map(len, consumer.poll(WAIT_MS, max_records=most).values()))

    yield read
    consumer.close()


CLIENTS = {
    **dict.fromkeys(SENDS, of_minikafka), "confluent-kafka": of_confluent,
    "aiokafka": of_aiokafka, "kafka-python": of_kafka_python,
}  # fmt: skip


async def work(name: str, what: str, bootstrap: str, topic: str, count: int, size: int) -> None:
    """Send or read, after one record that does not count; print the figures as JSON."""
    async with CLIENTS[name](name, what, bootstrap, topic) as client:
        if what == "send":
            assert await client(b"first", 1)() == 1
            send = client(b"x" * size, count)
            wall, cpu = time.perf_counter(), time.process_time()
            assert await send() == count
        else:
            while not (got := await client(1)):
                pass
            wall, cpu = time.perf_counter(), time.process_time()
            while got < count:
                got += await client(CHUNK)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"rate": count / wall, "cpu": cpu / count * 1e6}))


def main(name: str, what: str, bootstrap: str, topic: str, count: str, size: str) -> None:
    done = work(name, what, bootstrap, topic, int(count), int(size))
    if name in SENDS:
        from minikafka.world.real.loop import run
    else:
        from uvloop import run
    run(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
