"""The admin client: creates, grows, describes and deletes topics; describes the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from minikafka.client.admin.broker_calls import server_timeout_ms
from minikafka.client.admin.configs import ConfigAdmin
from minikafka.client.admin.groups import GroupAdmin
from minikafka.client.admin.log_dirs import (
    LogDirDescription,
    alter_replica_log_dirs,
    describe_log_dirs,
)
from minikafka.client.admin.placement import PlacementAdmin
from minikafka.client.admin.record_deletion import DeletionOutcome, delete_records
from minikafka.client.admin.transactions import TransactionAdmin
from minikafka.client.config import ClientConfig
from minikafka.client.offsets import list_offsets
from minikafka.client.session import Client
from minikafka.core.client.calls import error_of, raise_for
from minikafka.core.client.cluster_view import Node, TopicView, metadata_request, topic_view
from minikafka.core.client.offsets import OffsetAndTimestamp
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.schema import Message

__all__ = ["Admin", "ClusterDescription", "CreatedTopic", "NewTopic"]

R = TypeVar("R")

BROKER_DEFAULT = -1

# Errors of single topics that are retried. Others are final even if the table calls them retriable,
# for example UNKNOWN_TOPIC_OR_PARTITION for a topic to be deleted.
_RETRIED = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Counts of -1 stand for the broker's defaults.

    With ``assignments`` (broker ids by partition, the preferred leader first) the counts stay
    -1.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Iterable[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The outcome of a creation. Old brokers return only the name."""

    name: str
    topic_id: UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str | None
    controller_id: int  # -1: none
    nodes: tuple[Node, ...]


CreateOutcome: TypeAlias = CreatedTopic | KafkaError
DescribeOutcome: TypeAlias = TopicView | KafkaError


