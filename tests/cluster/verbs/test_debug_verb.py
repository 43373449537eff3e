"""What `minikafka debug` shows of running brokers, and what it says when it cannot."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.processes.up import DEBUG_PORT_OFFSET
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.schema import Message
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import RealCluster, run_verb

# One group, so that its brokers start once. It can run beside other clusters.
pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("debug_verb")]

WAIT_MS = 60_000
TOPIC = "waited-for"


@pytest.fixture(scope="module")
def duo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Two brokers that are patient with each other; a topic on both."""
    patient = ("zookeeper.session.timeout.ms=40000", "replica.lag.time.max.ms=120000")
    directory = tmp_path_factory.mktemp("duo")
    with RealCluster(directory, brokers=2, overrides=patient) as running:
        running.create_topic(TOPIC, replication_factor=2)
        running.until_isr(TOPIC, 0, running.broker_ids)
        yield running


def address(cluster: RealCluster, broker_id: int) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.split(",")[broker_id - 1].rpartition(":")
    return host, int(port)


@contextlib.contextmanager
def pending_request(
    cluster: RealCluster, broker_id: int, request: Message, version: int
) -> Iterator[None]:
    """A client that has sent a request and waits for the response."""
    spec = request.SPEC
    assert spec.api_key is not None
    with socket.create_connection(address(cluster, broker_id)) as connection:
        connection.sendall(encode_request(RequestHeader(spec.api_key, version, 1, "t"), request))
        yield


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def shown(cluster: RealCluster, broker_id: int) -> dict[str, Any]:
    host, port = address(cluster, broker_id)
    done = run_verb(
        *("debug", "purgatories", "--bootstrap-server", f"{host}:{port}"),
        *("--broker", str(broker_id), "--json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["broker"] == broker_id
    return {row["name"]: row for row in facts["purgatories"]}


def long_waits(purgatory: dict[str, Any]) -> list[dict[str, Any]]:
    """Followers' fetches wait for half a second only."""
    return [op for op in purgatory["operations"] if op["delay_ms"] == WAIT_MS]


def check_time(operation: dict[str, Any]) -> None:
    assert operation["keys"] == [f"{TOPIC}-0"]
    assert operation["age_ms"] >= 0
    assert 0 < operation["remaining_ms"] < WAIT_MS
    assert operation["age_ms"] + operation["remaining_ms"] == WAIT_MS


@pytest.mark.mission("PUR-3", "PUR-6", "PUR-7", "TW-3", "OPS-2")
def test_a_parked_fetch_and_a_produce_that_waits_for_a_follower(duo: RealCluster) -> None:
    leader = duo.state(TOPIC)["leader"]
    (follower,) = [b for b in duo.broker_ids if b != leader]
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    fetch = FetchRequest(
        max_wait_ms=WAIT_MS, min_bytes=1, topics=[FetchTopic(TOPIC, partitions=[partition])]
    )
    batch = memoryview(build_batch([(0, None, b"held up", [])]))
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    produce = ProduceRequest(acks=-1, timeout_ms=WAIT_MS, topic_data=data)
    with (
        pending_request(duo, leader, fetch, 11),
        stopped(duo.broker_pid(follower)),
        pending_request(duo, leader, produce, 9),
    ):
        until(lambda: long_waits(shown(duo, leader)["Produce"]), "the produce waits")
        rows = shown(duo, leader)
    (waiting,) = long_waits(rows["Fetch"])  # the record is not committed
    assert waiting["kind"] == "DelayedFetch"
    check_time(waiting)
    (waiting,) = long_waits(rows["Produce"])
    assert waiting["kind"] == "DelayedProduce"
    check_time(waiting)
    for name, row in rows.items():
        assert row["reaper"] == f"ExpirationReaper-{leader}-{name}"
        assert row["num_delayed_operations"] == len(row["operations"])
    assert {"Produce", "Fetch", "DeleteRecords", "topic"} <= set(rows)
    assert rows["Produce"]["purgatory_size"] == 1
    assert 0 < rows["Produce"]["next_wake_up_in_ms"] < WAIT_MS
    wheels = rows["Produce"]["wheels"]
    assert [(w["tick_ms"], w["wheel_size"], w["interval_ms"]) for w in wheels] == [
        *((1, 20, 20), (20, 20, 400), (400, 20, 8_000), (8_000, 20, 160_000)),
    ]
    assert [b["tasks"] for wheel in wheels for b in wheel["buckets"]] == [1]
    until(lambda: not long_waits(shown(duo, leader)["Produce"]), "the produce is answered")


def test_text_in_a_pipe(duo: RealCluster) -> None:
    done = run_verb("debug", "purgatories", "--bootstrap-server", duo.bootstrap, "--broker", "1")
    assert (done.returncode, done.stderr) == (0, "")
    summary, operations, wheels = [
        [line.split("\t") for line in table.splitlines()] for table in done.stdout.split("\n\n")
    ]
    reapers = [row[1] for row in summary[1:]]
    assert summary[0][:4] == ["purgatory", "reaper", "size", "delayed"]
    assert reapers == [f"ExpirationReaper-1-{row[0]}" for row in summary[1:]]
    assert operations[0] == ["purgatory", "kind", "keys", "age_ms", "remaining_ms"]
    assert wheels[0][:5] == ["purgatory", "level", "tick_ms", "wheel_size", "interval_ms"]
    assert wheels[1][1:5] == ["1", "1", "20", "20"]


@pytest.mark.mission("OPS-2")
def test_tasks_and_metrics(duo: RealCluster) -> None:
    server = ("--bootstrap-server", duo.bootstrap, "--broker", "2")
    tasks = run_verb("debug", "tasks", *server).stdout.splitlines()
    assert "ControllerEventThread\t1" in tasks
    assert any(line.startswith("ExpirationReaper-2-Fetch\t") for line in tasks)
    metrics = json.loads(run_verb("debug", "metrics", *server, "--json").stdout)["metrics"]
    assert (
        metrics[
            "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Produce"
        ]
        == 0
    )
    assert metrics["kafka.server:type=ReplicaManager,name=PartitionCount"] == 1


def test_the_address_is_a_setting_of_the_broker(duo: RealCluster) -> None:
    port = address(duo, 2)[1] + DEBUG_PORT_OFFSET
    assert f"debug.listener=HTTP://127.0.0.1:{port}\n" in (
        (duo.home("broker-2") / "server.properties").read_text()
    )
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics.json", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert json.load(answer)["broker"] == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--broker", "9"), "no broker 9, there are 1, 2"),
        (("--broker", "1", "--limit", "1001"), "limit must be a number up to 1000"),
    ],
)
def test_an_error_is_printed_in_one_line(
    duo: RealCluster, options: tuple[str, ...], complaint: str
) -> None:
    done = run_verb("debug", "purgatories", "--bootstrap-server", duo.bootstrap, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_broker_without_a_debug_listener(tmp_path: Path) -> None:
    with RealCluster(tmp_path / "c", brokers=1, overrides=("debug.listener=",)) as cluster:
        server = ("--bootstrap-server", cluster.bootstrap)
        done = run_verb("debug", "purgatories", *server, "--broker", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "minikafka: broker 1 has no debug.listener configured\n"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("HTTP://0.0.0.0:9192", "must name a loopback address, such as 127.0.0.1"),
        ("127.0.0.1:9192", "must be HTTP://host:port"),
    ],
)
def test_an_invalid_debug_listener_is_refused(value: str, complaint: str) -> None:
    settings = ("--override", "zookeeper.connect=z:1", "--override", f"debug.listener={value}")
    done = run_verb("broker", *settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"minikafka: Invalid value {value} for configuration debug.listener: {complaint}\n"
    )


def test_a_debug_port_that_is_taken(duo: RealCluster, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = {
        "broker.id": "7",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": f"{duo.zookeeper}/other",
        "log.dirs": str(tmp_path),
        "debug.listener": f"HTTP://127.0.0.1:{port}",
    }
    words = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        done = run_verb("broker", *words, "--log-level", "ERROR")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "Address already in use" in line
    assert str(port) in line
