"""Apache Kafka's own brokers in ZooKeeper mode, where its jars are: to compare with in one run.

The environment variable MINIKAFKA_BENCH_KAFKA_JARS names a directory with the jars of
``org.apache.kafka:kafka_2.13`` and its dependencies.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from minikafka.cli.processes.embedded_zookeeper import find_java
from scripts.lib.cluster import free_ports

JARS = "MINIKAFKA_BENCH_KAFKA_JARS"
START_LIMIT_S = 120


def jars() -> Path | None:
    """The directory that the environment names; None where it names none."""
    named = os.environ.get(JARS)
    return Path(named) if named else None


class ApacheKafka:
    """A context: a ZooKeeper and Kafka brokers 1, 2, ... in a directory."""

    def __init__(self, jars: Path, directory: Path, brokers: int) -> None:
        self._jars, self._directory = jars, directory
        *self._ports, self._zookeeper_port = free_ports(brokers + 1)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def __enter__(self) -> Self:
        try:
            self._start_zookeeper()
            for broker_id, port in enumerate(self._ports, start=1):
                self._start_broker(broker_id, port)
            self._until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def broker_pid(self, broker_id: int) -> int:
        return self._processes[broker_id].pid

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate() if process is self._processes[0] else process.kill()
            process.wait()

    def _run(self, name: str, command: list[str]) -> None:
        with (self._directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._directory
            )
        self._processes.append(process)

    def _start_zookeeper(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        data = str(self._directory / "zookeeper")
        command = [sys.executable, "-m", "minikafka.cli.main", "zookeeper", "--data-dir", data]
        # Not the directory of the jars: modules are found where the bench was started.
        with (self._directory / "zookeeper.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--port", str(self._zookeeper_port)], stdout=log, stderr=log
                )
            )

    def _start_broker(self, broker_id: int, port: int) -> None:
        values = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}",
            "zookeeper.connection.timeout.ms": 60_000,
            "log.dirs": self._directory / f"data-{broker_id}",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }
        properties = self._directory / f"broker-{broker_id}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        java = [find_java(os.environ), "-Xmx1g", "-cp", f"{self._jars}/*"]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._run(f"broker-{broker_id}", [*java, "kafka.Kafka", str(properties)])

    def _until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                if len(admin.list_topics(timeout=5).brokers) == len(self._ports):
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Kafka does not serve; its logs are in {self._directory}")
