"""One broker process on an existing ZooKeeper, or a program that runs one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.cluster.cluster_state import until
from tests.support.cluster.real_cluster import MINIKAFKA


class LoneBroker:
    """A process of ``minikafka broker`` with id 7; ``program`` is Python code that runs one
    instead."""

    def __init__(self, directory: Path, zookeeper: str, program: str | None = None) -> None:
        self.log = directory / "log"
        settings = {
            "broker.id": "7",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": "3000",
            "zookeeper.connection.timeout.ms": "60000",
            "log.dirs": str(directory / "data"),
        }
        properties = directory / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        python = [MINIKAFKA[0], "-c", program] if program else [*MINIKAFKA, "broker"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*python, "--config", str(properties)], stdout=log, stderr=log
            )

    def until_logged(self, text: str) -> None:
        until(lambda: text in self.log.read_text(), f"logged: {text}", 20)