class Admin(Client, ConfigAdmin, PlacementAdmin, GroupAdmin, TransactionAdmin):
    """The admin client: topics, records and the cluster; base classes add the other subjects.

    Calls are retried after retriable errors until ``timeout_ms`` (``default_api_timeout_ms`` by
    default). Calls for several topics return an outcome for each; calls for one topic raise its
    KafkaError.
    """

    def __init__(self, world: World, config: ClientConfig) -> None:
        super().__init__(world, config)
        self._closed = False

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self.session.close()

    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, CreateOutcome]:
        """Create topics. Their partitions may get leaders a little later: ``wait_for_topic``.

        When a response was lost, the retry may find a topic that the first attempt has created:
        TOPIC_ALREADY_EXISTS.
        """
        wanted = {topic.name: topic for topic in topics}

        def request(names: Sequence[str], server_timeout_ms: int) -> Message:
            rows = [_creatable(wanted[name]) for name in names]
            return CreateTopicsRequest(rows, server_timeout_ms, validate_only)

        def read(response: CreateTopicsResponse) -> dict[str, CreateOutcome]:
            return {row.name: _created(row) for row in response.topics}

        return await self._change_topics(wanted, request, read, timeout_ms)

    async def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> CreatedTopic:
        """Create one topic. Raises KafkaError."""
        topic = NewTopic(name, partitions, replication_factor, configs=configs or {})
        outcome = (await self.create_topics([topic], timeout_ms=timeout_ms))[name]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def delete_topics(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Delete topics. The outcome is None for topics that are deleted or being deleted."""

        def request(names: Sequence[str], server_timeout_ms: int) -> Message:
            return DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in names],
                topic_names=list(names),
                timeout_ms=server_timeout_ms,
            )

        def read(response: DeleteTopicsResponse) -> dict[str, KafkaError | None]:
            return {
                row.name or "": error_of(row.error_code, row.error_message)
                for row in response.responses
            }

        return await self._change_topics(names, request, read, timeout_ms)

    async def delete_topic(self, name: str, *, timeout_ms: int | None = None) -> None:
        """Delete one topic. Raises KafkaError."""
        error = (await self.delete_topics([name], timeout_ms=timeout_ms))[name]
        if error is not None:
            raise error

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        assignments: Mapping[str, Iterable[Iterable[int]]] | None = None,
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Add partitions, so that each topic has so many in all. ``assignments`` are the replicas
        of the new partitions, by topic. The outcome is None for topics that have grown."""
        replicas = {t: [list(p) for p in new] for t, new in (assignments or {}).items()}

        def request(names: Sequence[str], server_timeout_ms: int) -> Message:
            rows = [_growth(name, counts[name], replicas.get(name)) for name in names]
            return CreatePartitionsRequest(rows, server_timeout_ms, validate_only)

        def read(response: CreatePartitionsResponse) -> dict[str, KafkaError | None]:
            return {
                row.name: error_of(row.error_code, row.error_message) for row in response.results
            }

        return await self._change_topics(counts, request, read, timeout_ms)

    async def list_topics(
        self, include_internal: bool = False, *, timeout_ms: int | None = None
    ) -> list[TopicView]:
        """Return every topic by name, with its partitions. Raises KafkaError."""
        topics = await self._topics(None, self.session.deadline_ms(timeout_ms))
        return [topic for topic in topics if include_internal or not topic.is_internal]

    async def describe_topics(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, DescribeOutcome]:
        """Return topics as a broker sees them now, without creating any."""
        topics = await self._topics(list(names), self.session.deadline_ms(timeout_ms))
        return {
            topic.name: topic
            if topic.error is ErrorCode.NONE
            else KafkaError(topic.error, topic.name)
            for topic in topics
        }

    async def wait_for_topic(
        self, name: str, partitions: int = 1, *, timeout_ms: int | None = None
    ) -> TopicView:
        """Return a topic as soon as it has so many partitions, each with a leader. Raises
        KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def attempt() -> TopicView:
            (topic,) = await self._topics([name], deadline_ms)
            raise_for(topic.error, name)
            if len(topic.available) < max(partitions, len(topic.partitions)):
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, name)
            return topic

        return await self.session.retrying(attempt, deadline_ms)

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Return brokers, controller and id of the cluster. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        try:
            response = await self.session.request_any(DescribeClusterRequest(), deadline_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:  # brokers before 2.8
                raise
            return await self._describe_cluster_by_metadata(deadline_ms)
        raise_for(response.error_code, response.error_message)
        nodes = sorted(Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(nodes))

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by time in ms, or by EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP.
        Raises KafkaError."""
        return await list_offsets(
            self.session, timestamps, self.session.deadline_ms(timeout_ms), int(read_committed)
        )

    async def describe_log_dirs(
        self, broker_ids: Iterable[int], *, timeout_ms: int | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers, by path. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await describe_log_dirs(self.session, broker_ids, deadline_ms)

    async def alter_replica_log_dirs(
        self,
        broker_id: int,
        paths: Mapping[TopicPartition, str],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move replicas of one broker between its log directories; ``describe_log_dirs`` shows the
        progress. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await alter_replica_log_dirs(self.session, broker_id, paths, deadline_ms)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, DeletionOutcome]:
        """Delete the records before the offset of each partition (-1: up to the high watermark) on
        all live replicas. The outcome is the low watermark, where the log starts now, or a
        KafkaError."""
        return await delete_records(self.session, offsets, self.session.deadline_ms(timeout_ms))

    # -- inside

    async def _change_topics(
        self,
        names: Iterable[str],
        request: Callable[[Sequence[str], int], Message],
        read: Callable[[Any], Mapping[str, R | KafkaError]],
        timeout_ms: int | None,
    ) -> dict[str, R | KafkaError]:
        """Send requests to the controller until each topic has a final outcome.

        ``request`` builds a request for topics and a broker time-out; ``read`` returns the
        outcomes in a response.
        """
        deadline_ms = self.session.deadline_ms(timeout_ms)
        outcomes: dict[str, R | KafkaError] = {}
        remaining = list(dict.fromkeys(names))

        async def attempt() -> None:
            message = request(remaining, server_timeout_ms(self.session, deadline_ms))
            response = await self.session.request_controller(message, deadline_ms)
            found = read(response)
            for name in list(remaining):
                missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "not in the response")
                outcomes[name] = outcome = found.get(name, missing)
                if not (isinstance(outcome, KafkaError) and outcome.code in _RETRIED):
                    remaining.remove(name)
            for name in remaining:
                outcome = outcomes[name]
                assert isinstance(outcome, KafkaError)
                raise outcome

        try:
            await self.session.retrying(attempt, deadline_ms)
        except KafkaError as error:
            outcomes.update(dict.fromkeys(remaining, error))
        return outcomes

    async def _topics(self, names: list[str] | None, deadline_ms: int) -> list[TopicView]:
        response = await self.session.request_any(metadata_request(names), deadline_ms)
        return sorted((topic_view(row) for row in response.topics), key=lambda topic: topic.name)

    async def _describe_cluster_by_metadata(self, deadline_ms: int) -> ClusterDescription:
        response = await self.session.request_any(metadata_request([]), deadline_ms)
        nodes = sorted(Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(nodes))


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition, list(brokers))
            for partition, brokers in sorted(topic.assignments.items())
        ],
        configs=[CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
    )


def _growth(name: str, count: int, replicas: list[list[int]] | None) -> CreatePartitionsTopic:
    assignments = None if replicas is None else [CreatePartitionsAssignment(b) for b in replicas]
    return CreatePartitionsTopic(name, count, assignments)


def _created(row: CreatableTopicResult) -> CreateOutcome:
    return error_of(row.error_code, row.error_message) or CreatedTopic(
        row.name, row.topic_id, row.num_partitions, row.replication_factor
    )
