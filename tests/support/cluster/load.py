"""An independent client that produces while faults are injected, and the check of its records."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.clients.confluent import offset_of, value_of
from tests.support.cluster.cluster_state import until


class Load:
    """An idempotent producer with acks=all for one partition. ``acknowledged`` grows while it
    runs."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        self._bootstrap, self._topic, self._partition = bootstrap, topic, partition
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self.until_more()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the producer. Records that are not acknowledged by now are abandoned."""
        self._abandoned = True
        self._stop.set()
        self._thread.join(60)

    def until_more(self, count: int = 200, limit_s: float = 30) -> None:
        """Wait for so many more acknowledgements."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal, f"{count} more acknowledged", limit_s)

    def finish(self) -> None:
        """Stop the producer, and check that all acknowledged records are stored once and in
        order."""
        self._stop.set()
        self._thread.join(60)
        assert not self.failures
        stored = read_values(self._bootstrap, self._topic, self._partition)
        assert stored == sorted(set(stored)), "out of order or twice"
        lost = set(self.acknowledged) - set(stored)
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged records are lost"

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "request.timeout.ms": 2_500,  # how long a frozen broker is believed in
                "socket.timeout.ms": 3_000,
                "log_level": 0,
            }
        )
        number = 0
        while not self._stop.is_set():
            if len(producer) < 500:
                producer.produce(
                    self._topic,
                    str(number).encode(),
                    partition=self._partition,
                    on_delivery=self._delivered,
                )
                number += 1
                producer.poll(0)
            else:
                producer.poll(0.01)
            self._stop.wait(0.001)
        if self._abandoned:
            producer.purge()
        producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and not self._abandoned:
            self.failures.append(str(error))
        elif error is None:
            self.acknowledged.append(int(value_of(message)))


def watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int] | None:
    """Return the log start and the high watermark; None if the leader has just moved, which
    librdkafka learns by the refusal but does not retry."""
    try:
        low, high = consumer.get_watermark_offsets(partition, timeout=30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return None
    return low, high


def read_values(bootstrap: str, topic: str, partition: int = 0) -> list[int]:
    """Return all values of a partition, as numbers, up to the current high watermark."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        where = TopicPartition(topic, partition, 0)
        found = until(lambda: watermarks(consumer, where), f"{topic}-{partition} has a leader")
        end = found[1]
        consumer.assign([where])
        values: list[int] = []
        position = 0

        def read() -> bool:
            nonlocal position
            for message in consumer.consume(1000, timeout=0.5):
                if message.error() is None:
                    values.append(int(value_of(message)))
                    position = offset_of(message) + 1
            return position >= end

        until(read, f"{topic}-{partition} read to offset {end}", 60)
        return values
    finally:
        consumer.close()
