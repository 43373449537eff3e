"""The files that identify log directories and logs: ``meta.properties``, ``partition.metadata``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final
from uuid import UUID

from minikafka.kernel.cluster import parse_topic_id, topic_id_text
from minikafka.kernel.config import ConfigError
from minikafka.kernel.lazy_dataclass import dataclass

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
_VERSION: Final = 0


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
