"""Official Apache Kafka, where its jars are: brokers in ZooKeeper mode, and its command-line tools.

``scripts/kafka-jars`` downloads the jars to ``.kafka/VERSION``. The environment variable
MINIKAFKA_KAFKA_JARS names another directory with a folder for each version.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from minikafka.cli.processes.embedded_zookeeper import ZookeeperError, find_java

NEWEST = "3.9.1"
VERSIONS = (NEWEST, "2.8.2", "2.0.1")
JARS = "MINIKAFKA_KAFKA_JARS"
REPOSITORY = Path(__file__).parents[2]
HOW_TO_GET = "scripts/kafka-jars downloads Apache Kafka's jars; it needs Maven and Java"

# Small and quick to start. A benchmark passes its own settings.
SMALL_JVM = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class NoApacheKafka(Exception):
    """The jars or Java are missing; the message says how to get them."""


def class_path(version: str = NEWEST) -> str:
    """Return the class path with a version's jars. Raises NoApacheKafka."""
    folder = _folder(version)
    if not any(folder.glob(f"kafka_2.*-{version}.jar")):
        raise NoApacheKafka(f"no Apache Kafka {version} in {folder}: {HOW_TO_GET}")
    return f"{folder}/*"


def archive_path(version: str) -> Path:
    """Return the file with classes that Java maps into its memory instead of reading the jars. One
    of another Java or of other jars has no effect."""
    return _folder(version) / "classes.jsa"


def _folder(version: str) -> Path:
    return Path(os.environ.get(JARS) or REPOSITORY / ".kafka") / version


def java_command(
    version: str,
    main_class: str,
    *arguments: str,
    jvm: tuple[str, ...] = SMALL_JVM,
    classes: Path | None = None,
) -> list[str]:
    """Return the command that runs a class of a version, which finds the classes in ``classes``,
    too. Raises NoApacheKafka."""
    jars = class_path(version) + ("" if classes is None else f"{os.pathsep}{classes}")
    try:
        java = find_java(os.environ)
    except ZookeeperError as error:
        raise NoApacheKafka(str(error)) from None
    archive = archive_path(version)
    if "-Xshare:auto" in jvm and archive.exists():
        jvm = (*jvm, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")  # on standard output
    # Its broker logs what a test wants to read when it fails; the ZooKeeper client says too much.
    logger = "-Dorg.slf4j.simpleLogger."
    logging = (
        f"{logger}showDateTime=true",
        f"{logger}dateTimeFormat=HH:mm:ss.SSS",
        f"{logger}log.org.apache.zookeeper=warn",
    )
    return [java, *jvm, *logging, "-cp", jars, main_class, *arguments]


def java_with_compiler() -> str:
    """Return the Java that ``java_command`` runs. Raises NoApacheKafka if it cannot compile."""
    try:
        java = find_java(os.environ)
    except ZookeeperError as error:
        raise NoApacheKafka(str(error)) from None
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True)
    if "jdk.compiler@" not in listed.stdout:
        raise NoApacheKafka(
            f"{java} has no compiler: install a JDK (apt-get install default-jdk-headless)"
        )
    return java


def start_broker(
    version: str,
    properties: Path,
    log: Path,
    jvm: tuple[str, ...] = SMALL_JVM,
    classes: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a broker in a session of its own. Its output is appended to ``log``."""
    command = java_command(version, "kafka.Kafka", str(properties), jvm=jvm, classes=classes)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            start_new_session=True,
        )


def write_properties(path: Path, values: Mapping[str, object]) -> None:
    """Write a server.properties file."""
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
