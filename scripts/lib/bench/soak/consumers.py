"""The consumers of a soak: groups that see every record, and a reader of the compacted topic."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from scripts.lib.bench.soak.ledger import HEAD
from scripts.lib.bench.soak.producers import CHECKED, COMPACTED, Work

GROUPS: Final = ("soak-first", "soak-second")
MEMBERS: Final = 2
COMMIT_EVERY_S: Final = 1.0
POLL_S: Final = 0.1
LIMIT_S: Final = 30


def consumer_of(work: Work, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "socket.nagle.disable": True,
        }
    )


def consume(work: Work, group: str, assigned: threading.Semaphore, stop: threading.Event) -> None:
    """Be a member of a group until ``stop``; commit once a second, and before a rebalance."""
    consumer = consumer_of(work, group)
    consumer.subscribe(
        list(CHECKED),
        on_assign=lambda *_: assigned.release(),
        on_revoke=lambda consumer, _: _commit(consumer),
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
            _commit(consumer)
            work.waits.add("commit of a group", now, time.monotonic())
            next_commit = now + COMMIT_EVERY_S
    _commit(consumer)
    consumer.close()


def _commit(consumer: Any) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].name() != "_NO_OFFSET":
            raise


def join_and_leave(work: Work) -> None:
    """Be a member of one more group until partitions are assigned."""
    consumer, assigned = consumer_of(work, "soak-guest"), threading.Event()
    consumer.subscribe([COMPACTED], on_assign=lambda *_: assigned.set())
    deadline = time.monotonic() + LIMIT_S
    while not assigned.is_set() and time.monotonic() < deadline:
        consumer.poll(POLL_S)
    consumer.close()


def read_compacted(work: Work, partitions: int) -> None:
    """Read the compacted topic to its end."""
    consumer = consumer_of(work, "soak-last")
    for partition in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(COMPACTED, partition), LIMIT_S)
        consumer.assign([TopicPartition(COMPACTED, partition, low)])
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            for message in consumer.consume(500, POLL_S):
                if message.error() is None:
                    number, _ = HEAD.unpack_from(message.value() or b"")
                    work.ledger.find_last(message.key() or b"", number)
            reached = consumer.position([TopicPartition(COMPACTED, partition)])[0].offset
            if low == high or reached >= high:
                break
    consumer.close()
