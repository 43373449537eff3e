"""The connector's JSON: offsets by topic and partition, and lists of partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from minikafka.kernel.cluster import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

Offsets: TypeAlias = dict[TopicPartition, int]


def parse_partitions(text: str) -> list[TopicPartition]:
    """``{"topic":[0,1]}``. Raises ValueError."""
    shape = '{"topicA":[0,1],"topicB":[0,1]}'
    topics = _parse(text, shape)
    found = []
    for topic, partitions in topics.items():
        if not isinstance(partitions, list) or not all(_is_count(each) for each in partitions):
            raise ValueError(f"expected e.g. {shape}, got {text}")
        found += [TopicPartition(topic, partition) for partition in partitions]
    return sorted(set(found))


def parse_offsets(text: str, lowest: int = EARLIEST) -> Offsets:
    """``{"topic":{"0":23,"1":-2}}``: numbers from ``lowest`` on. Raises ValueError."""
    shape = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    return offsets_of(_parse(text, shape), lowest, f"expected e.g. {shape}, got {text}")


def offsets_of(topics: Mapping[str, Any], lowest: int = 0, complaint: str = "") -> Offsets:
    """Of the parsed JSON, as a checkpoint has it. Raises ValueError."""
    offsets = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(complaint or f"no offsets: {topics}")
        for partition, offset in partitions.items():
            is_number = isinstance(offset, int) and not isinstance(offset, bool)
            if not (str(partition).isdecimal() and is_number and offset >= lowest):
                raise ValueError(complaint or f"no offsets: {topics}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return dict(sorted(offsets.items()))


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """What ``json.dumps`` makes the connector's text of: topics and partitions in order."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parse(text: str, shape: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ValueError(f"expected e.g. {shape}, got {text}")
    return parsed
