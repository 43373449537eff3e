"""Kafka's own command-line tools, run against a cluster, and their output without what differs
between two clusters in the same state."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scripts.lib.apache_kafka import NEWEST, java_command

TOOL_JVM = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
LIMIT_S = 120

CLASSES = {
    "acls": "kafka.admin.AclCommand",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "kafka.tools.DumpLogSegments",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}


class ToolTarget(Protocol):
    """The cluster of a tool, and its places on disk."""

    @property
    def directory(self) -> Path: ...

    @property
    def broker_ids(self) -> Sequence[int]: ...

    def address(self, broker_id: int) -> str: ...

    def data(self, broker_id: int) -> Path: ...


@dataclass(frozen=True)
class OneBroker:
    """A cluster of one broker, as a tool knows it."""

    bootstrap: str
    directory: Path
    broker_ids: tuple[int, ...] = (1,)

    def address(self, broker_id: int) -> str:
        return self.bootstrap

    def data(self, broker_id: int) -> Path:
        return self.directory


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The exit status and both outputs of a tool."""

    status: int
    out: str
    err: str


def run_tool(cluster: ToolTarget, tool: str, *arguments: str, stdin: str = "") -> ToolOutput:
    """Run a tool of Kafka 3.9.1. ``{bootstrap}`` in an argument is the first broker's address,
    ``{data}`` its data directory, and ``{home}`` the cluster's directory."""
    done = subprocess.run(
        _command(cluster, tool, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return ToolOutput(
        done.returncode, normalised(cluster, done.stdout), normalised(cluster, done.stderr)
    )


def first_line(cluster: ToolTarget, tool: str, *arguments: str, having: str) -> str:
    """Run a tool that does not end until it prints a line with ``having``; return this line."""
    command = _command(cluster, tool, *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        killer = threading.Timer(LIMIT_S, process.kill)
        killer.start()
        try:
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                if having in line:
                    return normalised(cluster, line)
            raise AssertionError(f"{tool} printed no line with {having!r}: {lines}")
        finally:
            killer.cancel()
            process.kill()


def _command(cluster: ToolTarget, tool: str, *arguments: str) -> list[str]:
    given = with_places(cluster, arguments)
    return java_command(NEWEST, CLASSES[tool], *given, jvm=(*TOOL_JVM, QUIET))


def with_places(cluster: ToolTarget, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the places of the cluster, see ``run_tool``."""
    first = cluster.broker_ids[0]
    places = {
        "{bootstrap}": cluster.address(first),
        "{data}": str(cluster.data(first)),
        "{home}": str(cluster.directory),
    }
    given = []
    for argument in arguments:
        for name, value in places.items():
            argument = argument.replace(name, value)
        given.append(argument)
    return given


# What two clusters in the same state have in different words, and what stands for it.
_REPLACED = (
    (r"TopicId: \S+", "TopicId: <id>"),
    (r"ClusterId: \S+|Cluster ID: \S+", "Cluster ID: <id>"),
    (r"\b\d{13}\b", "<time>"),
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.:,]\d+Z?", "<date>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"console-consumer-\d+", "console-consumer-<n>"),
    (r"baseOffset: (\d+)(.*?)crc: \d+", r"baseOffset: \1\2crc: <crc>"),
    # Kafka 4's DescribeTopicPartitions, which we serve, says that there are none.
    (r"\tElr:( N/A)?\s*\tLastKnownElr:( N/A)?", ""),
    (r"[ \t]+\n", "\n"),
)


def normalised(cluster: ToolTarget, text: str) -> str:
    """Replace addresses, directories, ids, times and checksums."""
    for broker_id in cluster.broker_ids:
        text = text.replace(cluster.address(broker_id), f"<broker {broker_id}>")
        _, _, port = cluster.address(broker_id).partition(":")
        text = re.sub(rf"\b{port}\b", f"<port {broker_id}>", text)
    text = text.replace(str(cluster.directory), "<home>")
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text)
    return text
