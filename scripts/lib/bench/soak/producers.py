"""The producers of a soak: each has a stream of records that are due at a fixed rate."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from scripts.lib.bench.soak.ledger import HEAD, Fate, Ledger
from scripts.lib.bench.soak.waits import Waits, due_times, sleep_until

SIZES: Final = (100, 1_000, 4_000, 16_000)  # bytes of records
WEIGHTS: Final = (60, 30, 7, 3)
KEYS: Final = 200
IN_A_TRANSACTION: Final = 5
EVERY_ABORTED: Final = 10  # one transaction of so many is aborted
FLUSH_S: Final = 60
COMPACTED: Final = "soak-compacted"


@dataclass(frozen=True)
class Stream:
    """Records of one producer. ``settings`` are of confluent-kafka."""

    name: str
    topic: str
    per_second: float
    settings: Mapping[str, Any]


# Nothing is sent again where a second copy would be possible: each record is counted exactly.
ONCE: Final = {"retries": 0, "enable.idempotence": False}
PLAIN: Final = (
    Stream("acks=1", "soak-one", 100, {"acks": 1, **ONCE}),
    Stream("acks=all", "soak-all", 100, {"acks": "all", **ONCE}),
    Stream("idempotent", "soak-idempotent", 100, {"enable.idempotence": True}),
)
KEYED: Final = Stream("compacted", COMPACTED, 20, {"enable.idempotence": True})
TRANSACTIONS: Final = Stream(
    "transaction", "soak-transactions", 5, {"transactional.id": "soak", "linger.ms": 0}
)
CHECKED: Final = ("soak-one", "soak-all", "soak-idempotent", "soak-transactions")


@dataclass(frozen=True)
class Work:
    """What all workers of a soak share."""

    bootstrap: str
    ledger: Ledger
    waits: Waits
    stop: threading.Event

    def producer(self, stream: Stream) -> Producer:
        common = {"bootstrap.servers": self.bootstrap, "linger.ms": 0}
        return Producer({**common, "socket.nagle.disable": True, **stream.settings})


def produce(work: Work, stream: Stream) -> None:
    """Send the records of a stream until the stop, and wait for all responses."""
    producer, dice = work.producer(stream), random.Random(stream.name)
    for due in due_times(stream.per_second, work.waits.began, work.stop):
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        number = work.ledger.next_number(stream.topic)
        done = partial(_settle, work, stream, number, due)
        producer.produce(stream.topic, value(number, due, dice), on_delivery=done)
        producer.poll(0)
    producer.flush(FLUSH_S)


def produce_compacted(work: Work, stream: Stream) -> None:
    """Send records of a few keys in turn; a later record of a key replaces the ones before."""
    producer, dice = work.producer(stream), random.Random(stream.name)
    for number, due in enumerate(due_times(stream.per_second, work.waits.began, work.stop)):
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        done = partial(_keep_last, work, stream, number, due)
        key = b"%d" % (number % KEYS)
        producer.produce(stream.topic, value(number, due, dice), key, on_delivery=done)
        producer.poll(0)
    producer.flush(FLUSH_S)


def value(number: int, due: float, dice: random.Random) -> bytes:
    (size,) = dice.choices(SIZES, WEIGHTS)
    return HEAD.pack(number, due) + bytes(size - HEAD.size)


def _settle(
    work: Work,
    stream: Stream,
    number: int,
    due: float,
    error: KafkaError | None,
    message: Message,
) -> None:
    work.waits.add(stream.name, due, time.monotonic())
    fate = Fate.ACKNOWLEDGED if error is None else Fate.REFUSED
    work.ledger.settle(stream.topic, number, fate)


def _keep_last(
    work: Work,
    stream: Stream,
    number: int,
    due: float,
    error: KafkaError | None,
    message: Message,
) -> None:
    work.waits.add(stream.name, due, time.monotonic())
    if error is None:
        work.ledger.keep_last(message.key() or b"", number)


def produce_transactions(work: Work, stream: Stream) -> None:
    """Run transactions of a few records each; some are aborted."""
    producer, dice = work.producer(stream), random.Random(stream.name)
    producer.init_transactions(FLUSH_S)
    for count, due in enumerate(due_times(stream.per_second, work.waits.began, work.stop), 1):
        sleep_until(due, work.stop)
        aborts = count % EVERY_ABORTED == 0
        numbers = [work.ledger.next_number(stream.topic) for _ in range(IN_A_TRANSACTION)]
        producer.begin_transaction()
        for number in numbers:
            producer.produce(stream.topic, value(number, due, dice))
        end: Callable[[float], object] = producer.commit_transaction
        fate = Fate.ACKNOWLEDGED
        if aborts:
            producer.flush(FLUSH_S)  # an abort would throw away what is not sent yet
            end, fate = producer.abort_transaction, Fate.ABORTED
        try:
            end(FLUSH_S)
        except KafkaException:
            fate = Fate.REFUSED
            producer.abort_transaction(FLUSH_S)
        work.waits.add(stream.name, due, time.monotonic())
        for number in numbers:
            work.ledger.settle(stream.topic, number, fate)
