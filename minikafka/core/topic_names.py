"""The rules for names of topics (Kafka's ``Topic``)."""

from __future__ import annotations

import re

from minikafka.kernel.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249  # leaves room for "-<partition>.<uuid>-delete" in a file name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


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


def may_collide(topic: str) -> bool:
    """Whether another topic could have the same metric names, in which dots become underscores."""
    return "." in topic or "_" in topic


def collide(one: str, other: str) -> bool:
    """Whether two names differ only in dots and underscores."""
    return one.replace(".", "_") == other.replace(".", "_")
