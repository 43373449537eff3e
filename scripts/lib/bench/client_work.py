"""What each client does in `bench client`, as a process: prints its rate and its CPU time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

LINGER_MS = 5
BATCH_BYTES = 131_072
CHUNK = 500

Work = Callable[[str, str, int, int], "tuple[float, float]"]


class Stopwatch:
    """Wall and CPU time since ``start``."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


# ------------------------------------------------------------------------------------ minikafka


def minikafka_send(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from minikafka.client import ClientConfig, Producer, ProducerConfig
    from minikafka.world.real.world import real_world, run

    async def work() -> tuple[float, float]:
        config = ProducerConfig(linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
        async with Producer(real_world(), ClientConfig(bootstrap), config) as producer:
            await producer.send_and_wait(topic, b"first", partition=0)
            payload, watch = b"x" * size, Stopwatch()
            promises = [await producer.send(topic, payload, partition=0) for _ in range(count)]
            await producer.flush()
            figures = watch.read()
            assert all(promise.exception() is None for promise in promises)
            return figures

    return run(work())


def minikafka_read(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from minikafka.client import ClientConfig, Consumer, ConsumerConfig
    from minikafka.world.real.world import real_world, run

    async def work() -> tuple[float, float]:
        config = ConsumerConfig(auto_offset_reset="earliest")
        async with Consumer(real_world(), ClientConfig(bootstrap), config) as consumer:
            await consumer.assign_topics(topic)
            got = len(await consumer.poll(30_000, 1))
            watch = Stopwatch()
            while got < count:
                got += len(await consumer.poll(30_000, CHUNK))
            return watch.read()

    return run(work())


MANY = 10_000


def minikafka_many_send(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    """The same records by ``send_many``, which gets a list of them."""
    from minikafka.client import ClientConfig, Producer, ProducerConfig
    from minikafka.world.real.world import real_world, run

    async def work() -> tuple[float, float]:
        config = ProducerConfig(linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
        async with Producer(real_world(), ClientConfig(bootstrap), config) as producer:
            await producer.send_and_wait(topic, b"first", partition=0)
            payload, watch = b"x" * size, Stopwatch()
            futures = [
                await producer.send_many(
                    topic, [payload for _ in range(min(MANY, count - begin))], partition=0
                )
                for begin in range(0, count, MANY)
            ]
            written = [each for future in futures for each in await future]
            figures = watch.read()
            assert sum(each.record_count for each in written) == count
            return figures

    return run(work())


def minikafka_many_read(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    """The same records by ``poll_many``; every value is looked at, as with confluent-kafka."""
    from minikafka.client import ClientConfig, Consumer, ConsumerConfig
    from minikafka.world.real.world import real_world, run

    async def work() -> tuple[float, float]:
        config = ConsumerConfig(auto_offset_reset="earliest")
        async with Consumer(real_world(), ClientConfig(bootstrap), config) as consumer:
            await consumer.assign_topics(topic)
            got = len(await consumer.poll_many(30_000, max_records=1))
            watch = Stopwatch()
            while got < count:
                for batch in await consumer.poll_many(30_000):
                    for value in batch.values:
                        assert value is not None
                        got += 1
            return watch.read()

    return run(work())


def minikafka_arrow_send(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    """The same records by ``send_arrow``, from a table that is there."""
    import pyarrow as pa

    from minikafka.client import ClientConfig, Producer, ProducerConfig
    from minikafka.world.real.world import real_world, run

    async def work() -> tuple[float, float]:
        config = ProducerConfig(linger_ms=LINGER_MS, batch_size=BATCH_BYTES)
        async with Producer(real_world(), ClientConfig(bootstrap), config) as producer:
            first = pa.table({"value": [b"first"], "partition": pa.array([0], pa.int32())})
            await (await producer.send_arrow(topic, first))
            values = pa.array([b"x" * size] * count, pa.binary())
            table = pa.table(
                {"value": values, "partition": pa.repeat(pa.scalar(0, "int32"), count)}
            )
            watch = Stopwatch()
            written = await (await producer.send_arrow(topic, table))
            figures = watch.read()
            assert sum(each.record_count for each in written) == count
            return figures

    return run(work())


def minikafka_arrow_read(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from minikafka.client import ClientConfig, Consumer, ConsumerConfig
    from minikafka.world.real.world import real_world, run

    async def work() -> tuple[float, float]:
        config = ConsumerConfig(auto_offset_reset="earliest")
        async with Consumer(real_world(), ClientConfig(bootstrap), config) as consumer:
            await consumer.assign_topics(topic)
            got = (await consumer.poll_arrow(30_000, max_records=1)).num_rows
            watch = Stopwatch()
            while got < count:
                got += (await consumer.poll_arrow(30_000)).num_rows
            return watch.read()

    return run(work())


# ------------------------------------------------------------------------------------ confluent


def confluent_send(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
            "acks": "all",
            "enable.idempotence": True,
        }
    )
    settled = 0

    def on_delivery(error: object, message: object) -> None:
        nonlocal settled
        assert error is None
        settled += 1

    producer.produce(topic, b"first", partition=0)
    producer.flush()
    payload, watch = b"x" * size, Stopwatch()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, payload, partition=0, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    figures = watch.read()
    assert settled == count
    return figures


def confluent_read(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = len(consumer.consume(1, 30))
    watch = Stopwatch()
    while got < count:
        for message in consumer.consume(CHUNK, 30):
            assert message.error() is None
            message.value()
            got += 1
    figures = watch.read()
    consumer.close()
    return figures


# ------------------------------------------------------------------------------------ aiokafka


def aiokafka_send(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    import uvloop
    from aiokafka import AIOKafkaProducer

    async def work() -> tuple[float, float]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            acks="all",
            enable_idempotence=True,
        )
        async with producer:
            await producer.send_and_wait(topic, b"first", partition=0)
            payload, watch = b"x" * size, Stopwatch()
            promises = [await producer.send(topic, payload, partition=0) for _ in range(count)]
            await producer.flush()
            figures = watch.read()
            assert all(promise.exception() is None for promise in promises)
            return figures

    return uvloop.run(work())


def aiokafka_read(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    import uvloop
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def work() -> tuple[float, float]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([TopicPartition(topic, 0)])
            got = sum(map(len, (await consumer.getmany(timeout_ms=30_000, max_records=1)).values()))
            watch = Stopwatch()
            while got < count:
                found = await consumer.getmany(timeout_ms=30_000, max_records=CHUNK)
                got += sum(map(len, found.values()))
            return watch.read()

    return uvloop.run(work())


# ------------------------------------------------------------------------------------ kafka-python


def kafka_python_send(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, acks="all"
    )
    producer.send(topic, b"first", partition=0).get(30)
    payload, watch = b"x" * size, Stopwatch()
    promises = [producer.send(topic, payload, partition=0) for _ in range(count)]
    producer.flush()
    figures = watch.read()
    assert all(promise.succeeded() for promise in promises)
    producer.close()
    return figures


def kafka_python_read(bootstrap: str, topic: str, count: int, size: int) -> tuple[float, float]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(topic, 0)])
    got = 0
    while not got:
        got = sum(map(len, consumer.poll(30_000, max_records=1).values()))
    watch = Stopwatch()
    while got < count:
        got += sum(map(len, consumer.poll(30_000, max_records=CHUNK).values()))
    figures = watch.read()
    consumer.close()
    return figures


WORK: dict[tuple[str, str], Work] = {
    ("minikafka", "send"): minikafka_send,
    ("minikafka", "read"): minikafka_read,
    ("minikafka many", "send"): minikafka_many_send,
    ("minikafka many", "read"): minikafka_many_read,
    ("minikafka arrow", "send"): minikafka_arrow_send,
    ("minikafka arrow", "read"): minikafka_arrow_read,
    ("confluent-kafka", "send"): confluent_send,
    ("confluent-kafka", "read"): confluent_read,
    ("aiokafka", "send"): aiokafka_send,
    ("aiokafka", "read"): aiokafka_read,
    ("kafka-python", "send"): kafka_python_send,
    ("kafka-python", "read"): kafka_python_read,
}


def main() -> None:
    name, what, bootstrap, topic, count, size = sys.argv[1:]
    wall, cpu = WORK[name, what](bootstrap, topic, int(count), int(size))
    print(json.dumps({"rate": int(count) / wall, "cpu": cpu / int(count) * 1e6}))


if __name__ == "__main__":
    main()
