"""What else goes on in a soak: topics that come and go, connections, scrapes, a clock alone."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench.requests import metadata
from scripts.lib.bench.soak.consumers import join_and_leave
from scripts.lib.bench.soak.producers import Work
from scripts.lib.bench.soak.waits import due_times, sleep_until

LIMIT_S: Final = 30
CLOCK: Final = "a sleeping thread"  # the probe: it wakes up late as the machine is busy
CONNECTS_A_SECOND: Final = 2.0
SCRAPES_A_SECOND: Final = 0.2
TOPICS_A_SECOND: Final = 0.1
GUESTS_A_SECOND: Final = 0.1
CLOCKS_A_SECOND: Final = 100.0


def repeat(work: Work, name: str, per_second: float, act: Callable[[int], object]) -> None:
    """Do something again and again when it is due."""
    for number, due in enumerate(due_times(per_second, work.waits.began, work.stop)):
        sleep_until(due, work.stop)
        if work.stop.is_set():
            return
        act(number)
        work.waits.add(name, due, time.monotonic())


def watch_clock(work: Work) -> None:
    repeat(work, CLOCK, CLOCKS_A_SECOND, lambda _: None)


def connect(work: Work, ports: Sequence[int]) -> None:
    """Connect, request metadata, disconnect, at each broker in turn."""

    def act(number: int) -> None:
        if metadata(ports[number % len(ports)]) is None:
            raise ConnectionError("a broker does not respond to a new connection")

    repeat(work, "connection and metadata", CONNECTS_A_SECOND, act)


def scrape(work: Work, debug_ports: Sequence[int]) -> None:
    def act(number: int) -> None:
        port = debug_ports[number % len(debug_ports)]
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S).read()

    repeat(work, "scrape of metrics", SCRAPES_A_SECOND, act)


def create_and_delete(work: Work) -> None:
    """Create a topic, produce a record, delete it."""
    admin = AdminClient({"bootstrap.servers": work.bootstrap})
    # It remembers the topics that are gone, and would complain of each.
    producer = Producer({"bootstrap.servers": work.bootstrap, "linger.ms": 0, "log_level": 2})

    def act(number: int) -> None:
        name = f"soak-short-{number}"
        admin.create_topics([NewTopic(name, 3, 3)])[name].result(LIMIT_S)
        producer.produce(name, b"short")
        producer.flush(LIMIT_S)
        admin.delete_topics([name])[name].result(LIMIT_S)

    repeat(work, "topic created, used and deleted", TOPICS_A_SECOND, act)


def receive_guests(work: Work) -> None:
    """Let a consumer join a group, and leave it."""
    repeat(work, "group joined and left", GUESTS_A_SECOND, lambda _: join_and_leave(work))
