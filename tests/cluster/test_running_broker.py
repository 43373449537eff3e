"""What a broker is made of, seen from outside: its loop, its ZooKeeper, its frames, its waits."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from tests.support.cluster.cluster_state import until
from tests.support.cluster.lone_broker import LoneBroker
from tests.support.cluster.real_cluster import RealCluster
from tests.support.protocol.golden import golden
from tests.support.zookeeper.process import ZookeeperProcess, four_letters

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

PRODUCE_VERSION, FETCH_VERSION = 8, 11
ANSWER_LIMIT_S = 20.0
LONG_MS = 120_000  # a response after that time would come too late for ANSWER_LIMIT_S
SHORT_MS = 400
BATCH = build_batch([(0, None, b"v", [])])

PROBE = """
import asyncio, sys
from minikafka.cli import main
from minikafka.server.node.registration import BrokerRegistration
register = BrokerRegistration.register

async def register_and_tell(self, store):
    await register(self, store)
    loop, client = asyncio.get_running_loop(), store.session._client
    modules = type(loop).__base__.__module__, type(client).__module__
    print("loop: {} ZooKeeper client: {}".format(*modules), flush=True)

BrokerRegistration.register = register_and_tell
sys.exit(main.main(["broker", *sys.argv[1:]]))
"""


@pytest.mark.mission("CRD-1", "CRD-2")
def test_the_loop_is_uvloop_and_the_zookeeper_client_is_kazoo(
    tmp_path: Path, shared_zookeeper: ZookeeperProcess
) -> None:
    broker = LoneBroker(tmp_path, f"{shared_zookeeper.connect}/{uuid.uuid4().hex}", PROBE)
    try:
        broker.until_logged("loop: uvloop ZooKeeper client: kazoo.client")
    finally:
        broker.process.kill()
        broker.process.wait()


@pytest.mark.mission("CRD-2", "CRD-3")
def test_the_controller_is_elected_by_a_node_of_its_session_in_a_real_zookeeper(
    trio: RealCluster,
) -> None:
    trio.until_whole()
    port = int(trio.zookeeper.rpartition(":")[2])
    assert "Zookeeper version: 3." in four_letters(port, b"srvr")
    elected = trio.znode("/controller")["brokerid"]
    with trio.zk() as zk:
        session = zk.exists("/controller").ephemeralOwner
        assert zk.exists(f"/brokers/ids/{elected}").ephemeralOwner == session
    opened = re.compile(rf"session_opened .*session=0x{session:x}$", re.MULTILINE)
    openers = [b for b in trio.broker_ids if opened.search(trio.log(b))]
    assert openers == [elected]


class Wire:
    """A connection of plain bytes to one broker."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, frame: bytes) -> None:
        self._connection.sendall(frame)

    def receive(self) -> bytes:
        """A frame without its size."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            chunk = self._connection.recv(count - len(read))
            assert chunk, "the broker hung up"
            read += chunk
        return read

    def produced(self) -> PartitionProduceResponse:
        _, answer = decode_response(ProduceResponse, PRODUCE_VERSION, self.receive())
        return answer.responses[0].partition_responses[0]

    def fetched(self) -> PartitionData:
        _, answer = decode_response(FetchResponse, FETCH_VERSION, self.receive())
        return answer.responses[0].partitions[0]


@contextlib.contextmanager
def wire(cluster: RealCluster, broker_id: int) -> Iterator[Wire]:
    at = cluster.znode(f"/brokers/ids/{broker_id}")
    address = (at["host"], at["port"])
    with socket.create_connection(address, timeout=ANSWER_LIMIT_S) as connection:
        yield Wire(connection)


@contextlib.contextmanager
def to_leader(cluster: RealCluster, topic: str) -> Iterator[Wire]:
    """Of a topic made for the purpose, with one partition, fully in sync. ZooKeeper names a leader
    before that broker has received LeaderAndIsr."""
    cluster.until_whole()
    cluster.create_topic(topic)
    cluster.until_isr(topic, 0, cluster.broker_ids)
    with wire(cluster, cluster.state(topic)["leader"]) as connection:

        def leads() -> bool:
            connection.send(fetch(topic, 0, max_wait_ms=0, min_bytes=0))
            return connection.fetched().error_code == ErrorCode.NONE

        until(leads, f"the leader of {topic} serves it")
        yield connection


def produce(topic: str, acks: int = 1, timeout_ms: int = LONG_MS) -> bytes:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, BATCH)])]
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)
    return encode_request(RequestHeader(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "wire"), request)


def fetch(topic: str, offset: int, max_wait_ms: int, min_bytes: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return encode_request(RequestHeader(ApiKey.FETCH, FETCH_VERSION, 2, "wire"), request)


@pytest.mark.mission("CRD-1")
def test_controlled_shutdown_in_plain_bytes(trio: RealCluster) -> None:
    """For an unknown broker id: the controller responds with an error and shuts nothing down."""
    trio.until_whole()
    with wire(trio, trio.znode("/controller")["brokerid"]) as connection:
        connection.send(
            golden("""
            0000000c 0007 0000 00000001  # size, key, version 0, correlation id; no client id
            000003e7                     # broker 999
            """)
        )
        assert connection.receive() == golden("""
            00000001                     # correlation id
            0008 00000000                # BROKER_NOT_AVAILABLE, no partitions remain
        """)


@pytest.mark.mission("CRD-1", "CRD-4", "DOP-2")
def test_a_parked_fetch_is_woken_by_a_produce(trio: RealCluster) -> None:
    """Two connections, as a request waits for the responses to earlier ones of its connection."""
    with to_leader(trio, "woken") as reader, wire(trio, trio.state("woken")["leader"]) as writer:
        reader.send(fetch("woken", 0, LONG_MS, 1))
        # The broker reads what arrived first no later than this: then the fetch above is parked.
        writer.send(fetch("woken", 0, 0, 1))
        assert not writer.fetched().records
        writer.send(produce("woken"))
        assert bytes(reader.fetched().records or b"").endswith(BATCH[16:])
        assert writer.produced().error_code == ErrorCode.NONE


@pytest.mark.mission("ORD-1")
def test_a_produce_waits_for_the_response_to_the_fetch_before_it(trio: RealCluster) -> None:
    """On one connection the fetch times out empty, and only then the records are appended."""
    with to_leader(trio, "in-order") as connection:
        connection.send(fetch("in-order", 0, SHORT_MS, 1) + produce("in-order"))
        assert not connection.fetched().records
        assert connection.produced().error_code == ErrorCode.NONE


@pytest.mark.mission("CRD-4", "DOP-2")
def test_a_fetch_with_too_few_bytes_ends_at_its_max_wait(trio: RealCluster) -> None:
    with to_leader(trio, "expired") as connection:
        connection.send(produce("expired", acks=-1))
        assert connection.produced().error_code == ErrorCode.NONE
        started = time.monotonic()
        connection.send(fetch("expired", 0, 400, 1 << 20))
        assert len(connection.fetched().records or b"") == len(BATCH)
        assert time.monotonic() - started >= 0.4


@pytest.mark.mission("CRD-4", "DOP-1", "PRD-6")
def test_acks_all_waits_for_a_frozen_follower_up_to_the_timeout(trio: RealCluster) -> None:
    with to_leader(trio, "waited-for") as connection:
        leader = trio.state("waited-for")["leader"]
        controller = trio.znode("/controller")["brokerid"]
        follower = next(b for b in trio.broker_ids if b not in (leader, controller))
        pid = trio.broker_pid(follower)
        os.kill(pid, signal.SIGSTOP)
        try:
            connection.send(produce("waited-for", acks=-1, timeout_ms=400))
            assert connection.produced().error_code == ErrorCode.REQUEST_TIMED_OUT
            connection.send(produce("waited-for", acks=-1))
        finally:
            os.kill(pid, signal.SIGCONT)
        assert connection.produced().error_code == ErrorCode.NONE
        assert trio.broker_pid(follower) == pid
    trio.until_isr("waited-for", 0, trio.broker_ids)
