"""The cluster as a check sees it: requests in the versions that are offered, topics and groups with
names that nobody else has, and the steps that many checks begin with."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self
from uuid import UUID

from minikafka.core.config_resources import ResourceType
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import version_range
from minikafka.protocol.records.batch import RecordBatch, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.record import Record, decode_batch
from minikafka.testing.conformance.connection import Connection
from minikafka.testing.conformance.expectations import Broken, NotOffered, accepted, named

PAUSE_S = 0.05
TIMEOUT_MS = 10_000
MAX_BYTES = 16 << 20
EARLIER_MS = 60_000
# A request is sent in a version of this range, both ends included; a number is the lowest one.
Versions = int | tuple[int, int]
NO_LIMIT = 1 << 15
FIRST_FETCH_IN_4, FIRST_PRODUCE_IN_4 = 4, 3
# The errors of a coordinator that is about to serve: ask again.
NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class Address(NamedTuple):
    host: str
    port: int


class Topic(NamedTuple):
    """A topic of a check. ``topic_id`` is zero where the cluster has no ids. ``leaders`` has the
    id of each partition's leader."""

    name: str
    topic_id: UUID
    leaders: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TriedCluster:
    """What is known of the cluster before the checks, at ``now_ms``: the versions of each API by
    its number, the addresses of the brokers, and the finalized features with their levels."""

    now_ms: int
    bootstrap: Address
    offered: Mapping[int, tuple[int, int]]
    brokers: Mapping[int, Address]
    controller_id: int
    features: Mapping[str, int]

    @classmethod
    async def learn(cls, bootstrap: Address, now_ms: int) -> Self:
        """Ask the broker at ``bootstrap``. Raises OSError and Broken."""
        connection = await Connection.open(*bootstrap)
        try:
            listed = accepted(await connection.ask(ApiKey.API_VERSIONS, 0))
            offered = {
                each.api_key: (each.min_version, each.max_version) for each in listed.api_keys
            }
            highest = min(offered[ApiKey.API_VERSIONS][1], ApiKey.API_VERSIONS.max_version)
            features: dict[str, int] = {}
            if highest >= 3:
                software = {"client_software_name": "conformance", "client_software_version": "1"}
                again = accepted(await connection.ask(ApiKey.API_VERSIONS, highest, **software))
                features = {each.name: each.max_version_level for each in again.finalized_features}
            version = min(offered[ApiKey.METADATA][1], ApiKey.METADATA.max_version)
            found = await connection.ask(ApiKey.METADATA, version, topics=[])
        finally:
            connection.close()
        brokers = {each.node_id: Address(each.host, each.port) for each in found.brokers}
        return cls(now_ms, bootstrap, offered, brokers, found.controller_id, features)

    def versions(self, key: ApiKey) -> range:
        """The versions of an API that the cluster and this package have."""
        lowest, highest = self.offered.get(key, (0, -1))
        ours = version_range(key)
        if key is ApiKey.PRODUCE and self.offered[ApiKey.FETCH][0] >= FIRST_FETCH_IN_4:
            lowest = FIRST_PRODUCE_IN_4  # older ones are listed, but not served (KAFKA-18659)
        return range(max(lowest, ours[0]), min(highest, ours[1]) + 1)


