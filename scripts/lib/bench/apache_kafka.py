"""Official Apache Kafka for comparisons in one run: its jars, and the command that runs a broker.

The environment variable MINIKAFKA_BENCH_KAFKA_JARS names the directory of the jars, or its parent
if the jars are in ``libs`` there, as in Kafka's own archive. Otherwise ``scripts.lib.apache_kafka``
says where the jars are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from minikafka.cli.processes.embedded_zookeeper import ZookeeperError, find_java
from scripts.lib.apache_kafka import NEWEST, NoApacheKafka, class_path

JARS = "MINIKAFKA_BENCH_KAFKA_JARS"
BROKER_JAR = re.compile(r"kafka_[0-9.]+-([0-9]+\.[0-9]+\.[0-9]+)\.jar")

# What kafka-server-start.sh sets, without the log of the garbage collector.
JVM_OPTIONS = (
    *("-server", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def jars(environ: Mapping[str, str]) -> Path | None:
    """Return the directory of Kafka's jars that the environment names; None if it names none.

    Raises NoApacheKafka if there are no jars of a broker.
    """
    named = environ.get(JARS)
    return jars_in(Path(named)) if named else None


def jars_to_compare(environ: Mapping[str, str]) -> Path:
    """Return the directory that the environment names, or that of the newest version that
    scripts/kafka-jars has downloaded. Raises NoApacheKafka if there are no jars."""
    return jars(environ) or Path(class_path(NEWEST)).parent


def jars_in(directory: Path) -> Path:
    """Return ``directory`` or its ``libs``, whichever has a broker's jar. Raises NoApacheKafka."""
    for folder in (directory, directory / "libs"):
        if version_in(folder):
            return folder.resolve()  # brokers run in other directories
    raise NoApacheKafka(
        f"no jar of a Kafka broker (kafka_2.13-VERSION.jar) in {directory} or {directory}/libs; "
        f"{JARS} must name a directory with the jars of Apache Kafka"
    )


def version_in(folder: Path) -> str:
    """Return the version of the broker whose jar is in ``folder``; empty if there is none."""
    matches = (BROKER_JAR.fullmatch(path.name) for path in sorted(folder.glob("kafka_*.jar")))
    return max((match.group(1) for match in matches if match), default="")


def broker_command(jars: Path, properties: Path) -> list[str]:
    """Return the command that runs a broker. Raises NoApacheKafka if there is no Java."""
    try:
        java = find_java(os.environ)
    except ZookeeperError as error:
        raise NoApacheKafka(str(error)) from None
    return [java, *JVM_OPTIONS, LOGGING, "-cp", f"{jars}/*", "kafka.Kafka", str(properties)]
