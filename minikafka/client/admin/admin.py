"""The admin client: topics made, grown, described, deleted; the cluster described."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
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
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest

__all__ = ["Admin", "ClusterDescription", "CreatedTopic", "NewTopic"]

BROKER_DEFAULT = -1

# What the controller says of single topics that we try again. Other errors are final even if the
# table calls them retriable: a topic to delete that does not exist, say.
_TRY_AGAIN = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


@dataclass(frozen=True, slots=True)
class NewTopic:
    """Counts of -1 mean the broker's default. With ``assignments`` (partition -> brokers, the
    preferred leader first) the counts stay -1."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Mapping[int, Iterable[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """What a new topic became. Old brokers tell no more than its name."""

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
    """Each call goes on until ``timeout_ms`` (``default_api_timeout_ms``) over retriable errors.

    Calls about several topics return an outcome per topic; calls about one raise its KafkaError.
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
        """Create topics at the controller. Leaders may come a little later: ``wait_for_topic``.

        When an answer was lost, the retry may say TOPIC_ALREADY_EXISTS of a topic we made.
        """
        outcomes: dict[str, CreateOutcome] = {}
        waiting = {topic.name: topic for topic in topics}
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def attempt() -> None:
            request = CreateTopicsRequest(
                topics=[_creatable(topic) for topic in waiting.values()],
                timeout_ms=server_timeout_ms(self.session, deadline_ms),
                validate_only=validate_only,
            )
            answer = await self.session.request_controller(request, deadline_ms)
            for row in answer.topics:
                outcomes[row.name] = _created(row)
            _drop_settled(waiting, outcomes)

        await self._until_settled(attempt, waiting, outcomes, deadline_ms)
        return outcomes

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
        """Delete topics at the controller; None for those that are gone or going."""
        outcomes: dict[str, KafkaError | None] = {}
        waiting = dict.fromkeys(names)
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def attempt() -> None:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in waiting],
                topic_names=list(waiting),
                timeout_ms=server_timeout_ms(self.session, deadline_ms),
            )
            answer = await self.session.request_controller(request, deadline_ms)
            for row in answer.responses:
                outcomes[row.name or ""] = error_of(row.error_code, row.error_message)
            _drop_settled(waiting, outcomes)

        await self._until_settled(attempt, waiting, outcomes, deadline_ms)
        return outcomes

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
        """Let topics grow to so many partitions in all; ``assignments`` are the brokers of the new
        ones, by topic. None for those that have grown."""
        outcomes: dict[str, KafkaError | None] = {}
        told = {t: [list(p) for p in new] for t, new in (assignments or {}).items()}
        waiting = dict(counts)
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def attempt() -> None:
            request = CreatePartitionsRequest(
                [_growth(name, count, told.get(name)) for name, count in waiting.items()],
                server_timeout_ms(self.session, deadline_ms),
                validate_only,
            )
            answer = await self.session.request_controller(request, deadline_ms)
            for row in answer.results:
                outcomes[row.name] = error_of(row.error_code, row.error_message)
            _drop_settled(waiting, outcomes)

        await self._until_settled(attempt, waiting, outcomes, deadline_ms)
        return outcomes

    async def list_topics(
        self, include_internal: bool = False, *, timeout_ms: int | None = None
    ) -> list[TopicView]:
        """Every topic by name, with its partitions. Raises KafkaError."""
        topics = await self._topics(None, self.session.deadline_ms(timeout_ms))
        return [topic for topic in topics if include_internal or not topic.is_internal]

    async def describe_topics(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, DescribeOutcome]:
        """Topics as a broker sees them now; never creates one."""
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
        """A topic as soon as it has so many partitions and each has a leader. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def attempt() -> TopicView:
            (topic,) = await self._topics([name], deadline_ms)
            raise_for(topic.error, name)
            if len(topic.available) < max(partitions, len(topic.partitions)):
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, name)
            return topic

        return await self.session.retrying(attempt, deadline_ms)

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Brokers, controller and id of the cluster. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        try:
            answer = await self.session.request_any(DescribeClusterRequest(), deadline_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:  # brokers before 2.8
                raise
            return await self._describe_cluster_by_metadata(deadline_ms)
        raise_for(answer.error_code, answer.error_message)
        nodes = sorted(Node(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers)
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(nodes))

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time in ms, or by EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP of
        ``client.offsets``. Raises KafkaError."""
        return await list_offsets(
            self.session, timestamps, self.session.deadline_ms(timeout_ms), int(read_committed)
        )

    async def describe_log_dirs(
        self, broker_ids: Iterable[int], *, timeout_ms: int | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The log directories of brokers, by path. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await describe_log_dirs(self.session, broker_ids, deadline_ms)

    async def alter_replica_log_dirs(
        self,
        broker_id: int,
        paths: Mapping[TopicPartition, str],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move replicas of one broker to other log directories of its; ``describe_log_dirs`` shows
        how far they are. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await alter_replica_log_dirs(self.session, broker_id, paths, deadline_ms)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, DeletionOutcome]:
        """Delete the records before the offset of each partition (-1: all that are committed) on
        all live replicas. Each gets its low watermark, before which nothing is left, or its
        KafkaError."""
        return await delete_records(self.session, offsets, self.session.deadline_ms(timeout_ms))

    # -- inside

    async def _until_settled(
        self,
        attempt: Callable[[], Awaitable[None]],
        waiting: Mapping[str, object],
        outcomes: MutableMapping[str, Any],
        deadline_ms: int,
    ) -> None:
        """Repeat ``attempt``; whatever is unsettled at the end has its error as outcome."""
        try:
            await self.session.retrying(attempt, deadline_ms)
        except KafkaError as error:
            outcomes.update(dict.fromkeys(waiting, error))

    async def _topics(self, names: list[str] | None, deadline_ms: int) -> list[TopicView]:
        answer = await self.session.request_any(metadata_request(names), deadline_ms)
        return sorted((topic_view(row) for row in answer.topics), key=lambda topic: topic.name)

    async def _describe_cluster_by_metadata(self, deadline_ms: int) -> ClusterDescription:
        answer = await self.session.request_any(metadata_request([]), deadline_ms)
        nodes = sorted(Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers)
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(nodes))


def _drop_settled(waiting: MutableMapping[str, Any], outcomes: MutableMapping[str, Any]) -> None:
    """Leave in ``waiting`` what has to be tried again; raises KafkaError when there is any."""
    for name in list(waiting):
        outcome = outcomes.get(name, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer"))
        outcomes[name] = outcome
        if not (isinstance(outcome, KafkaError) and outcome.code in _TRY_AGAIN):
            del waiting[name]
    if waiting:
        raise outcomes[next(iter(waiting))]


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


def _growth(name: str, count: int, told: list[list[int]] | None) -> CreatePartitionsTopic:
    assignments = None if told is None else [CreatePartitionsAssignment(b) for b in told]
    return CreatePartitionsTopic(name, count, assignments)


def _created(row: CreatableTopicResult) -> CreateOutcome:
    return error_of(row.error_code, row.error_message) or CreatedTopic(
        row.name, row.topic_id, row.num_partitions, row.replication_factor
    )
