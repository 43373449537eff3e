"""The admin client: creates, grows, describes and deletes topics; describes the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from minikafka.client.admin.broker_calls import call_broker, server_timeout_ms
from minikafka.client.admin.configs import ConfigAdmin
from minikafka.client.admin.features import FeatureAdmin
from minikafka.client.admin.groups import GroupAdmin
from minikafka.client.admin.replicas import PlacementAdmin, delete_records
from minikafka.client.admin.security import AclAdmin, DelegationTokenAdmin, ScramCredentialAdmin
from minikafka.client.admin.share_groups import ShareGroupAdmin
from minikafka.client.admin.transactions import TransactionAdmin
from minikafka.client.config import ClientConfig
from minikafka.client.offsets import list_offsets
from minikafka.client.session import Client
from minikafka.core.client.admin import replicas as replica_calls
from minikafka.core.client.admin import topics as topic_calls
from minikafka.core.client.admin.replicas import DeletionOutcomes, LogDirDescription
from minikafka.core.client.admin.topics import (
    BROKER_DEFAULT,
    ClusterDescription,
    CreatedTopic,
    CreateOutcomes,
    NewTopic,
    TopicErrors,
)
from minikafka.core.client.calls import ControllerCall, raise_for
from minikafka.core.client.cluster_view import TopicView
from minikafka.core.client.offsets import OffsetAndTimestamp
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import World

R = TypeVar("R")

DescribeOutcome: TypeAlias = TopicView | KafkaError


class Admin(
    Client,
    AclAdmin,
    ConfigAdmin,
    FeatureAdmin,
    PlacementAdmin,
    GroupAdmin,
    ShareGroupAdmin,
    TransactionAdmin,
    ScramCredentialAdmin,
    DelegationTokenAdmin,
):
    """The admin client: topics, records and the cluster; base classes add the other subjects.

    Calls are retried after retriable errors until ``timeout_ms`` (``default_api_timeout_ms`` by
    default). Calls for several topics return an outcome for each; calls for one topic raise its
    KafkaError.
    """

    def __init__(self, world: World, config: ClientConfig) -> None:
        # As Kafka's: to ask where a topic's leaders are must not create the topic.
        super().__init__(world, replace(config, allow_auto_create_topics=False))
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
    ) -> CreateOutcomes:
        """Create topics. Their partitions may get leaders a little later: ``wait_for_topic``.

        When a response was lost, the retry may find a topic that the first attempt has created:
        TOPIC_ALREADY_EXISTS.
        """
        wanted = {topic.name: topic for topic in topics}

        def create(names: Sequence[str], server_ms: int) -> ControllerCall[CreateOutcomes]:
            rows = [wanted[name] for name in names]
            return topic_calls.create_topics(rows, server_ms, validate_only)

        return await self._change_topics(wanted, create, timeout_ms)

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
    ) -> TopicErrors:
        """Delete topics. The outcome is None for topics that are deleted or being deleted."""
        return await self._change_topics(names, topic_calls.delete_topics, timeout_ms)

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
    ) -> TopicErrors:
        """Add partitions, so that each topic has so many in all. ``assignments`` are the replicas
        of the new partitions, by topic. The outcome is None for topics that have grown."""
        replicas = {t: [list(p) for p in new] for t, new in (assignments or {}).items()}

        def grow(names: Sequence[str], server_ms: int) -> ControllerCall[TopicErrors]:
            rows = {name: counts[name] for name in names}
            return topic_calls.create_partitions(rows, replicas, server_ms, validate_only)

        return await self._change_topics(counts, grow, timeout_ms)

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
            return await self.session.call_any_retrying(topic_calls.describe_cluster(), deadline_ms)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:  # brokers before 2.8
                raise
        by_metadata = topic_calls.describe_cluster_by_metadata()
        return await self.session.call_any_retrying(by_metadata, deadline_ms)

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
        ids, call = sorted(broker_ids), replica_calls.describe_log_dirs()
        found = await asyncio.gather(
            *(call_broker(self.session, b, call, deadline_ms) for b in ids)
        )
        return dict(zip(ids, found, strict=True))

    async def alter_replica_log_dirs(
        self,
        broker_id: int,
        paths: Mapping[TopicPartition, str],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move replicas of one broker between its log directories; ``describe_log_dirs`` shows the
        progress. The outcome is None for replicas whose move has begun, or that are there already.
        Raises KafkaError."""
        call = replica_calls.alter_replica_log_dirs(paths)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await call_broker(self.session, broker_id, call, deadline_ms)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> DeletionOutcomes:
        """Delete the records before the offset of each partition (-1: up to the high watermark) on
        all live replicas. The outcome is the low watermark, where the log starts now, or a
        KafkaError."""
        return await delete_records(self.session, offsets, self.session.deadline_ms(timeout_ms))

    # -- inside

    async def _change_topics(
        self,
        names: Iterable[str],
        build: Callable[[Sequence[str], int], ControllerCall[dict[str, R]]],
        timeout_ms: int | None,
    ) -> dict[str, R | KafkaError]:
        """Call the controller until each topic has a final outcome.

        ``build`` returns a call for topics, with the time-out field of its request.
        """
        deadline_ms = self.session.deadline_ms(timeout_ms)
        outcomes: dict[str, R | KafkaError] = {}
        remaining = list(dict.fromkeys(names))

        async def attempt() -> None:
            call = build(remaining, server_timeout_ms(self.session, deadline_ms))
            found = await self.session.call_controller(call, deadline_ms)
            outcomes.update(found)
            for name in list(remaining):
                if topic_calls.is_final(outcomes[name]):
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
        return await self.session.call_any_retrying(topic_calls.describe_topics(names), deadline_ms)
