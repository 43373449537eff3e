"""What a topic may be called (Kafka's ``Topic``)."""

from __future__ import annotations

import re

from minikafka.kernel.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249  # leaves room for "-<partition>.<uuid>-delete" in a file name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(topic: str) -> str | None:
    """What is wrong with the name; None for a good one."""
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
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION)."""
    problem = name_problem(topic)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def may_collide(topic: str) -> bool:
    """Whether another name could mean the same metric: names of metrics turn dots into
    underscores."""
    return "." in topic or "_" in topic


def collide(one: str, other: str) -> bool:
    """Whether two topics differ by nothing but dots against underscores."""
    return one.replace(".", "_") == other.replace(".", "_")
