"""The client that must not notice: a producer with acks=all and a consumer group, timed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer

from tests.support.clients.confluent import value_of
from tests.support.cluster.cluster_state import until
from tests.support.cluster.load import read_values

TOPIC, GROUP = "victim", "victim-group"
PATIENCE_S = 120


class Wait(NamedTuple):
    """How long a record waited to be confirmed, and when it was, by the monotonic clock."""

    seconds: float
    end_s: float

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} ms"


NO_WAIT = Wait(0.0, 0.0)


class Victim:
    """A context. An idempotent producer and a group member of librdkafka, on one partition.

    ``acknowledged`` are the numbers that the cluster has confirmed, ``consumed`` counts what the
    group was given, ``longest_wait`` is the longest time from a send to its confirmation."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop_producing, self._stop_consuming = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, daemon=True),
            threading.Thread(target=self._consume, daemon=True),
        ]
        self.acknowledged: list[int] = []
        self.consumed: Counter[int] = Counter()
        self.failures: list[str] = []
        self.longest_wait = NO_WAIT

    def __enter__(self) -> Victim:
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.consumed) > 20, "the victim produces and consumes", PATIENCE_S)
        self.longest_wait = NO_WAIT  # without the start
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_producing.set()
        self._stop_consuming.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def finish(self) -> None:
        """Stop producing; everything that was confirmed is stored once and was consumed."""
        self._stop_producing.set()
        self._threads[0].join(PATIENCE_S)
        assert not self._threads[0].is_alive(), "the victim's producer hangs"
        assert not self.failures, self.failures[:5]
        stored = read_values(self._bootstrap, TOPIC)
        assert stored == sorted(set(stored)), "the victim's records are out of order or doubled"
        lost = set(self.acknowledged) - set(stored)
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} confirmed records are lost"
        until(lambda: set(stored) <= set(self.consumed), "the group consumed all", PATIENCE_S)
        assert set(self.consumed) <= set(stored), (
            "the group consumed records that were never produced"
        )

    @property
    def consumed_again(self) -> int:
        """Records that the group was given twice: after a rebalance, not by a broker's fault."""
        return self.consumed.total() - len(self.consumed)

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": PATIENCE_S * 1_000,
                "log_level": 0,
            }
        )
        number = 0
        while not self._stop_producing.wait(0.005):
            if len(producer) < 500:
                value = str(number).encode()
                producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered)
                number += 1
            producer.poll(0)
        producer.flush(PATIENCE_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.acknowledged.append(int(value_of(message)))
        waited_s = message.latency()
        if waited_s > self.longest_wait.seconds:
            self.longest_wait = Wait(waited_s, time.monotonic())

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 500,
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        while not self._stop_consuming.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    self.consumed[int(value_of(message))] += 1
        consumer.close()
