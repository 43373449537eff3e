"""An archive of the classes that Apache Kafka loads, so that its brokers and tools start sooner."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.lib.apache_kafka import (
    NEWEST,
    SMALL_JVM,
    archive_path,
    start_broker,
    write_properties,
)
from scripts.lib.cluster import free_ports
from tests.support.cluster.cluster_state import until

STARTED = "[KafkaServer id=1] started"
LIMIT_S = 120.0


def archive_classes(directory: Path, zookeeper: str) -> None:
    """Write the archive of the newest version, where there is none: Java writes the classes that a
    broker has loaded when it ends. ``zookeeper`` has a chroot that no other broker uses."""
    archive = archive_path(NEWEST)
    if archive.exists():
        return
    properties, log = directory / "server.properties", directory / "log"
    values = {
        "broker.id": 1,
        "listeners": f"PLAINTEXT://127.0.0.1:{free_ports(1)[0]}",
        "zookeeper.connect": zookeeper,
        "log.dirs": directory / "data",
        "controlled.shutdown.enable": "false",
    }
    write_properties(properties, values)
    written = archive.with_suffix(f".{os.getpid()}")
    jvm = (*SMALL_JVM, f"-XX:ArchiveClassesAtExit={written}")
    broker = start_broker(NEWEST, properties, log, jvm)
    try:
        until(lambda: STARTED in log.read_text(), "a broker of Apache Kafka has started", LIMIT_S)
        broker.terminate()
        broker.wait(LIMIT_S)
    finally:
        broker.kill()
    if written.exists():  # else this Java writes none
        written.replace(archive)
