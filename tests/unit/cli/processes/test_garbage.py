"""The garbage collector of a broker's process: short pauses, and nothing that needs it."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import confluent_kafka
import pytest

from minikafka.broker.requests.apis import RequestContext
from minikafka.inside.cluster import InsideCluster
from minikafka.network.server import ServerConnection
from minikafka.testing.clients import attempts
from minikafka.world.real.clock import RealClock

PROGRAM = """
import gc
from minikafka.cli.processes.garbage import THRESHOLDS, keep_collections_short

class Node:
    def __init__(self):
        self.self = self

keep_collections_short()
before = gc.get_freeze_count()
kept = [[] for _ in range(1_000_000)]
assert gc.get_freeze_count() - before > 500_000, "survivors are not looked at again"
assert len(gc.get_objects()) < 500_000
deaths = []
import weakref
for _ in range(100_000):
    weakref.finalize(Node(), deaths.append, 1).atexit = False
gc.collect(1)
assert len(deaths) > 99_000, "young cycles are collected"
"""


@pytest.mark.mission("SAFE-81")
def test_survivors_of_a_full_collection_are_frozen() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.mission("SAFE-81")
def test_requests_and_connections_that_have_ended_are_no_cycles() -> None:
    with InsideCluster() as cluster:
        cluster.create_topic("t")

        def of_requests() -> int:
            kinds = RequestContext, ServerConnection
            return sum(type(each) in kinds for each in gc.get_objects())

        gc.collect()
        gc.disable()
        try:
            before = of_requests()
            work(cluster.bootstrap)
            host, port = cluster.bootstrap.split(":")
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"this is no frame")
                assert connection.recv(1) == b""
            until(lambda: of_requests() == before)
        finally:
            gc.enable()


def until(condition: Callable[[], bool]) -> None:
    for _ in attempts(RealClock(), 10):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("requests or connections are cycles")


def work(bootstrap: str) -> None:
    """Produce, and consume as a member of a group."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce("t", b"value")
    assert producer.flush(10) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    assert consumer.consume(1, 10)
    consumer.close()