class Subject:
    """What one check works with. ``name`` is unique; everything that the check makes begins with
    it. ``clean`` deletes the topics and groups, and closes the connections."""

    def __init__(self, cluster: TriedCluster, name: str) -> None:
        self.cluster = cluster
        self._name = name
        self._numbers = itertools.count()
        self._cached: dict[Address, Connection] = {}
        self._opened: list[Connection] = []
        self._topics: list[str] = []
        self._groups: list[str] = []
        self._endings: list[Callable[[], Awaitable[object]]] = []

    # ------------------------------------------------------------------------------ requests

    def version(self, key: ApiKey, versions: Versions = 0) -> int:
        """Return the highest version offered within ``versions``. Raises NotOffered."""
        return self.all_versions(key, versions)[-1]

    def all_versions(self, key: ApiKey, versions: Versions = 0) -> range:
        """Return the versions offered within ``versions``. Raises NotOffered without any."""
        low, high = versions if isinstance(versions, tuple) else (versions, NO_LIMIT)
        offered = self.cluster.versions(key)
        found = range(max(low, offered.start), min(high + 1, offered.stop))
        if not found:
            wanted = f"version {low}" if low == high else f"version {low} or later"
            raise NotOffered(f"{key.api_name} {wanted}", key, (low, high))
        return found

    async def ask(
        self, key: ApiKey, versions: Versions = 0, at: Connection | None = None, /, **fields: Any
    ) -> Any:
        """Send a request in the highest version within ``versions`` and return the response.
        ``at`` is the connection, that of the first broker if None. Raises NotOffered, Broken."""
        version = self.version(key, versions)
        connection = at or await self.connected(self.cluster.bootstrap)
        return await connection.ask(key, version, **fields)

    async def connected(self, address: Address) -> Connection:
        """Return this check's connection to a broker."""
        if address not in self._cached:
            self._cached[address] = await self.connect(address)
        return self._cached[address]

    async def connect(self, address: Address | None = None) -> Connection:
        """Open one more connection, to the first broker if ``address`` is None."""
        connection = await Connection.open(*(address or self.cluster.bootstrap))
        self._opened.append(connection)
        return connection

    async def broker(self, broker_id: int) -> Connection:
        return await self.connected(self.cluster.brokers[broker_id])

    async def controller(self) -> Connection:
        """The broker for requests that only the controller of ZooKeeper mode serves."""
        address = self.cluster.brokers.get(self.cluster.controller_id, self.cluster.bootstrap)
        return await self.connected(address)

    async def leader(self, topic: Topic, partition: int = 0) -> Connection:
        return await self.broker(topic.leaders[partition])

    async def coordinator(self, key: str, key_type: int = 0) -> Connection:
        """The coordinator of a group, or of a transactional id with ``key_type`` 1."""
        return await self.connected(await self.coordinator_address(key, key_type))

    async def coordinator_address(self, key: str, key_type: int = 0) -> Address:
        version = self.version(ApiKey.FIND_COORDINATOR, 1 if key_type else 0)
        while True:
            fields: dict[str, Any] = {"key_type": key_type} if version else {}
            fields |= {"coordinator_keys": [key]} if version >= 4 else {"key": key}
            found = await self.ask(ApiKey.FIND_COORDINATOR, (version, version), **fields)
            row = found.coordinators[0] if version >= 4 else found
            if row.error_code == 0:
                return Address(row.host, row.port)
            if row.error_code not in NOT_YET:
                raise Broken(f"FindCoordinator has the error {named(row.error_code)}")
            await pause()

    async def ask_coordinator(
        self, key: ApiKey, versions: Versions, of: str, key_type: int = 0, /, **fields: Any
    ) -> Any:
        """Send a request to a coordinator, again while it cannot serve yet."""
        while True:
            at = await self.coordinator(of, key_type)
            response = await self.ask(key, versions, at, **fields)
            if getattr(response, "error_code", 0) not in NOT_YET:
                return response
            await pause()

    # ------------------------------------------------------------------------------- topics

    def name(self) -> str:
        """Return a new name, for a topic or anything else that is not deleted."""
        return f"{self._name}-{next(self._numbers)}"

    def group(self) -> str:
        """Return the id of a new group."""
        self._groups.append(self.name())
        return self._groups[-1]

    def will_delete(self, topic: str) -> str:
        """Delete a topic after the check, if it exists then."""
        self._topics.append(topic)
        return topic

    async def create(self, name: str, versions: Versions = 0, /, **fields: Any) -> Any:
        """Send CreateTopics for one topic, and return the result of it. The row has one partition
        and one replica unless ``fields`` says otherwise; of these, ``validate_only`` belongs to the
        request."""
        self.will_delete(name)
        request = {"timeout_ms": TIMEOUT_MS}
        if "validate_only" in fields:
            request["validate_only"] = fields.pop("validate_only")
        row = {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}
        at = await self.controller()
        response = await self.ask(ApiKey.CREATE_TOPICS, versions, at, topics=[row], **request)
        return response.topics[0]

    async def topic(self, partitions: int = 1, /, **configs: object) -> Topic:
        """Create a topic with one replica and return it when all its leaders are known. In the
        names of ``configs`` an underscore stands for a dot. Without CreateTopics the topic is
        created by Metadata, if it needs no configs."""
        name = self.will_delete(self.name())
        is_created = ApiKey.CREATE_TOPICS in self.cluster.offered
        if is_created or configs:
            rows = [{"name": k.replace("_", "."), "value": str(v)} for k, v in configs.items()]
            accepted(await self.create(name, num_partitions=partitions, configs=rows))
        return await self.led(name, partitions, allow_auto_topic_creation=not is_created)

    async def led(self, name: str, partitions: int = 1, **fields: Any) -> Topic:
        """Wait until every partition of a topic has a leader that serves it."""
        while True:
            # Before version 4 every request may create topics.
            request = fields if self.version(ApiKey.METADATA) >= 4 else {}
            found = await self.ask(ApiKey.METADATA, topics=[{"name": name}], **request)
            (row,) = found.topics
            leaders = {each.partition_index: each.leader_id for each in row.partitions}
            ready = not row.error_code and all(
                each.error_code == 0 and each.leader_id in self.cluster.brokers
                for each in row.partitions
            )
            if ready and len(leaders) >= partitions:
                ids = tuple(leaders[i] for i in sorted(leaders))
                topic = Topic(name, row.topic_id or ZERO_UUID, ids)
                if await self._is_served(topic) and await self._is_known(topic):
                    return topic
            await pause()

    async def _is_served(self, topic: Topic) -> bool:
        """Whether the leaders know that they lead, which the metadata may say before."""
        for partition, leader in enumerate(topic.leaders):
            row = {"partition_index": partition, "timestamp": -1}
            rows = [{"name": topic.name, "partitions": [row]}]
            at = await self.broker(leader)
            found = await self.ask(ApiKey.LIST_OFFSETS, 1, at, topics=rows, replica_id=-1)
            if found.topics[0].partitions[0].error_code:
                return False
        return True

    async def _is_known(self, topic: Topic) -> bool:
        """Whether every broker has the topic and its id in its metadata, which come to it last."""
        fields = {"allow_auto_topic_creation": False}
        request = fields if self.version(ApiKey.METADATA) >= 4 else {}
        for broker_id in self.cluster.brokers:
            at = await self.broker(broker_id)
            rows = [{"name": topic.name}]
            found = await self.ask(ApiKey.METADATA, 0, at, topics=rows, **request)
            (row,) = found.topics
            if row.error_code or (row.topic_id or ZERO_UUID) != topic.topic_id:
                return False
        return True

    async def set_config(self, kind: ResourceType, name: str, key: str, value: str) -> None:
        row = {"name": key, "config_operation": 0, "value": value}
        resource = {"resource_type": kind, "resource_name": name, "configs": [row]}
        at = await self.controller()
        accepted(await self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, at, resources=[resource]))

    # ------------------------------------------------------------------------------ records

    @property
    def time_ms(self) -> int:
        """A time shortly before the checks: records of it are neither too old nor too new."""
        return self.cluster.now_ms - EARLIER_MS

    def batch(self, *values: bytes | None, **fields: Any) -> bytes:
        """Return a batch of records with these values, no keys, and times that rise by one from
        ``time_ms`` on."""
        records = [(self.time_ms + i, None, value, ()) for i, value in enumerate(values)]
        return build_batch(records, **fields)

    async def produce(
        self, topic: Topic, *values: bytes | None, versions: Versions = 3, **options: Any
    ) -> Any:
        """Produce the values as one batch, and return the base offset. Raises Broken for an
        error. ``options`` are those of ``try_produce``."""
        result = await self.try_produce(topic, *values, versions=versions, **options)
        if result.error_code:
            raise Broken(f"Produce has the error {named(result.error_code)}")
        return result.base_offset

    async def try_produce(
        self,
        topic: Topic,
        *values: bytes | None,
        partition: int = 0,
        versions: Versions = 3,
        data: bytes | None = None,
        acks: int = -1,
        transactional_id: str | None = None,
        at: Connection | None = None,
        **batch: Any,
    ) -> Any:
        """Produce a batch of the values, or ``data``, and return the response of the partition.
        ``batch`` are fields of the batch header."""
        rows = topic_rows(topic, "name", "partition_data", [
            {"index": partition, "records": self.batch(*values, **batch) if data is None else data}
        ])  # fmt: skip
        request: dict[str, Any] = {"acks": acks, "timeout_ms": TIMEOUT_MS, "topic_data": rows}
        if transactional_id is not None:
            request["transactional_id"] = transactional_id
        at = at or await self.leader(topic, partition)
        response = await self.ask(ApiKey.PRODUCE, versions, at, **request)
        return response.responses[0].partition_responses[0]

    async def fetch(
        self,
        topic: Topic,
        offset: int = 0,
        versions: Versions = 4,
        partition: int = 0,
        at: Connection | None = None,
        row: Mapping[str, Any] | None = None,
        **request: Any,
    ) -> Any:
        """Fetch one partition without a session, and return its part of the response. ``row`` are
        more fields of the partition, ``request`` those of the request."""
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": MAX_BYTES}
        rows = topic_rows(topic, "topic", "partitions", [{**asked, **(row or {})}])
        request = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MAX_BYTES, **request}
        at = at or await self.leader(topic, partition)
        response = await self.ask(ApiKey.FETCH, versions, at, topics=rows, **request)
        return response.responses[0].partitions[0]

    async def batches(self, topic: Topic, offset: int = 0, **options: Any) -> list[RecordBatch]:
        """Return all batches from an offset on. A response may have less. Raises Broken for an
        error."""
        found: list[RecordBatch] = []
        while True:
            partition = await self.fetch(topic, offset, **options)
            found += batches_in(partition)
            if not found or not offset < found[-1].next_offset < partition.high_watermark:
                return found
            offset = found[-1].next_offset

    async def list_offset(
        self, topic: Topic, timestamp: int, versions: Versions = 1, /, **options: Any
    ) -> Any:
        """Return the ListOffsets response of a partition. ``options`` are fields of its row, or
        ``isolation_level``."""
        request = {"replica_id": -1}
        if "isolation_level" in options:
            request["isolation_level"] = options.pop("isolation_level")
        row = {"partition_index": 0, "timestamp": timestamp, **options}
        at = await self.leader(topic)
        topics = [{"name": topic.name, "partitions": [row]}]
        response = await self.ask(ApiKey.LIST_OFFSETS, versions, at, topics=topics, **request)
        return response.topics[0].partitions[0]

    async def end_offset(self, topic: Topic) -> int:
        return int(accepted(await self.list_offset(topic, -1)).offset)

    # --------------------------------------------------------------------------------- end

    def at_end(self, ending: Callable[[], Awaitable[object]]) -> None:
        """Call ``ending`` after the check: a group with members cannot be deleted."""
        self._endings.append(ending)

    async def clean(self) -> None:
        """Delete what the check has made, as far as the cluster can, and close the connections."""
        try:
            await self._delete()
        finally:
            for connection in self._opened:
                connection.close()

    async def _delete(self) -> None:
        for ending in self._endings:
            await ending()
        if self._topics and ApiKey.DELETE_TOPICS in self.cluster.offered:
            version = self.version(ApiKey.DELETE_TOPICS)
            names = [{"name": name} for name in self._topics]
            listed = {"topics": names} if version >= 6 else {"topic_names": self._topics}
            at = await self.connect(self.cluster.brokers.get(self.cluster.controller_id))
            await self.ask(ApiKey.DELETE_TOPICS, 0, at, **listed, timeout_ms=TIMEOUT_MS)
        if self._groups and ApiKey.DELETE_GROUPS in self.cluster.offered:
            for group in self._groups:
                at = await self.connect(await self.coordinator_address(group))
                await self.ask(ApiKey.DELETE_GROUPS, 0, at, groups_names=[group])


async def pause() -> None:
    """Wait a little before the next question. The time limit of the check ends the asking."""
    await asyncio.sleep(PAUSE_S)


def topic_rows(
    topic: Topic, name_field: str, list_field: str, rows: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the only topic of a request, with its name and its id: the version decides which of
    them is sent."""
    return [{name_field: topic.name, "topic_id": topic.topic_id, list_field: list(rows)}]


def batches_in(partition: Any) -> list[RecordBatch]:
    """Return the batches of a partition's part of a Fetch response. Raises Broken for an error."""
    if partition.error_code:
        raise Broken(f"Fetch has the error {named(partition.error_code)}")
    return parse_batches(partition.records or b"")


def records_in(batches: Iterable[RecordBatch]) -> list[Record]:
    """Return the records of batches, without control records."""
    return [record for batch in batches if not batch.is_control for record in decode_batch(batch)]


def values_in(batches: Iterable[RecordBatch]) -> list[bytes | None]:
    return [None if r.value is None else bytes(r.value) for r in records_in(batches)]


def expect_open(offered: bool, feature: str) -> None:
    """Raise NotOffered if a feature is switched off."""
    if not offered:
        raise NotOffered(feature)
