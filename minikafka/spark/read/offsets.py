"""The connector's JSON: offsets by topic and partition, and lists of partitions.

The end offset of a query's first batch also holds the query's starting offsets (``with_start``).
Spark stores the end offset of a batch in the checkpoint before it runs the batch, but asks the
source for the start of the first batch again after a crash. The official connector keeps its
starting offsets in ``<checkpoint>/sources/<n>/0``; Spark does not give a Python data source the
path of the checkpoint. The starting offsets are the name of an additional "topic" without
partitions. That name holds spaces, so no Kafka topic has it, and a reader of the offset JSON that
does not know of it, such as the official connector, finds no partition in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from minikafka.kernel.cluster import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1

Offsets: TypeAlias = dict[TopicPartition, int]

_START: Final = "starting offsets"
UNRESOLVED_START: Final[Mapping[str, Any]] = {_START: {}}  # of a query that has no checkpoint yet


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


def is_unresolved(offset: Mapping[str, Any]) -> bool:
    return offset == UNRESOLVED_START


def with_start(
    end: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]
) -> dict[str, dict[str, int]]:
    """The JSON of the end offset of a first batch that begins at ``start``."""
    return {**offsets_json(end), f"{_START} {json.dumps(offsets_json(start))}": {}}


def start_in(end: Mapping[str, Any]) -> Offsets | None:
    """The starting offsets in the JSON of the end offset of a first batch, None without them."""
    for name in end:
        if name.startswith(f"{_START} "):
            return parse_offsets(name.removeprefix(f"{_START} "), lowest=0)
    return None


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
