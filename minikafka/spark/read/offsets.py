"""The JSON in which the Kafka connector writes offsets and partitions, in options and checkpoints.

The end offset of a query's first batch also has the query's starting offsets (``with_start``).
Spark stores the end offset of a batch in the checkpoint before it runs the batch, but calls the
source's ``initialOffset`` again if it repeats the first batch after a crash. The official connector
stores its starting offsets in ``<checkpoint>/sources/<n>/0``; a Python data source does not get the
path of the checkpoint. So the starting offsets are the name of an additional "topic" without
partitions. The name has spaces, so no Kafka topic has this name, and readers of the JSON that do
not know it, such as the official connector, find no partition in it.

In the same way each end offset has the ids of its topics (``with_topic_ids``), because a topic that
was deleted and created again has other records at the same offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from minikafka.kernel.cluster import TopicPartition, parse_topic_id, topic_id_text

EARLIEST: Final = -2
LATEST: Final = -1
LARGEST: Final = (1 << 63) - 1  # offset, or timestamp in ms

Offsets: TypeAlias = dict[TopicPartition, int]
TopicIds: TypeAlias = dict[str, UUID]  # by topic; those that a broker gives, so none is zero

_TOPIC_IDS: Final = "topic ids"
_START: Final = "starting offsets"
UNRESOLVED_START: Final[Mapping[str, Any]] = {_START: {}}  # of a query that has no checkpoint yet


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse a JSON list of partitions such as ``{"topic":[0,1]}``. Raises ValueError."""
    shape = '{"topicA":[0,1],"topicB":[0,1]}'
    topics = _parse(text, shape)
    found = []
    for topic, partitions in topics.items():
        if not isinstance(partitions, list) or not all(_is_count(each) for each in partitions):
            raise ValueError(f"expected e.g. {shape}, got {text}")
        found += [TopicPartition(topic, partition) for partition in partitions]
    return sorted(set(found))


def parse_offsets(text: str, lowest: int = EARLIEST) -> Offsets:
    """Parse JSON offsets such as ``{"topic":{"0":23,"1":-2}}``, or timestamps in the same form.

    Raises ValueError, also for a number below ``lowest``."""
    shape = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    return offsets_of(_parse(text, shape), lowest, f"expected e.g. {shape}, got {text}")


def offsets_of(topics: Mapping[str, Any], lowest: int = 0, complaint: str = "") -> Offsets:
    """Return the offsets in a parsed JSON object.

    Raises ValueError, with ``complaint`` if that is set, for another form, or a number below
    ``lowest`` or above ``LARGEST``."""
    offsets = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, Mapping):
            raise ValueError(complaint or f"expected offsets by topic and partition: {topics}")
        for partition, offset in partitions.items():
            is_number = isinstance(offset, int) and not isinstance(offset, bool)
            if not (str(partition).isdecimal() and is_number and lowest <= offset <= LARGEST):
                raise ValueError(complaint or f"expected offsets by topic and partition: {topics}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return dict(sorted(offsets.items()))


def offsets_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return the object for ``json.dumps`` to write the connector's JSON, with topics and
    partitions in order."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def is_unresolved(offset: Mapping[str, Any]) -> bool:
    return offset == UNRESOLVED_START


def with_start(
    end: Mapping[TopicPartition, int], start: Mapping[TopicPartition, int]
) -> dict[str, dict[str, int]]:
    """Return the end offset of a first batch, with its starting offsets in it."""
    return {**offsets_json(end), f"{_START} {json.dumps(offsets_json(start))}": {}}


def with_topic_ids(offset: Mapping[str, Any], topic_ids: Mapping[str, UUID]) -> dict[str, Any]:
    """Return an end offset with the ids of its topics in it. Brokers before 2.8 give no ids."""
    if not topic_ids:
        return dict(offset)
    texts = {topic: topic_id_text(each) for topic, each in sorted(topic_ids.items())}
    return {**offset, f"{_TOPIC_IDS} {json.dumps(texts)}": {}}


def topic_ids_in(offset: Mapping[str, Any]) -> TopicIds:
    """Return the topic ids in an end offset, none if it was written without them.

    Raises ValueError for a malformed entry."""
    for name in offset:
        if name.startswith(f"{_TOPIC_IDS} "):
            texts = json.loads(name.removeprefix(f"{_TOPIC_IDS} "))
            return {topic: parse_topic_id(text) for topic, text in texts.items()}
    return {}


def with_remarks(
    latest: Mapping[TopicPartition, int], remarks: Iterable[str]
) -> dict[str, dict[str, int]]:
    """Return latest offsets with remarks, which the progress of the query shows.

    Each remark is the name of an additional entry without partitions, and has spaces."""
    found = offsets_json(latest)
    for remark in remarks:
        assert " " in remark, "topics have no spaces in their names"
        found[remark] = {}
    return found


def remarks_in(latest: Mapping[str, Any]) -> list[str]:
    """Return the remarks in latest offsets."""
    return [
        name
        for name, partitions in latest.items()
        if " " in name and not partitions and not name.startswith((_START, _TOPIC_IDS))
    ]


def start_in(end: Mapping[str, Any]) -> Offsets | None:
    """Return the starting offsets in the end offset of a first batch, None if it has none."""
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
