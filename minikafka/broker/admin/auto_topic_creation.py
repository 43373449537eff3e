"""Creation of topics on the first Metadata or FindCoordinator request for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TypeAlias

from minikafka.broker.admin.topics import TopicAdmin
from minikafka.broker.node_to_controller import NodeToController
from minikafka.broker.quotas import TakePermits, take_freely
from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CREATE_TOPICS_VERSION = 7

OFFSETS_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
)
TRANSACTION_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
)


@dataclass(frozen=True, slots=True)
class TopicShape:
    """The number of partitions, replication factor and settings of a topic to create. -1 stands for
    the controller's default."""

    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoTopicCreationConfig:
    """Kafka's ``auto.create.topics.enable``, and the shapes of the internal topics. Internal topics
    are created even if it is false."""

    auto_create_topics_enable: bool = True
    release: Release = Release.KAFKA_3_9
    request_timeout_ms: int = 30_000
    offsets_topic: TopicShape = TopicShape(50, 3, OFFSETS_TOPIC_CONFIG)
    transaction_topic: TopicShape = TopicShape(50, 3, TRANSACTION_TOPIC_CONFIG)


# Called with the error of each topic.
Respond: TypeAlias = Callable[[Mapping[str, ErrorCode]], None]


class AutoTopicCreation:
    """Creates unknown topics that clients request (Kafka's ``AutoTopicCreationManager``).

    On the controller the topic is created before the response, whose error is LEADER_NOT_AVAILABLE:
    clients retry. Any other broker sends CreateTopics to the controller and responds at once with
    UNKNOWN_TOPIC_OR_PARTITION, at which clients retry too.

    The replication factor of a topic is limited to the number of ``live_brokers``, so that a
    cluster of one broker can have groups. (Kafka waits until there are enough brokers.)
    """

    def __init__(
        self,
        config: AutoTopicCreationConfig,
        admin: TopicAdmin,
        is_controller: Callable[[], bool],
        controller: NodeToController,
        live_brokers: Callable[[], int] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._config = config
        self._live_brokers = live_brokers
        self._admin = admin
        self._is_controller = is_controller
        self._controller = controller
        self._log = log or event_log("auto-topic-creation")
        self._in_flight: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def enabled(self) -> bool:
        return self._config.auto_create_topics_enable

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def create(
        self, topics: Sequence[str], respond: Respond, take_permits: TakePermits = take_freely
    ) -> None:
        """Create the topics with valid names. On the controller their partitions take permits.

        ``respond`` is called once with the error of each topic: on the controller when the topics
        are created, otherwise before this returns."""
        assert self._tasks is not None, "topics are created after start"
        errors: dict[str, ErrorCode] = {}
        creatable: list[str] = []
        for topic in topics:
            if name_problem(topic) is not None:
                errors[topic] = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif topic in self._in_flight:
                errors[topic] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                creatable.append(topic)
        self._in_flight.update(creatable)
        if creatable and self._is_controller():
            self._tasks.create_task(
                self._create_here(creatable, errors, respond, take_permits),
                name="auto-topic-creation",
            )
            return
        if creatable:
            errors |= dict.fromkeys(creatable, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._tasks.create_task(self._send_to_controller(creatable), name="auto-topic-creation")
        respond(errors)

    async def _create_here(
        self,
        topics: list[str],
        errors: dict[str, ErrorCode],
        respond: Respond,
        take_permits: TakePermits,
    ) -> None:
        try:
            outcomes = await self._admin.create_topics(
                [self._creatable(topic) for topic in topics], 0, False, take_permits
            )
        finally:
            self._in_flight.difference_update(topics)
        for topic, outcome in outcomes.items():
            code = outcome.error.code if outcome.error else ErrorCode.NONE
            # The topic exists after a time-out of 0; its leaders follow soon.
            on_its_way = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT}
            errors[topic] = ErrorCode.LEADER_NOT_AVAILABLE if code in on_its_way else code
        respond(errors)

    async def _send_to_controller(self, topics: list[str]) -> None:
        """Send CreateTopics to the controller. The response is ignored, since the client requests
        the metadata again."""
        request = CreateTopicsRequest(
            topics=[self._creatable(topic) for topic in topics],
            timeout_ms=self._config.request_timeout_ms,
        )
        try:
            version = self._config.release.at_most(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION)
            await self._controller.request(request, version)
            self._log.info("auto_creation_requested", topics=topics)
        except (TimeoutError, ConnectionError) as error:
            self._log.warning("auto_creation_failed", topics=topics, error=str(error))
        finally:
            self._in_flight.difference_update(topics)

    def _creatable(self, topic: str) -> CreatableTopic:
        shape = {
            GROUP_METADATA_TOPIC: self._config.offsets_topic,
            TRANSACTION_STATE_TOPIC: self._config.transaction_topic,
        }.get(topic, TopicShape())
        return CreatableTopic(
            name=topic,
            num_partitions=shape.partitions,
            replication_factor=self._replicas(topic, shape.replication_factor),
            configs=[CreatableTopicConfig(k, v) for k, v in sorted(shape.config.items())],
        )

    def _replicas(self, topic: str, requested: int) -> int:
        live = requested if self._live_brokers is None else max(1, self._live_brokers())
        if requested > live:
            self._log.warning(
                "replicas_clamped", topic=topic, requested=requested, live_brokers=live
            )
        return min(requested, live)
