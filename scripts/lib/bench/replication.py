"""Replication: acks=all beside acks=1, latency, catching up, fetch sessions, leaders that go."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import psutil
import uvloop
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.core.replication.fetch_state import PartitionFetchState
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.codec import encode
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from minikafka.server.broker.replication.leader_session import LeaderSession, ReplicaFetcherConfig
from scripts.lib.bench import requests, servers
from scripts.lib.bench.load import Result, drive, drive_in_turn
from scripts.lib.bench.produce import IN_FLIGHT, create, leader_port, offset_of_next, rate, round_of
from scripts.lib.bench.report import Report
from scripts.lib.bench.servers import Servers
from scripts.lib.cluster import Cluster

ROUNDS = 5
# Followers take what a message may be, as Kafka advises for large ones.
OVERRIDES = (
    "message.max.bytes=4194304",
    "replica.fetch.max.bytes=4194304",
    "offsets.topic.replication.factor=1",
)
SIZES = ((1 << 10, 6_000, None), (16 << 10, 2_000, None), (256 << 10, 300, 0.4))
LEAST_REQUESTS_PER_SECOND = 3_000
CATCH_UP_BYTES = 512 << 20
BATCH_BYTES = 256 << 10
FETCH_BYTES = 1 << 20
PARTITIONS = 1_000
PRODUCE_EVERY_S = 0.005
PATIENCE_S = 60
SESSION_TIMEOUT_S = 6.0  # of a broker that `up` starts


def run(report: Report) -> None:
    throughput(report)
    request_bytes(report)
    catching_up(report)
    for number, name, aim in ((signal.SIGTERM, "kill -15", 200), (signal.SIGKILL, "kill -9", None)):
        leader_goes(report, number, name, aim)


# ---------------------------------------------------------------------------------- throughput


def throughput(report: Report) -> None:
    report.section("produce, three brokers, five in flight (requests/s)", "all, RF 3", "1, RF 1")
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 3, OVERRIDES) as cluster:
        servers.take_memory(Path(home))
        create(cluster, "three", 3)
        create(cluster, "one", 1)
        ports = leader_port(cluster, "three"), leader_port(cluster, "one")
        for size, count, aim in SIZES:
            all_frame = requests.produce_frame("three", size, acks=-1)
            one_frame = requests.produce_frame("one", size, acks=1)
            replicated, single = in_turns(ports, all_frame, one_frame, count)
            name = f"{size >> 10} KB, {rate(replicated) * size / 1e6:,.0f} MB/s"
            report.row(name, "1/s", rate(replicated), rate(single), aim)
            if size == 1 << 10:
                name = f"of {LEAST_REQUESTS_PER_SECOND:,} to reach"
                report.row(name, "1/s", rate(replicated), LEAST_REQUESTS_PER_SECOND, 1.0)
        frames = (requests.produce_frame("three", 1 << 10, -1), one_1k())
        one_at_a_time(report, ports, frames)


def one_1k() -> bytes:
    return requests.produce_frame("one", 1 << 10, 1)


def in_turns(
    ports: tuple[int, int], all_frame: bytes, one_frame: bytes, count: int
) -> tuple[list[Result], list[Result]]:
    replicated, single = [], []
    for port, frame in zip(ports, (all_frame, one_frame), strict=True):
        round_of(port, frame, max(50, count // 10), check=True)
    for _ in range(ROUNDS):
        replicated.append(round_of(ports[0], all_frame, count, check=True)[0])
        single.append(round_of(ports[1], one_frame, count, check=True)[0])
    return replicated, single


def one_at_a_time(report: Report, ports: tuple[int, int], frames: tuple[bytes, bytes]) -> None:
    results = []
    for port, frame in zip(ports, frames, strict=True):
        uvloop.run(drive(port, frame, 200, 1))
        results.append(uvloop.run(drive(port, frame, 2_000, 1))[0])
    for share in (0.5, 0.99):
        label = f"1 KB, one at a time, p{share * 100:.0f}"
        ours, bare = (result.percentile_ms(share) for result in results)
        report.row(label, "ms", ours, bare)


# ---------------------------------------------------------------------------- bytes of requests


def request_bytes(report: Report) -> None:
    report.section(f"a follower's Fetch of {PARTITIONS:,} partitions", "incremental", "full")
    topic_id = UUID(int=7)
    states = {
        TopicPartition(f"topic-{i // 10}", i % 10): PartitionFetchState(topic_id, 3, 1_000, 3)
        for i in range(PARTITIONS)
    }
    states = {
        tp: state._replace(topic_id=UUID(int=1 + int(tp.topic.split("-")[1])))
        for tp, state in states.items()
    }
    session = LeaderSession(1, lambda: 9, lambda tp: 0, lambda: 0, ReplicaFetcherConfig())
    full, version = session.request(states, 500)
    full_bytes = len(encode(full, version))
    told = [
        FetchableTopicResponse(
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(p.partition, aborted_transactions=None, records=b"")
                for p in topic.partitions
            ],
        )
        for topic in full.topics
    ]
    answer = FetchResponse(session_id=77, responses=told)
    session.accept(ErrorCode.NONE, answer)
    took_ms = 1e9
    for _ in range(20):
        began = time.perf_counter()
        incremental, version = session.request(states, 500)
        took_ms = min(took_ms, (time.perf_counter() - began) * 1000)
        session.accept(ErrorCode.NONE, FetchResponse(session_id=77))
    moved = dict(states)
    for tp in list(moved)[:10]:
        moved[tp] = moved[tp]._replace(fetch_offset=1_001)
    few, version = session.request(moved, 500)
    bytes_of = {"nothing has changed": incremental, "ten have moved": few}
    for name, request in bytes_of.items():
        report.row(f"request, {name}", "bytes", len(encode(request, version)), full_bytes)
    empty = len(encode(FetchResponse(session_id=77), version))
    report.row("answer without news", "bytes", empty, len(encode(answer, version)))
    report.row("making the incremental request", "ms", took_ms)


# ----------------------------------------------------------------------------------- catching up


def catching_up(report: Report) -> None:
    report.section("a follower that was stopped catches up (MB/s)", "follower", "fetch 1 MB")
    overrides = (*OVERRIDES, "replica.lag.time.max.ms=1500", "num.partitions=1")
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 2, overrides) as cluster:
        servers.take_memory(Path(home))
        create_at(cluster, "log", [[1, 2]])
        port = leader_port(cluster, "log")
        frame = requests.produce_frame("log", BATCH_BYTES, acks=1)
        first = offset_of_next(port, frame)
        logs = [next((Path(home) / f"broker-{i}").glob("**/log-0")) for i in (1, 2)]
        wait_until(lambda: bytes_of_log(logs[1]) == bytes_of_log(logs[0]) > 0)
        speeds = []
        brokers = [psutil.Process(cluster.broker_pid(number)) for number in (1, 2)]
        used: list[list[float]] = []  # s of CPU for a GB, by the leader and the follower
        for _ in range(3):
            cluster.kill_broker(2, signal.SIGSTOP)
            uvloop.run(drive(port, frame, CATCH_UP_BYTES // BATCH_BYTES // 3, IN_FLIGHT))
            wait_until(lambda: in_sync(cluster, "log") == 1)
            behind = bytes_of_log(logs[0]) - bytes_of_log(logs[1])
            before = [sum(broker.cpu_times()[:2]) for broker in brokers]
            began = time.monotonic()
            cluster.kill_broker(2, signal.SIGCONT)
            wait_until(lambda: bytes_of_log(logs[1]) >= bytes_of_log(logs[0]))
            speeds.append(behind / (time.monotonic() - began) / 1e6)
            after = [sum(broker.cpu_times()[:2]) for broker in brokers]
            used.append([(b - a) / behind * 1e9 for a, b in zip(before, after, strict=True)])
        step = FETCH_BYTES // BATCH_BYTES  # no two in flight want the same
        fetches = [
            requests.fetch_frame("log", first + 8 + step * i, FETCH_BYTES) for i in range(64)
        ]
        _, answer = uvloop.run(drive_in_turn(port, fetches, 64, IN_FLIGHT))
        volume = len(requests.fetched(answer)) / 1e6
        for in_flight, aim in ((IN_FLIGHT, 0.6), (1, None)):
            results = [
                uvloop.run(drive_in_turn(port, fetches, 300, in_flight))[0] for _ in range(3)
            ]
            name = f"beside a client with {in_flight} in flight"
            report.row(name, "MB/s", sorted(speeds)[1], rate(results) * volume, aim)
        for number, name in enumerate(("leader", "follower")):
            report.row(f"CPU of the {name}, a GB", "s", min(each[number] for each in used))


def create_at(cluster: Servers, topic: str, assignment: list[list[int]]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, len(assignment), replica_assignment=assignment)
    admin.create_topics([new])[topic].result(30)


def in_sync(cluster: Servers, topic: str) -> int:
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, 30)
    return len(found.topics[topic].partitions[0].isrs)


def bytes_of_log(directory: Path) -> int:
    """Cheap to ask: both processors are busy with what is measured."""
    with os.scandir(directory) as files:
        return sum(file.stat().st_size for file in files if file.name.endswith(".log"))


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        if time.monotonic() > deadline:
            raise RuntimeError("what was waited for did not come")
        time.sleep(0.002)


# ----------------------------------------------------------------------------- leaders that go


class Pacer:
    """A producer with its defaults, one record of 1 KB every few milliseconds, and what became of
    each: (when it was sent, how long it took, its error)."""

    def __init__(self, cluster: Servers, topic: str, every_s: float = PRODUCE_EVERY_S) -> None:
        self._every_s = every_s
        self.rows: list[tuple[float, float, object]] = []
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Pacer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._send(time.monotonic())
            self._producer.poll(self._every_s)

    def _send(self, sent: float) -> None:
        def settled(error: object, message: object) -> None:
            self.rows.append((sent, time.monotonic() - sent, error))

        self._producer.produce(self._topic, b"x" * 1024, on_delivery=settled)


def leader_goes(report: Report, number: signal.Signals, name: str, aim_ms: float | None) -> None:
    report.section(
        f"produce with acks=all while the leader goes by {name} (ms)", "meanwhile", "before"
    )
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 3, OVERRIDES) as cluster:
        create_at(cluster, "moved", [[1, 2, 3]])
        leader_port(cluster, "moved")
        with Pacer(cluster, "moved") as pacer:
            time.sleep(3)
            killed_at = time.monotonic()
            cluster.kill_broker(1, number)
            time.sleep(4 if number is signal.SIGTERM else SESSION_TIMEOUT_S + 5)
            ended_at = time.monotonic()
        rows = sorted(pacer.rows, key=lambda row: row[0])
        lost = sum(1 for row in rows if row[2] is not None)
        before = [took for sent, took, _ in rows if killed_at - 2 < sent < killed_at - 0.3]
        during = [took for sent, took, _ in rows if killed_at - 0.2 < sent < ended_at - 1]
        for share in (0.5, 0.99, 1.0):
            pair = (percentile(during, share) * 1000, percentile(before, share) * 1000)
            report.row(f"p{share * 100:.0f}", "ms", *pair)
        if aim_ms is not None:
            report.row(
                "p99, of those to stay below",
                "ms",
                percentile(during, 0.99) * 1000,
                aim_ms,
                1.0,
                True,
            )
        else:
            wait_s = max(during) - SESSION_TIMEOUT_S
            report.row("longest, without the session time-out", "s", wait_s, 1.0, 1.0, True)
        report.row("records refused", "of all", lost, len(rows))


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
