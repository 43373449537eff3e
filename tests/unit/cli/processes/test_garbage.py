"""The garbage collector of a broker's process: short pauses, and nothing that needs it.

Each program runs in another process, since the collector is one for all tests of a process.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SURVIVORS = """
import gc
import weakref

from minikafka.cli.processes.broker import keep_collections_short

class Node:
    def __init__(self):
        self.self = self

keep_collections_short()
before = gc.get_freeze_count()
kept = [[] for _ in range(1_000_000)]
assert gc.get_freeze_count() - before > 500_000, "survivors are not looked at again"
assert len(gc.get_objects()) < 500_000
deaths = []
for _ in range(100_000):
    weakref.finalize(Node(), deaths.append, 1).atexit = False
gc.collect(1)
assert len(deaths) > 99_000, "young cycles are collected"
"""

CYCLES = """
import gc
import socket
import time

import confluent_kafka

from minikafka.server.broker.apis.request import RequestContext
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.server.listeners.server_connection import ServerConnection
from minikafka.protocol.frames import FrameError
from minikafka.world.memory.links import LinkEnd

ENDED = (RequestContext, FrameError, ServerConnection, LinkEnd)

def of_requests():  # an error that is kept refers to its connection
    return sum(type(each) in ENDED for each in gc.get_objects())

def work():
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("t", b"value")
    assert producer.flush(10) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    assert consumer.consume(1, 10)
    consumer.close()

with InsideCluster() as cluster:
    cluster.create_topic("t")
    gc.collect()
    gc.disable()
    before = of_requests()
    work()
    with cluster.environment_faults.slow_link(1, None, 0.01):
        work()
    host, port = cluster.bootstrap.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"this is no frame")
        assert connection.recv(1) == b""
    for _ in range(1_000):
        if of_requests() <= before:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("requests or connections are cycles")
"""

FETCHERS = """
import gc
import time

from minikafka.testing.inside.cluster import InsideCluster
from minikafka.network.channel import Channel

def channels():
    return sum(type(each) is Channel for each in gc.get_objects())

with InsideCluster(brokers=2, settings={"replica.fetch.wait.max.ms": 100}) as cluster:
    cluster.create_topic("first")
    gc.collect()
    gc.disable()
    before = channels()
    for number in range(5):
        time.sleep(0.2)  # until a fetch may be aborted again
        cluster.create_topic(f"t{number}")
    for _ in range(1_000):
        if channels() <= before:
            break
        time.sleep(0.01)
    else:
        raise AssertionError(f"{channels() - before} channels of aborted fetches are cycles")
"""


@pytest.mark.mission("SAFE-81")
def test_survivors_of_a_full_collection_are_frozen() -> None:
    run(SURVIVORS)


@pytest.mark.mission("SAFE-81")
def test_requests_and_connections_that_have_ended_are_no_cycles() -> None:
    run(CYCLES)


@pytest.mark.mission("SAFE-81")
def test_channels_of_aborted_fetches_are_no_cycles() -> None:
    """A new partition aborts the Fetch that is parked at its leader, by closing the channel."""
    run(FETCHERS)


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
