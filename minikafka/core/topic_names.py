"""The rules for names of topics, partitions and hosts (Kafka's ``Topic``)."""

from __future__ import annotations

import re

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249  # leaves room for "-<partition>.<uuid>-delete" in a file name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
MAX_HOST_LENGTH = 255  # of a name in DNS
MAX_PORT = 65535
_HOST = re.compile(r"[!-.0-~]+")  # printable ASCII except blank and slash


def name_problem(topic: str) -> str | None:
    """Return why the name is invalid, or None for a valid one."""
    if not topic:
        return "the empty string is not allowed"
    if topic in {".", ".."}:
        return f"'{topic}' is not allowed"
    if len(topic) > MAX_NAME_LENGTH:
        return f"the length of '{topic}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.fullmatch(topic):
        return (
            f"'{topic}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def require_valid(topic: str) -> None:
    """Check a topic's name. Raises KafkaError(INVALID_TOPIC_EXCEPTION)."""
    problem = name_problem(topic)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def require_valid_partition(topic_partition: TopicPartition) -> None:
    """Check a partition that a request names, before it becomes a directory or a znode. Raises
    KafkaError(INVALID_TOPIC_EXCEPTION), and KafkaError(INVALID_REQUEST) for a negative number."""
    require_valid(topic_partition.topic)
    if topic_partition.partition < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Partition {topic_partition.partition} is negative"
        )


def address_problem(host: str, port: int) -> str | None:
    """Return why a broker cannot listen at this address, or None. Whether the name resolves is
    another question, which a connection finds out."""
    if len(host) > MAX_HOST_LENGTH or not _HOST.fullmatch(host):
        return f"{host[:MAX_HOST_LENGTH]!r} is no host"
    if not 0 <= port <= MAX_PORT:
        return f"{port} is no port"
    return None


def may_collide(topic: str) -> bool:
    """Whether another topic could have the same metric names, in which dots become underscores."""
    return "." in topic or "_" in topic


def metric_name(topic: str) -> str:
    """Return the topic's name in metrics. Two topics collide if it is the same."""
    return topic.replace(".", "_")
