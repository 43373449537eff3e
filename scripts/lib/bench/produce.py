"""Produce: throughput of one connection, five in flight, and latency, beside the bare probe."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from scripts.lib.bench import requests, servers
from scripts.lib.bench.load import Result, drive, drive_in_turn
from scripts.lib.bench.report import Report
from scripts.lib.bench.servers import Servers
from scripts.lib.cluster import Cluster

IN_FLIGHT = 5
ROUNDS = 3
PATIENCE_S = 30
OVERRIDES = ("message.max.bytes=4194304",)
# batch bytes, records a batch, requests a round, least ratio to the probe
SIZES = (
    (1 << 10, 1, 30_000, 0.4),
    (16 << 10, 1, 8_000, 0.6),
    (16 << 10, 160, 8_000, None),
    (256 << 10, 1, 600, 0.7),
    (256 << 10, 2560, 600, None),
    (1 << 20, 1, 150, 0.8),
)
FETCH_BYTES = 1 << 20


def port_of(cluster: Servers) -> int:
    return int(cluster.bootstrap.split(",")[0].rpartition(":")[2])


def create(cluster: Servers, topic: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(30)


def leader_port(cluster: Servers, topic: str) -> int:
    """Asks until the broker that happens to be asked has heard of the topic."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        metadata = admin.list_topics(topic, timeout=10)
        partition = metadata.topics[topic].partitions.get(0)
        if partition is not None and partition.leader in metadata.brokers:
            return int(metadata.brokers[partition.leader].port)
        time.sleep(0.02)
    raise RuntimeError(f"{topic} has no leader")


def round_of(port: int, frame: bytes, count: int, check: bool) -> tuple[Result, bytes]:
    result, answer = uvloop.run(drive(port, frame, count, IN_FLIGHT))
    if check:
        requests.check_produced(answer)
    return result, answer


def compare(
    port: int, frame: bytes, count: int, directory: Path
) -> tuple[list[Result], list[Result]]:
    """Rounds of ours and of the probe, taken in turns."""
    _, answer = round_of(port, frame, max(50, count // 20), check=True)  # warm up
    ours, bare = [], []
    with servers.probe(directory, len(answer) - 4) as probe_port:
        round_of(probe_port, frame, max(50, count // 20), check=False)
        for _ in range(ROUNDS):
            ours.append(round_of(port, frame, count, check=True)[0])
            bare.append(round_of(probe_port, frame, count, check=False)[0])
    return ours, bare


def rate(results: list[Result]) -> float:
    return median(result.per_second for result in results)


def run_produce(report: Report) -> None:
    report.section("produce acks=1, one broker, five in flight (requests/s)")
    for size, records, count, aim in SIZES:
        frame = requests.produce_frame("bench", size // records, 1, records_per_batch=records)
        # A cluster for each size, so that both logs stay within the memory that was taken.
        with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 1, OVERRIDES) as cluster:
            servers.take_memory(Path(home))
            create(cluster, "bench", 1)
            ours, bare = compare(port_of(cluster), frame, count, Path(home))
            name = f"{size >> 10} KB, {records} records, {rate(ours) * size / 1e6:,.0f} MB/s"
            report.row(name, "1/s", rate(ours), rate(bare), aim)


def run_latency(report: Report) -> None:
    report.section("one request at a time, 1 KB, three brokers (ms)")
    with tempfile.TemporaryDirectory() as home, Cluster(Path(home), 3) as cluster:
        create(cluster, "bench", 3)
        port = leader_port(cluster, "bench")
        for name, acks in (("produce acks=1", 1), ("produce acks=all", -1)):
            frame = requests.produce_frame("bench", 1 << 10, acks)
            result, answer = one_at_a_time(port, frame)
            with servers.probe(Path(home), len(answer) - 4) as probe_port:
                bare, _ = uvloop.run(drive(probe_port, frame, 2_000, 1))
            for share in (0.5, 0.99):
                label = f"{name} p{share * 100:.0f}"
                report.row(label, "ms", result.percentile_ms(share), bare.percentile_ms(share))
        latencies = asyncio.run(end_to_end(cluster.bootstrap, 500))
        for share in (0.5, 0.99):
            value = latencies[int(len(latencies) * share)]
            report.row(f"produce to consumer, acks=all p{share * 100:.0f}", "ms", value)


def one_at_a_time(port: int, frame: bytes) -> tuple[Result, bytes]:
    uvloop.run(drive(port, frame, 200, 1))
    result, answer = uvloop.run(drive(port, frame, 2_000, 1))
    requests.check_produced(answer)
    return result, answer


async def end_to_end(bootstrap: str, count: int) -> list[float]:
    """Milliseconds from the call of send to the record in a consumer's hands, sorted."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    loop = asyncio.get_running_loop()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await producer.start()
    await consumer.start()
    consumer.assign([TopicPartition("bench", 0)])
    await consumer.seek_to_end()
    await consumer.position(TopicPartition("bench", 0))
    latencies = []
    for _ in range(count):
        started = loop.time()
        sent = asyncio.create_task(producer.send_and_wait("bench", b"x" * 1024, partition=0))
        await consumer.getone()
        latencies.append((loop.time() - started) * 1000)
        await sent
    await consumer.stop()
    await producer.stop()
    return sorted(latencies)


def fill_and_fetch(port: int, topic: str, batch_bytes: int) -> tuple[list[bytes], int]:
    """Append 8 MB of batches; return Fetch requests of 1 MB and the bytes of records in a response.

    No two requests in flight want the same records: a broker may read them once for both.
    """
    frame = requests.produce_frame(topic, batch_bytes, acks=1)
    first = offset_of_next(port, frame)
    uvloop.run(drive(port, frame, max(4, (8 << 20) // batch_bytes), IN_FLIGHT))
    step = FETCH_BYTES // batch_bytes
    fetches = [requests.fetch_frame(topic, first + step * i, FETCH_BYTES) for i in range(IN_FLIGHT)]
    _, answer = uvloop.run(drive_in_turn(port, fetches, 50, IN_FLIGHT))
    return fetches, len(requests.fetched(answer))


def offset_of_next(port: int, frame: bytes) -> int:
    """Produce once; the offset it got."""
    from minikafka.protocol.frames import decode_response
    from minikafka.protocol.messages.produce import ProduceResponse

    _, answer = uvloop.run(drive(port, frame, 1, 1))
    version = requests.PRODUCE_VERSION
    _, response = decode_response(ProduceResponse, version, memoryview(answer))
    return int(response.responses[0].partition_responses[0].base_offset)
