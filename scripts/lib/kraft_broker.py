"""Official Kafka 4 as one process with KRaft: broker and controller."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scripts.lib.apache_kafka import java_command, start_broker, write_properties
from scripts.lib.bench.harness import wait_until
from scripts.lib.cluster import free_ports

KAFKA_4 = "4.2.0"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
RACK = "rack-1"
LIMIT_S = 60


@contextmanager
def kraft_broker(
    directory: Path, settings: Mapping[str, object] | None = None, classes: Path | None = None
) -> Iterator[str]:
    """Yield the address of a new broker with more ``settings``, which finds plug-ins in
    ``classes``. Raises NoApacheKafka."""
    client, controller = free_ports(2)
    properties = directory / "server.properties"
    write_properties(
        properties,
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "broker.rack": RACK,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": directory / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "share.coordinator.snapshot.update.records.per.snapshot": 3,
            **(settings or {}),
        },
    )
    arguments = ("format", "-t", CLUSTER_ID, "-c", str(properties))
    command = java_command(KAFKA_4, "kafka.tools.StorageTool", *arguments)
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)
    log = directory / "log"
    process = start_broker(KAFKA_4, properties, log, classes=classes)
    try:
        wait_until(lambda: "Kafka Server started" in log.read_text(), "Kafka 4 runs", LIMIT_S)
        yield f"127.0.0.1:{client}"
    finally:
        process.terminate()
        process.wait(LIMIT_S)
