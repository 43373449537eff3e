"""The small text files of a log directory: checkpoints of offsets and leader epochs, and the files
that identify log directories and logs (``meta.properties``, ``partition.metadata``).

    0                      version
    2                      number of lines that follow
    topic 0 42             or, in leader-epoch-checkpoint: epoch and start offset
    topic 1 7

Kafka: ``CheckpointFile``, ``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Final
from uuid import UUID

from minikafka.core.log.leader_epochs import EpochEntry
from minikafka.core.log.names import MAX_OFFSET
from minikafka.kernel.cluster import TopicPartition, parse_topic_id, topic_id_text
from minikafka.kernel.config import ConfigError
from minikafka.kernel.lazy_dataclass import dataclass

REPLICATION_OFFSET: Final = "replication-offset-checkpoint"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH: Final = "leader-epoch-checkpoint"

_VERSION: Final = 0
_DECIMAL: Final = re.compile(r"[0-9]{1,19}")


class CheckpointError(ValueError):
    """The bytes are not those of a checkpoint file."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode a checkpoint of offsets, in their order: a sort would take longer than all the rest,
    and a broker of many partitions encodes its checkpoint for each deletion of records."""
    return encode_rows([offset_row(each, offset) for each, offset in offsets.items()])


def offset_row(topic_partition: TopicPartition, offset: int) -> str:
    """Encode a row of a checkpoint of offsets, for ``encode_rows``."""
    topic, partition = topic_partition
    return f"{topic} {partition} {offset}"


class OffsetRows:
    """The rows of a checkpoint of offsets, and those that its file has.

    Each row is encoded when its offset is set. To join 25,000 of them takes one or two
    milliseconds, to encode them thirty."""

    def __init__(self) -> None:
        self._rows: dict[TopicPartition, str] = {}
        self._in_file: dict[TopicPartition, str] = {}

    def set(self, topic_partition: TopicPartition, offset: int) -> None:
        self._rows[topic_partition] = offset_row(topic_partition, offset)

    def remove(self, topic_partition: TopicPartition) -> None:
        self._rows.pop(topic_partition, None)

    def get(self, topic_partition: TopicPartition) -> int | None:
        return _offset_of(self._rows.get(topic_partition))

    def in_file(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset that the file has."""
        return _offset_of(self._in_file.get(topic_partition))

    def was_read(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Call this with what the file has."""
        self._in_file = {each: offset_row(each, offset) for each, offset in offsets.items()}

    def write(self, replace: Callable[[bytes], None]) -> None:
        """Let ``replace`` write the file. Raises what it raises."""
        replace(encode_rows(list(self._rows.values())))
        self._in_file = dict(self._rows)


def _offset_of(row: str | None) -> int | None:
    return None if row is None else int(row.rpartition(" ")[2])


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Decode a checkpoint of offsets. Raises CheckpointError."""
    offsets = {}
    for topic, partition, offset in _decode(data, fields=3):
        offsets[TopicPartition(topic, _number(partition))] = _number(offset)
    return offsets


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    return encode_rows([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def decode_epochs(data: bytes) -> list[EpochEntry]:
    """Decode a leader epoch checkpoint.

    Raises CheckpointError, also if epochs or offsets do not increase."""
    entries = [EpochEntry(_number(e), _number(o)) for e, o in _decode(data, fields=2)]
    for before, after in pairwise(entries):
        if before.epoch >= after.epoch or before.start_offset > after.start_offset:
            raise CheckpointError(f"epoch {after} after {before}")
    return entries


def encode_rows(rows: Sequence[str]) -> bytes:
    """Encode a checkpoint of whole rows."""
    return "\n".join((str(_VERSION), str(len(rows)), *rows, "")).encode()


def _decode(data: bytes, fields: int) -> list[list[str]]:
    """Return the fields of each line. An empty file has no lines: Kafka creates an empty file
    before it writes a checkpoint for the first time. Raises CheckpointError."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"not a text: {error}") from error
    if not lines:
        return []
    if not data.endswith(b"\n"):
        raise CheckpointError("the last line is incomplete")
    if _number(lines[0]) != _VERSION:
        raise CheckpointError(f"unknown version {lines[0]}")
    if len(lines) < 2 or _number(lines[1]) != len(lines) - 2:
        expected = lines[1] if len(lines) > 1 else "a number"
        raise CheckpointError(f"{len(lines) - 2} entries, but the second line says {expected}")
    rows = [line.split() for line in lines[2:]]
    for row in rows:
        if len(row) != fields:
            raise CheckpointError(f"malformed line {' '.join(row)!r}")
    return rows


def _number(text: str) -> int:
    """Raises CheckpointError, also for numbers that no partition, epoch or offset can be."""
    if not _DECIMAL.fullmatch(text) or int(text) > MAX_OFFSET:
        raise CheckpointError(f"{text[:100]!r} is not a number")
    return int(text)


META_PROPERTIES: Final = "meta.properties"
_META_PROPERTIES_VERSION: Final = "version"
_BROKER_ID: Final = "broker.id"
_NODE_ID: Final = "node.id"  # the name in version 1 (KRaft)
_BROKER_ID_TEXT: Final = re.compile(r"[0-9]{1,10}")
_CLUSTER_ID: Final = "cluster.id"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The contents of ``meta.properties``. ``others`` are unknown properties, which are kept."""

    broker_id: int | None = None
    cluster_id: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)

    def claimed_by(self, broker_id: int, cluster_id: str) -> MetaProperties:
        """Return the properties with this broker id and cluster id. Raises ConfigError if they have
        others."""
        if self.broker_id not in (None, broker_id):
            raise ConfigError(
                f"broker.id {broker_id} does not match the broker.id {self.broker_id} in "
                f"{META_PROPERTIES}: give the broker its own log.dirs, or its old id"
            )
        if self.cluster_id not in (None, cluster_id):
            raise ConfigError(
                f"the cluster id {cluster_id} does not match the cluster id {self.cluster_id} in "
                f"{META_PROPERTIES}: zookeeper.connect may be wrong"
            )
        return replace(self, broker_id=broker_id, cluster_id=cluster_id)


def encode_meta_properties(meta: MetaProperties) -> bytes:
    known = {
        _META_PROPERTIES_VERSION: "0",
        _BROKER_ID: meta.broker_id,
        _CLUSTER_ID: meta.cluster_id,
    }
    rows = {k: v for k, v in known.items() if v is not None} | dict(meta.others)
    return "".join(f"{key}={value}\n" for key, value in rows.items()).encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    """Decode ``meta.properties``. Raises ConfigError."""
    rows: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            key, _, value = line.partition("=")
            rows[key.strip()] = value.strip().replace("\\", "")
    rows.pop(_META_PROPERTIES_VERSION, None)
    broker_id = rows.pop(_BROKER_ID, None) or rows.pop(_NODE_ID, None)
    cluster_id = rows.pop(_CLUSTER_ID, None)
    if broker_id is not None and not _BROKER_ID_TEXT.fullmatch(broker_id):
        raise ConfigError(f"{_BROKER_ID} {broker_id[:100]!r} in {META_PROPERTIES} is not a number")
    return MetaProperties(None if broker_id is None else int(broker_id), cluster_id, rows)


PARTITION_METADATA: Final = "partition.metadata"


class PartitionMetadataError(ValueError):
    """The bytes are not those of a ``partition.metadata`` file."""


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> UUID:
    """Return the topic id in a ``partition.metadata`` file. Raises PartitionMetadataError."""
    try:
        lines = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if int(lines["version"]) != _VERSION:
            raise PartitionMetadataError(f"unknown version {lines['version']}")
        return parse_topic_id(lines["topic_id"])
    except (ValueError, KeyError) as error:
        raise PartitionMetadataError(f"malformed: {error}") from error
