"""Text of reassignments: the JSON files and the output lines of kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikafka.cli.cluster.replica_moves import Replica
from minikafka.cli.usage import WrongUsage
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

VERSION = 1
ANY_DIRECTORY = "any"

Replicas = Sequence[int]


# ------------------------------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class ReassignmentFile:
    """The contents of a reassignment file.

    ``targets``: new replicas by partition. ``directories``: target log directories, of the replicas
    whose entry is not ``any``.
    """

    targets: Mapping[TopicPartition, tuple[int, ...]]
    directories: Mapping[Replica, str]


def parse_reassignment(text: str) -> ReassignmentFile:
    """Parse the file of ``--reassignment-json-file``. Raises ConfigError."""
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    directories: dict[Replica, str] = {}
    for row in _rows(text, "reassignment", "partitions"):
        match row:
            case {"topic": str(topic), "partition": int(number), "replicas": [*replicas]} if all(
                type(replica) is int for replica in replicas
            ):
                tp = TopicPartition(topic, number)
            case _:
                raise ConfigError(f"not topic, partition and replicas: {json.dumps(row)}")
        if tp in targets:
            raise ConfigError(f"the reassignment file names {tp} twice")
        if len(set(replicas)) < len(replicas):
            raise ConfigError(f"the reassignment file names a broker twice for {tp}")
        targets[tp] = tuple(replicas)
        directories |= _directories(row, tp, replicas)
    if not targets:
        raise ConfigError("the reassignment file names no partition")
    return ReassignmentFile(targets, directories)


def _directories(row: Any, tp: TopicPartition, replicas: Replicas) -> dict[Replica, str]:
    """Parse ``log_dirs`` of a row, one entry for each replica. Raises ConfigError."""
    given = row.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
    if not isinstance(given, list) or not all(isinstance(path, str) for path in given):
        raise ConfigError(f"{tp}: log_dirs is no list of directories")
    if len(given) != len(replicas):
        raise ConfigError(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list "
            f"{given} for partition {tp}"
        )
    pairs = zip(replicas, given, strict=True)
    return {Replica(broker, tp): path for broker, path in pairs if path != ANY_DIRECTORY}


def parse_topics(text: str) -> list[str]:
    """Parse the file of ``--topics-to-move-json-file``. Raises ConfigError."""
    topics: list[str] = []
    for row in _rows(text, "topics", "topics"):
        match row:
            case {"topic": str(topic)} if topic not in topics:
                topics.append(topic)
            case {"topic": str(topic)}:
                raise ConfigError(f"the topics file names {topic} twice")
            case _:
                raise ConfigError(f"not a topic: {json.dumps(row)}")
    if not topics:
        raise ConfigError("the topics file names no topic")
    return topics


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse the partitions file of kafka-leader-election. Raises ConfigError."""
    partitions: list[TopicPartition] = []
    for row in _rows(text, "partitions", "partitions"):
        match row:
            case {"topic": str(topic), "partition": int(number)}:
                partitions.append(TopicPartition(topic, number))
            case _:
                raise ConfigError(f"not topic and partition: {json.dumps(row)}")
    if len(set(partitions)) < len(partitions):
        raise ConfigError("the partitions file names a partition twice")
    return partitions


def parse_brokers(text: str) -> list[int]:
    """Parse the broker ids of ``--broker-list``. Raises ConfigError."""
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        raise WrongUsage(f"--broker-list needs ID,ID,..., not {text}") from None
    if len(set(brokers)) < len(brokers):
        raise WrongUsage(f"--broker-list names a broker twice: {text}")
    return brokers


def _rows(text: str, file: str, key: str) -> list[Any]:
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the {file} file is not JSON: {error}") from None
    rows = data.get(key) if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise ConfigError(f'the {file} file has no list "{key}"')
    if data.get("version", VERSION) != VERSION:
        raise ConfigError(f"the {file} file has version {data['version']}, known is {VERSION}")
    return rows


def reassignment_json(replicas: Mapping[TopicPartition, Replicas]) -> str:
    """Format replicas as a reassignment file on one line, as Kafka does."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(replicas[tp]),
            "log_dirs": [ANY_DIRECTORY] * len(replicas[tp]),
        }
        for tp in sorted(replicas)
    ]
    return json.dumps({"version": VERSION, "partitions": rows}, separators=(",", ":"))


# ------------------------------------------------------------------------------------------ lines


def numbers(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))


def plural(text: str, partitions: Sequence[TopicPartition]) -> str:
    """Return ``text`` with ``(s)`` resolved to singular or plural, then the partitions."""
    names = numbers_of(partitions)
    return text.replace("(s)", "" if len(partitions) == 1 else "s") + names


def numbers_of(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(str(tp) for tp in sorted(partitions))


def under_way_lines(found: Mapping[TopicPartition, ReplicaAssignment]) -> list[str]:
    """Return the output lines of ``reassign --list``."""
    if not found:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for tp in sorted(found):
        line = f"{tp}: replicas: {numbers(found[tp].replicas)}."
        if found[tp].adding:
            line += f" adding: {numbers(found[tp].adding)}."
        if found[tp].removing:
            line += f" removing: {numbers(found[tp].removing)}."
        lines.append(line)
    return lines


def is_done(target: Replicas, current: Replicas, moving: bool) -> bool:
    return not moving and tuple(target) == tuple(current)


def status_line(tp: TopicPartition, target: Replicas, current: Replicas, moving: bool) -> str:
    """Return the line of ``reassign --verify`` about one partition."""
    if moving:
        return f"Reassignment of partition {tp} is still in progress."
    if tuple(target) == tuple(current):
        return f"Reassignment of partition {tp} is completed."
    return (
        f"There is no active reassignment of partition {tp}, but replica set is "
        f"{numbers(current)} rather than {numbers(target)}."
    )


def error_lines(head: str, failed: Mapping[TopicPartition, KafkaError]) -> str:
    return "\n".join([head, *(f"{tp}: {failed[tp]}" for tp in sorted(failed))])
