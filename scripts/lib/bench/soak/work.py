"""What goes on in a soak: producers at a fixed rate, groups that see every record, and churn."""

from __future__ import annotations

import random
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench.brokers import Brokers
from scripts.lib.bench.requests import metadata
from scripts.lib.bench.soak.ledger import HEAD, Fate, Ledger
from scripts.lib.bench.soak.waits import Waits, due_times, sleep_until

SIZES: Final = (100, 1_000, 4_000, 16_000)  # bytes of records
WEIGHTS: Final = (60, 30, 7, 3)
KEYS: Final = 200
IN_A_TRANSACTION: Final = 5
EVERY_ABORTED: Final = 10  # one transaction of so many is aborted
LIMIT_S: Final = 30
FLUSH_S: Final = 60
POLL_S: Final = 0.1
COMMIT_EVERY_S: Final = 1.0
GROUPS: Final = ("soak-first", "soak-second")
MEMBERS: Final = 2
CLOCK: Final = "a sleeping thread"  # the probe: it wakes up late as the machine is busy


class Stream(NamedTuple):
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
KEYED: Final = Stream("compacted", "soak-compacted", 20, {"enable.idempotence": True})
TRANSACTIONS: Final = Stream(
    "transaction", "soak-transactions", 5, {"transactional.id": "soak", "linger.ms": 0}
)
CHECKED: Final = (*(stream.topic for stream in PLAIN), TRANSACTIONS.topic)


@dataclass(frozen=True)
class Work:
    """What all workers of a soak share."""

    cluster: Brokers
    ledger: Ledger
    waits: Waits
    stop: threading.Event

    def producer(self, stream: Stream) -> Producer:
        common = {"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 0}
        return Producer({**common, "socket.nagle.disable": True, **stream.settings})

    def consumer(self, group: str) -> Consumer:
        common = {"bootstrap.servers": self.cluster.bootstrap, "socket.nagle.disable": True}
        reads = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        return Consumer({**common, **reads, "group.id": group, "enable.auto.commit": False})


# --------------------------------------------------------------------------------------- producers


def value(number: int, due: float, dice: random.Random) -> bytes:
    (size,) = dice.choices(SIZES, WEIGHTS)
    return HEAD.pack(number, due) + bytes(size - HEAD.size)


def produce(work: Work, stream: Stream) -> None:
    """Send the records of a stream until the stop, and wait for all responses. Those of ``KEYED``
    have a few keys in turn: a later record of a key replaces the ones before."""
    producer, dice = work.producer(stream), random.Random(stream.name)
    keyed = stream is KEYED
    for count, due in enumerate(due_times(stream.per_second, work.waits.began, work.stop)):
        while (left := due - time.monotonic()) > 0:
            producer.poll(left)
        number = count if keyed else work.ledger.next_number(stream.topic)
        key = b"%d" % (number % KEYS) if keyed else None
        done = delivery(work, stream, number, due)
        producer.produce(stream.topic, value(number, due, dice), key, on_delivery=done)
        producer.poll(0)
    producer.flush(FLUSH_S)


def delivery(
    work: Work, stream: Stream, number: int, due: float
) -> Callable[[KafkaError | None, Message], None]:
    """Return what notes the fate of a record when its producer knows it."""

    def settle(error: KafkaError | None, message: Message) -> None:
        work.waits.add(stream.name, due, time.monotonic())
        if stream is not KEYED:
            fate = Fate.ACKNOWLEDGED if error is None else Fate.REFUSED
            work.ledger.settle(stream.topic, number, fate)
        elif error is None:
            work.ledger.keep_last(message.key() or b"", number)

    return settle


def transact(work: Work, stream: Stream) -> None:
    """Run transactions of a few records each; some are aborted."""
    producer, dice = work.producer(stream), random.Random(stream.name)
    producer.init_transactions(FLUSH_S)
    for count, due in enumerate(due_times(stream.per_second, work.waits.began, work.stop), 1):
        sleep_until(due, work.stop)
        numbers = [work.ledger.next_number(stream.topic) for _ in range(IN_A_TRANSACTION)]
        producer.begin_transaction()
        for number in numbers:
            producer.produce(stream.topic, value(number, due, dice))
        end: Callable[[float], object] = producer.commit_transaction
        fate = Fate.ACKNOWLEDGED
        if count % EVERY_ABORTED == 0:
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


# --------------------------------------------------------------------------------------- consumers


def consume(work: Work, group: str, assigned: threading.Semaphore, stop: threading.Event) -> None:
    """Be a member of a group until ``stop``; commit once a second, and before a rebalance."""
    consumer = work.consumer(group)
    consumer.subscribe(
        list(CHECKED),
        on_assign=lambda *_: assigned.release(),
        on_revoke=lambda consumer, _: commit(consumer),
    )
    next_commit = time.monotonic() + COMMIT_EVERY_S
    while not stop.is_set():
        message = consumer.poll(POLL_S)
        if message is not None:
            if message.error() is not None:
                raise KafkaException(message.error())
            number, due = HEAD.unpack_from(message.value() or b"")
            work.ledger.see(group, message.topic() or "", number)
            work.waits.add("produced to consumed", due, time.monotonic())
        if (now := time.monotonic()) >= next_commit:
            commit(consumer)
            work.waits.add("commit of a group", now, time.monotonic())
            next_commit = now + COMMIT_EVERY_S
    commit(consumer)
    consumer.close()


def commit(consumer: Any) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].name() != "_NO_OFFSET":
            raise


