"""Our client beside others, on one broker in one run: records a second, sent and read.

Each measurement is a process: ``python -m scripts.lib.bench.clients CLIENT send|read BOOTSTRAP
TOPIC COUNT SIZE`` prints records a second, and the CPU time of one in µs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
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
    """Return the best of some rounds in turns. Each client writes to topics of its own; all read
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


Work = Callable[[str, str, int, int, Stopwatch], None]  # bootstrap, topic, count, size


def read_all(poll: Callable[[int], int], count: int, watch: Stopwatch) -> None:
    """Read ``count`` records; the first one does not count."""
    got = 0
    while not got:
        got = poll(1)
    watch.start()
    while got < count:
        got += poll(CHUNK)
    watch.stop()


async def read_all_async(
    poll: Callable[[int], Awaitable[int]], count: int, watch: Stopwatch
) -> None:
    got = await poll(1)
    watch.start()
    while got < count:
        got += await poll(CHUNK)
    watch.stop()


def minikafka_send(kind: str) -> Work:
    def work(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
        from minikafka.client import ClientConfig, Producer, ProducerConfig
        from minikafka.world.real.world import real_world, run

        async def send() -> None:
            config = ProducerConfig(linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
            async with Producer(real_world(), ClientConfig(bootstrap), config) as producer:
                await SENDERS[kind](producer, topic, 1, 1, Stopwatch())
                assert await SENDERS[kind](producer, topic, count, size, watch) == count

        run(send())

    return work


async def send_each(producer: Any, topic: str, count: int, size: int, watch: Stopwatch) -> int:
    payload = b"x" * size
    watch.start()
    promises = [await producer.send(topic, payload, partition=0) for _ in range(count)]
    await producer.flush()
    watch.stop()
    return sum(promise.exception() is None for promise in promises)


async def send_many(producer: Any, topic: str, count: int, size: int, watch: Stopwatch) -> int:
    payload = b"x" * size
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


async def send_arrow(producer: Any, topic: str, count: int, size: int, watch: Stopwatch) -> int:
    """Send a table that is there."""
    import pyarrow as pa

    values = pa.array([b"x" * size] * count, pa.binary())
    table = pa.table({"value": values, "partition": pa.repeat(pa.scalar(0, "int32"), count)})
    watch.start()
    written = await (await producer.send_arrow(topic, table))
    watch.stop()
    return sum(each.record_count for each in written)


SENDERS = {"each": send_each, "many": send_many, "arrow": send_arrow}


def minikafka_read(kind: str) -> Work:
    """Read with ``poll``, ``poll_many`` or ``poll_arrow``. Every value of many is looked at, as
    with confluent-kafka."""

    def work(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
        from minikafka.client import ClientConfig, Consumer, ConsumerConfig
        from minikafka.world.real.world import real_world, run

        async def read() -> None:
            config = ConsumerConfig(auto_offset_reset="earliest")
            async with Consumer(real_world(), ClientConfig(bootstrap), config) as consumer:

                async def poll(most: int) -> int:
                    if kind == "each":
                        return len(await consumer.poll(WAIT_MS, most))
                    limit = {"max_records": 1} if most == 1 else {}
                    if kind == "arrow":
                        return int((await consumer.poll_arrow(WAIT_MS, **limit)).num_rows)
                    batches = await consumer.poll_many(WAIT_MS, **limit)
                    return sum(value is not None for batch in batches for value in batch.values)

                await consumer.assign_topics(topic)
                await read_all_async(poll, count, watch)

        run(read())

    return work


def confluent_send(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
    from confluent_kafka import Producer

    settings = {"linger.ms": LINGER_MS, "batch.size": BATCH_BYTES, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    settled = 0

    def on_delivery(error: object, message: object) -> None:
        nonlocal settled
        assert error is None
        settled += 1

    producer.produce(topic, b"first", partition=0)
    producer.flush()
    payload = b"x" * size
    watch.start()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, payload, partition=0, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    watch.stop()
    assert settled == count


def confluent_read(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])

    def poll(most: int) -> int:
        got = 0
        for message in consumer.consume(most, WAIT_MS / 1000):
            assert message.error() is None
            message.value()
            got += 1
        return got

    read_all(poll, count, watch)
    consumer.close()


def aiokafka_send(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
    import uvloop
    from aiokafka import AIOKafkaProducer

    async def work() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            acks="all",
            enable_idempotence=True,
        )
        async with producer:
            await producer.send_and_wait(topic, b"first", partition=0)
            assert await send_each(producer, topic, count, size, watch) == count

    uvloop.run(work())


def aiokafka_read(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
    import uvloop
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        async with consumer:

            async def poll(most: int) -> int:
                found = await consumer.getmany(timeout_ms=WAIT_MS, max_records=most)
                return sum(map(len, found.values()))

            consumer.assign([TopicPartition(topic, 0)])
            await read_all_async(poll, count, watch)

    uvloop.run(work())


def kafka_python_send(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, acks="all"
    )
    producer.send(topic, b"first", partition=0).get(30)
    payload = b"x" * size
    watch.start()
    promises = [producer.send(topic, payload, partition=0) for _ in range(count)]
    producer.flush()
    watch.stop()
    assert all(promise.succeeded() for promise in promises)
    producer.close()


def kafka_python_read(bootstrap: str, topic: str, count: int, size: int, watch: Stopwatch) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(topic, 0)])

    def poll(most: int) -> int:
        return sum(map(len, consumer.poll(WAIT_MS, max_records=most).values()))

    read_all(poll, count, watch)
    consumer.close()


WORK: dict[str, tuple[Work, Work]] = {  # send, read
    "minikafka": (minikafka_send("each"), minikafka_read("each")),
    "minikafka many": (minikafka_send("many"), minikafka_read("many")),
    "minikafka arrow": (minikafka_send("arrow"), minikafka_read("arrow")),
    "confluent-kafka": (confluent_send, confluent_read),
    "aiokafka": (aiokafka_send, aiokafka_read),
    "kafka-python": (kafka_python_send, kafka_python_read),
}


def main(name: str, what: str, bootstrap: str, topic: str, count: str, size: str) -> None:
    watch = Stopwatch()
    WORK[name][what == "read"](bootstrap, topic, int(count), int(size), watch)
    print(json.dumps({"rate": int(count) / watch.wall, "cpu": watch.cpu / int(count) * 1e6}))


if __name__ == "__main__":
    main(*sys.argv[1:])
