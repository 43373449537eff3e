"""What a broker costs at rest: CPU by its idle partitions, CPU and memory by its idle connections.

The probe of a connection is a bare ``BufferedProtocol`` on uvloop without a buffer. Clients are
another process. The CPU of brokers with no partition is beside that of brokers with many.
"""

from __future__ import annotations

import resource
import signal
import socket
import sys
import time

import psutil

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.brokers import Brokers, spread
from scripts.lib.bench.harness import child, cpu_at_rest
from scripts.lib.bench.report import Report
from scripts.lib.bench.requests import frame, receive

BROKERS = 3
SIZES = (1_000, 10_000)  # partitions with a replica on every broker
PARTITIONS_A_TOPIC = 1_000
SETTLE_S = 10.0
REST_S = 20.0
LIMIT_S = 120
CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 200
CONNECTS_AT_ONCE = 100
RESPONSE_BYTES = 400  # about as long as a broker's
CPU_AIM = 10  # ms a second
CONNECTION_AIM = 20.0  # KB


def run(report: Report) -> None:
    report.section(f"{BROKERS} brokers at rest (CPU ms a second, each)", "with", "with none")
    with Brokers(BROKERS, {"auto.create.topics.enable": "false"}) as cluster:
        time.sleep(SETTLE_S)
        empty = cpu_at_rest(cluster.processes, REST_S)
        report.row("no partitions", "ms/s", empty)
        for partitions in SIZES:
            each = spread(PARTITIONS_A_TOPIC, BROKERS, BROKERS)
            for start in range(0, partitions, PARTITIONS_A_TOPIC):
                cluster.create({f"idle-{start}": each})
            time.sleep(SETTLE_S)
            used = cpu_at_rest(cluster.processes, REST_S)
            note = f"aim ≤ {CPU_AIM} ms/s" if partitions == max(SIZES) else ""
            report.row(f"{partitions:,} partitions", "ms/s", used, empty, note=note)
    run_connections(report)


def run_connections(report: Report) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(CONNECTIONS, soft // 2 - SPARE_DESCRIPTORS)  # half of them are for clients
    report.section(f"{count:,} idle connections, after one ApiVersions each")
    with child("probe", "fixed", RESPONSE_BYTES) as (port, process):
        bare = Weight(process, int(port), count)
    with Brokers() as cluster:
        broker = Weight(cluster.process(1), cluster.ports[0], count)
    note = f"aim ≤ {CONNECTION_AIM} KB"
    report.row("memory of a connection", "KB", broker.kilobytes, bare.kilobytes, note=note)
    note = f"{broker.cpu_before:.2f} without them"
    report.row("CPU with them", "ms/s", broker.cpu, note=note)
    report.row("kept after they have gone", "KB", broker.kept, bare.kept, note="of a connection")


class Weight:
    """What ``count`` idle connections cost a process: KB each, and CPU ms a second. Another process
    opens them; each has sent one request and has its response."""

    def __init__(self, process: psutil.Process, port: int, count: int) -> None:
        with child("idle", port, 1):
            pass
        time.sleep(SETTLE_S)
        self.cpu_before = cpu_at_rest([process], REST_S)
        before = process.memory_info().rss
        with child("idle", port, count):
            time.sleep(SETTLE_S)
            self.kilobytes = (process.memory_info().rss - before) / count / 1000
            self.cpu = cpu_at_rest([process], REST_S)
        time.sleep(SETTLE_S)
        self.kept = (process.memory_info().rss - before) / count / 1000


def connect_all(port: int, count: int) -> list[socket.socket]:
    request = frame(ApiKey.API_VERSIONS)
    connections: list[socket.socket] = []
    for start in range(0, count, CONNECTS_AT_ONCE):
        new = [
            socket.create_connection(("127.0.0.1", port), LIMIT_S)
            for _ in range(min(CONNECTS_AT_ONCE, count - start))
        ]
        for each in new:
            each.sendall(request)
        for each in new:
            if receive(each) is None:
                raise ConnectionError("closed by the server")
        connections += new
    return connections


if __name__ == "__main__":
    kept = connect_all(*map(int, sys.argv[1:]))
    print("ready", flush=True)
    signal.pause()
