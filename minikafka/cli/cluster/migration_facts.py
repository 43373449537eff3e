"""Gather the facts of a migration from brokers, from ZooKeeper and from local log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from minikafka.client.admin.admin import Admin
from minikafka.client.admin.broker_calls import call_broker
from minikafka.core.client.admin.configs import ConfigValue
from minikafka.core.client.admin.replicas import LogDirDescription
from minikafka.core.client.admin.topics import describe_topics
from minikafka.core.client.cluster_view import Node, PartitionView
from minikafka.core.config_resources import SOFTWARE_VERSION, ConfigSource, ResourceType
from minikafka.core.migration.facts import (
    BrokerFacts,
    ClusterFacts,
    DirectoryFacts,
    Kind,
    ZookeeperFacts,
    kafka_releases,
    settled,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Coordination
from minikafka.kernel.zookeeper_security import UNSECURED, CoordinationSecurity
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import Requests

TOPICS_PER_REQUEST: Final = 500
ZOOKEEPER_TIMEOUT_MS: Final = 10_000
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
MAGIC_AT: Final = 16  # of a record batch, and of a message set
FIRST_BATCH_FORMAT: Final = 2


async def gather(
    admin: Admin,
    coordination: Coordination,
    zookeeper: str | None,
    directories: Sequence[DirectoryFacts] = (),
    security: CoordinationSecurity = UNSECURED,
) -> ClusterFacts:
    """Return the facts of a cluster as they are now. ``zookeeper`` is its zookeeper.connect.

    Raises KafkaError, and CoordinationError if ZooKeeper does not respond.
    """
    in_zookeeper = None
    if zookeeper is not None:
        in_zookeeper = await read_zookeeper(coordination, zookeeper, security)
    # Before the partitions: one whose reassignment ends meanwhile would be seen with old and new
    # replicas, and without a reassignment.
    reassigning = await _reassigning(admin)
    if reassigning is None and in_zookeeper is not None:
        reassigning = frozenset()  # the znode tells
    cluster = await admin.describe_cluster()
    brokers = await asyncio.gather(*(describe_broker(admin, node) for node in cluster.nodes))
    views = await _partitions(admin, [b.broker_id for b in brokers if not b.silence])
    partitions, unsettled = settled(views)
    topics = sorted({tp.topic for tp in partitions})
    return ClusterFacts(
        cluster.controller_id,
        {broker.broker_id: broker for broker in brokers},
        partitions,
        await _topic_settings(admin, topics),
        reassigning,
        unsettled,
        in_zookeeper,
        tuple(directories),
        (await admin.describe_features()).finalized,
    )


async def describe_broker(admin: Admin, node: Node) -> BrokerFacts:
    """Return the facts of one broker; an error of it is its ``silence``."""
    address = f"{node.host}:{node.port}"
    try:
        rows = await admin.describe_configs(ResourceType.BROKER, str(node.id))
        found = (await admin.describe_log_dirs([node.id]))[node.id]
    except KafkaError as error:
        return BrokerFacts(node.id, Kind.UNKNOWN, address=address, silence=str(error))
    kind = kind_of(rows)
    if kind is Kind.MINIKAFKA:
        release = rows[SOFTWARE_VERSION].value or ""
    else:
        versions = admin.session.connections.versions(node.id)
        release = kafka_releases(versions.get(ApiKey.FETCH, (0, 0))[1])
    return BrokerFacts(
        node.id,
        kind,
        release,
        address,
        {name: row.value for name, row in rows.items() if row.value is not None},
        {
            name: row.value
            for name, row in rows.items()
            if row.value is not None and row.source is not ConfigSource.DEFAULT_CONFIG
        },
        in_file(rows),
        tuple(sorted(path for path, row in found.items() if row.error is not ErrorCode.NONE)),
        usable_bytes(found.values()),
        {
            tp: replica.size_bytes
            for row in found.values()
            for tp, replica in row.replicas.items()
            if not replica.is_future
        },
    )


def usable_bytes(directories: Iterable[LogDirDescription]) -> int | None:
    """Return what can still be written to the volumes of a broker; None if the broker does not tell
    (Kafka before 3.3). Directories with the same figures count as one volume."""
    online = [row for row in directories if row.error is ErrorCode.NONE]
    volumes = {(row.total_bytes, row.usable_bytes) for row in online}
    if any(usable < 0 for _, usable in volumes):
        return None
    return sum(usable for _, usable in volumes)


def kind_of(rows: Mapping[str, ConfigValue]) -> Kind:
    """Return the kind of a broker that has these settings."""
    row = rows.get(SOFTWARE_VERSION)
    return Kind.KAFKA if row is None or row.value is None else Kind.MINIKAFKA


def in_file(rows: Mapping[str, ConfigValue]) -> dict[str, str | None]:
    """Return the settings of a broker's server.properties."""
    return {
        synonym: value
        for row in rows.values()
        for synonym, value, source in row.synonyms
        if source is ConfigSource.STATIC_BROKER_CONFIG
    }


async def _partitions(
    admin: Admin, broker_ids: Sequence[int]
) -> list[dict[TopicPartition, PartitionView]]:
    """Return the partitions as each broker shows them. Raises KafkaError."""
    session, call = admin.session, describe_topics(None)
    deadline_ms = session.deadline_ms()
    found = await asyncio.gather(*(call_broker(session, b, call, deadline_ms) for b in broker_ids))
    return [
        {
            TopicPartition(topic.name, number): view
            for topic in topics
            for number, view in topic.partitions.items()
        }
        for topics in found
    ]


async def _topic_settings(admin: Admin, names: Sequence[str]) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        found |= await admin.topic_configs(names[start : start + TOPICS_PER_REQUEST])
    return found


async def _reassigning(admin: Admin) -> frozenset[TopicPartition] | None:
    try:
        return frozenset(await admin.list_partition_reassignments())
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return None


# ------------------------------------------------------------------------------------- ZooKeeper


async def read_zookeeper(
    coordination: Coordination, connect: str, security: CoordinationSecurity = UNSECURED
) -> ZookeeperFacts:
    """Raises CoordinationError."""
    limit_ms = ZOOKEEPER_TIMEOUT_MS
    session = await coordination.open(connect, limit_ms, limit_ms, security)
    try:
        requests = Requests(session)
        migration = await requests.exists("/migration")
        reassignment = await requests.exists(paths.REASSIGN_PARTITIONS)
        return ZookeeperFacts(migration is not None, reassignment is not None)
    finally:
        await session.close()


# ----------------------------------------------------------------------------------- directories


def read_directory(path: Path) -> DirectoryFacts:
    """Return the facts of a stopped broker's log directory on this machine. Raises OSError."""
    if not path.is_dir():
        return DirectoryFacts(str(path), exists=False)
    segments = sorted(path.glob("*/*.log"))
    old = tuple(str(segment.relative_to(path)) for segment in segments if _is_old(segment))
    return DirectoryFacts(str(path), True, (path / CLEAN_SHUTDOWN).exists(), old)


def _is_old(segment: Path) -> bool:
    """Return whether a segment begins with a message set. Formats only rise within a log."""
    with segment.open("rb") as file:
        head = file.read(MAGIC_AT + 1)
    return len(head) > MAGIC_AT and head[MAGIC_AT] < FIRST_BATCH_FORMAT
