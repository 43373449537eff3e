"""Creation of topics on the first Metadata or FindCoordinator request for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Final, TypeAlias

from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.server.broker.admin.topics import TopicAdmin
from minikafka.server.broker.node_to_controller import NodeToController
from minikafka.server.broker.quotas import TakePermits, take_freely

CREATE_TOPICS_VERSION = 7
# How long a Metadata response waits for its topics, at most. The controller creates a topic within
# milliseconds; without a controller the client retries.
MAX_WAIT_MS: Final = 1_000

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

SHARE_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "2",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
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
    release: Release = Release.NEWEST
    offsets_topic: TopicShape = TopicShape(50, 3, OFFSETS_TOPIC_CONFIG)
    transaction_topic: TopicShape = TopicShape(50, 3, TRANSACTION_TOPIC_CONFIG)
    share_topic: TopicShape = TopicShape(50, 3, SHARE_TOPIC_CONFIG)


# Called with the error of each topic.
Respond: TypeAlias = Callable[[Mapping[str, ErrorCode]], None]


class _Waiting:
    """A response that is sent when its topics are created or refused, or after ``MAX_WAIT_MS``."""

    __slots__ = ("_errors", "_respond", "_timer", "_unsettled")

    def __init__(
        self, clock: Clock, errors: dict[str, ErrorCode], unsettled: int, respond: Respond
    ) -> None:
        """``errors`` has the error of each topic in case the time is up; the outcome of
        ``unsettled`` topics is awaited."""
        self._errors = errors
        self._unsettled = unsettled
        self._respond: Respond | None = respond
        self._timer = clock.call_later(MAX_WAIT_MS, self._answer)

    def settle(self, topic: str, error: ErrorCode) -> None:
        """Set the outcome of a topic, and respond if it is the last one."""
        if self.is_answered:
            return
        self._errors[topic] = error
        self._unsettled -= 1
        if not self._unsettled:
            self._timer.cancel()
            self._answer()

    @property
    def is_answered(self) -> bool:
        return self._respond is None

    def _answer(self) -> None:
        """Respond, and drop the request: without a controller the creation lasts for a minute."""
        respond, self._respond = self._respond, None
        assert respond is not None, "a response is sent once"
        respond(self._errors)


class AutoTopicCreation:
    """Creates unknown topics that clients request (Kafka's ``AutoTopicCreationManager``).

    The controller creates the topics; any other broker sends CreateTopics to it. Either way the
    Metadata response waits for the outcome, ``MAX_WAIT_MS`` at most. Its error is
    LEADER_NOT_AVAILABLE if the topic exists now, UNKNOWN_TOPIC_OR_PARTITION if the outcome is not
    known (clients retry after both), or else the controller's reason to refuse the topic. (In Kafka
    only the controller's own response has that reason.) Requests for a topic that is being created
    share its outcome. Once one of them has waited for ``MAX_WAIT_MS``, later ones do not wait: they
    would hold back what their connections send next. Outcomes are not kept, so a refused name is
    tried again.

    The replication factor of a topic is limited to the number of ``live_brokers``, so that a
    cluster of one broker can have groups. (Kafka waits until there are enough brokers.)
    """

    def __init__(
        self,
        config: AutoTopicCreationConfig,
        clock: Clock,
        admin: TopicAdmin,
        is_controller: Callable[[], bool],
        controller: NodeToController,
        live_brokers: Callable[[], int] | None = None,
        log: EventLog | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._live_brokers = live_brokers
        self._admin = admin
        self._is_controller = is_controller
        self._controller = controller
        self._log = log or event_log("auto-topic-creation")
        self._in_flight: dict[str, list[_Waiting]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def enabled(self) -> bool:
        return self._config.auto_create_topics_enable

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def create(
        self, topics: Iterable[str], respond: Respond, take_permits: TakePermits = take_freely
    ) -> None:
        """Create the topics with valid names, and call ``respond`` once with the error of each
        topic. On the controller their partitions take permits."""
        errors = {
            topic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name_problem(topic) is None
            else ErrorCode.INVALID_TOPIC_EXCEPTION
            for topic in topics
        }
        valid = [t for t, error in errors.items() if error is not ErrorCode.INVALID_TOPIC_EXCEPTION]
        if not valid:
            respond(errors)
            return
        self.begin(valid, take_permits)
        soon = [topic for topic in valid if not self._is_late(topic)]
        if not soon:
            respond(errors)
            return
        waiting = _Waiting(self._clock, errors, len(soon), respond)
        for topic in soon:
            self._in_flight[topic].append(waiting)

    def _is_late(self, topic: str) -> bool:
        """Whether a response has waited for this creation for ``MAX_WAIT_MS``."""
        return any(waiting.is_answered for waiting in self._in_flight[topic])

    def begin(self, topics: Iterable[str], take_permits: TakePermits = take_freely) -> None:
        """Start to create the topics and return at once. Their names must be valid."""
        unknown = [topic for topic in topics if topic not in self._in_flight]
        self.begin_shaped([self._creatable(topic) for topic in unknown], take_permits)

    def begin_shaped(
        self,
        topics: Iterable[CreatableTopic],
        take_permits: TakePermits = take_freely,
        settled: Callable[[str, KafkaError | None], None] = lambda _, __: None,
    ) -> None:
        """Start to create topics and return at once. ``settled`` is called with the name of each
        topic that is not being created already, and with its error, None if it exists then."""
        assert self._tasks is not None, "topics are created after start"
        creatable = [topic for topic in topics if topic.name not in self._in_flight]
        if creatable:
            self._in_flight |= {topic.name: [] for topic in creatable}
            self._tasks.create_task(
                self._create(creatable, take_permits, settled), name="auto-topic-creation"
            )

    async def _create(
        self,
        topics: list[CreatableTopic],
        take_permits: TakePermits,
        settled: Callable[[str, KafkaError | None], None],
    ) -> None:
        errors: Mapping[str, KafkaError | None] = {}
        try:
            if self._is_controller():
                errors = await self._create_here(topics, take_permits)
            else:
                errors = await self._send_to_controller(topics)
        finally:
            for topic in topics:
                error = errors.get(topic.name, KafkaError(ErrorCode.NOT_CONTROLLER))
                code = ErrorCode.NONE if error is None else error.code
                for waiting in self._in_flight.pop(topic.name):
                    waiting.settle(topic.name, _client_error(code))
                settled(topic.name, None if code in _CREATED else error)

    async def _create_here(
        self, topics: list[CreatableTopic], take_permits: TakePermits
    ) -> dict[str, KafkaError | None]:
        outcomes = await self._admin.create_topics(topics, 0, False, take_permits)
        return {topic: outcome.error for topic, outcome in outcomes.items()}

    async def _send_to_controller(
        self, topics: list[CreatableTopic]
    ) -> dict[str, KafkaError | None]:
        """Send CreateTopics to the controller and return the error of each topic; nothing if there
        is no response. After a time-out of 0 it responds once the topics are in ZooKeeper."""
        request = CreateTopicsRequest(topics=topics, timeout_ms=0)
        names = [topic.name for topic in topics]
        try:
            version = self._config.release.at_most(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION)
            response = await self._controller.request(request, version)
        except (TimeoutError, ConnectionError) as error:
            self._log.warning("auto_creation_failed", topics=names, error=str(error))
            return {}
        errors = {topic.name: ErrorCode(topic.error_code) for topic in response.topics}
        self._log.info("auto_creation_requested", topics=names, errors=errors)
        return {
            topic.name: KafkaError(errors[topic.name], topic.error_message)
            if errors[topic.name]
            else None
            for topic in response.topics
        }

    def _creatable(self, topic: str) -> CreatableTopic:
        shape = {
            GROUP_METADATA_TOPIC: self._config.offsets_topic,
            TRANSACTION_STATE_TOPIC: self._config.transaction_topic,
            SHARE_GROUP_STATE_TOPIC: self._config.share_topic,
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


# After a time-out of 0 the topic exists; its leaders follow soon.
_CREATED: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT}
)


def _client_error(error: ErrorCode) -> ErrorCode:
    """Return the error of a Metadata response for a topic whose creation ended with ``error``."""
    if error in _CREATED:
        return ErrorCode.LEADER_NOT_AVAILABLE
    if error is ErrorCode.NOT_CONTROLLER:  # a new controller may create it
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error