def read_compacted(work: Work, partitions: int) -> None:
    """Read the compacted topic to its end."""
    consumer = work.consumer("soak-last")
    for partition in range(partitions):
        place = TopicPartition(KEYED.topic, partition)
        low, high = consumer.get_watermark_offsets(place, LIMIT_S)
        consumer.assign([TopicPartition(KEYED.topic, partition, low)])
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            for message in consumer.consume(500, POLL_S):
                if message.error() is None:
                    number, _ = HEAD.unpack_from(message.value() or b"")
                    work.ledger.find_last(message.key() or b"", number)
            if low == high or consumer.position([place])[0].offset >= high:
                break
    consumer.close()


# ------------------------------------------------------------------------------------------- churn


def connect(work: Work, number: int) -> None:
    """Connect, request metadata, disconnect, at each broker in turn."""
    ports = work.cluster.ports
    if metadata(ports[number % len(ports)]) is None:
        raise ConnectionError("a broker does not respond to a new connection")


def scrape(work: Work, number: int) -> None:
    port = work.cluster.debug_port(1 + number % len(work.cluster.ports))
    urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S).read()


def create_and_delete(work: Work, number: int) -> None:
    """Create a topic, produce a record, delete it."""
    bootstrap, name = work.cluster.bootstrap, f"soak-short-{number}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 3, 3)])[name].result(LIMIT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.produce(name, b"short")
    producer.flush(LIMIT_S)
    admin.delete_topics([name])[name].result(LIMIT_S)


def join_and_leave(work: Work, number: int) -> None:
    """Be a member of one more group until partitions are assigned."""
    consumer, assigned = work.consumer("soak-guest"), threading.Event()
    consumer.subscribe([KEYED.topic], on_assign=lambda *_: assigned.set())
    deadline = time.monotonic() + LIMIT_S
    while not assigned.is_set() and time.monotonic() < deadline:
        consumer.poll(POLL_S)
    consumer.close()


class Churn(NamedTuple):
    """Something that is done again and again when it is due."""

    name: str
    per_second: float
    act: Callable[[Work, int], None]


CHURNS: Final = (
    Churn("connection and metadata", 2.0, connect),
    Churn("scrape of metrics", 0.2, scrape),
    Churn("topic created, used and deleted", 0.1, create_and_delete),
    Churn("group joined and left", 0.1, join_and_leave),
    Churn(CLOCK, 100.0, lambda work, number: None),
)


def churn(work: Work, each: Churn) -> None:
    for number, due in enumerate(due_times(each.per_second, work.waits.began, work.stop)):
        sleep_until(due, work.stop)
        if work.stop.is_set():
            return
        each.act(work, number)
        work.waits.add(each.name, due, time.monotonic())
