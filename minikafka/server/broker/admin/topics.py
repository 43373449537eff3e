"""CreateTopics and DeleteTopics: checks, placement, ZooKeeper write, wait for the effect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from minikafka.core.controller.placement import (
    assign_replicas,
    broker_racks,
    require_partition_count,
)
from minikafka.core.policies import CreateTopicPolicy, TopicProposal
from minikafka.core.purgatory import DelayedOperation
from minikafka.core.topic_names import may_collide, metric_name, require_valid
from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import CoordinationError, Entropy, NodeExists, SessionExpired
from minikafka.kernel.slices import in_slices
from minikafka.protocol.messages.create_topics import CreatableTopic
from minikafka.server.broker.admin.metadata_waits import DelayedUntilVisible, missing_after
from minikafka.server.broker.admin.policies import apply_policy
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.broker.quotas import TakePermits, take_freely
from minikafka.server.zookeeper.store import ZkStore


class DelayedTopics(DelayedUntilVisible[str]):
    """A delayed operation that waits until no topic is missing. Subclasses implement
    ``_is_missing``.

    It is tried once for each of its topics that changes. Each try looks at the topics from the
    first one that was missing, and looks at all of them only when each was seen once."""

    __slots__ = ("_unseen",)

    def __init__(self, delay_ms: int, topics: Sequence[str]) -> None:
        super().__init__(delay_ms, topics)
        self._unseen = list(topics)  # from the end

    @abstractmethod
    def _is_missing(self, topic: str) -> bool:
        """Return whether the cache does not show the expected change of the topic yet."""

    def try_complete(self) -> bool:
        unseen = self._unseen
        while unseen:
            if self._is_missing(unseen[-1]):
                return False
            unseen.pop()
        self._unseen = self._missing()  # what was seen may be missing again
        return not self._unseen and self.force_complete()

    def _missing(self) -> list[str]:
        return [topic for topic in self._topics if self._is_missing(topic)]


class DelayedCreatePartitions(DelayedTopics):
    """A delayed operation that waits until every partition has a leader in the metadata cache.
    ``topics`` maps each topic to its number of partitions."""

    __slots__ = ("_cache", "_sizes")

    def __init__(self, delay_ms: int, topics: Mapping[str, int], cache: MetadataCache) -> None:
        super().__init__(delay_ms, list(topics))
        self._sizes = topics
        self._cache = cache

    def _is_missing(self, topic: str) -> bool:
        return not all(self._has_leader(topic, p) for p in range(self._sizes[topic]))

    def _has_leader(self, topic: str, partition: int) -> bool:
        state = self._cache.partition(TopicPartition(topic, partition))
        return state is not None and state.has_leader


class DelayedDeleteTopics(DelayedTopics):
    """A delayed operation that waits until none of the topics is in the metadata cache."""

    __slots__ = ("_cache",)

    def __init__(self, delay_ms: int, topics: Sequence[str], cache: MetadataCache) -> None:
        super().__init__(delay_ms, topics)
        self._cache = cache

    def _is_missing(self, topic: str) -> bool:
        return self._cache.contains_topic(topic)


async def await_leaders(
    reaper: Reaper[DelayedOperation],
    cache: MetadataCache,
    topics: Mapping[str, int],
    timeout_ms: int,
) -> list[str]:
    """Wait until all partitions of ``topics`` (topic to number of partitions) have leaders.
    Returns the topics that lack one after ``timeout_ms``; all topics if that is 0 or less."""
    if timeout_ms <= 0:
        return list(topics)
    return await missing_after(reaper, DelayedCreatePartitions(timeout_ms, topics, cache))


USE_DEFAULT = -1  # for partitions and replication factor (KIP-464)


# Raises ConfigError for an unknown key or a bad value.
CheckTopicConfig: TypeAlias = Callable[[Mapping[str, str]], object]


@dataclass(frozen=True, slots=True)
class TopicAdminConfig:
    num_partitions: int = 1
    default_replication_factor: int = 1
    max_partitions_per_topic: int = 10_000
    inter_broker_protocol: InterBrokerProtocol = LATEST


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The result of creating one topic. After an ``error`` the other fields are not set."""

    error: KafkaError | None = None
    topic_id: UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] | None = None


LISTED_FOR: Final = 200  # topics of a request that are checked against one listing


class KnownTopics:
    """The topics in ZooKeeper, for the topics of one CreateTopics request.

    They are listed again after ``listed_for`` topics of the request, instead of for each: there may
    be thousands of both. Topics created since are added. The listing may be older than the write
    that creates a topic, which fails if the topic exists by then."""

    def __init__(self, store: Callable[[], ZkStore], listed_for: int) -> None:
        self._store = store
        self._listed_for = listed_for
        self._left = 0
        self._names: set[str] = set()
        self._marked: frozenset[str] = frozenset()
        self._by_metric_name: dict[str, list[str]] = {}

    def add(self, topic: str) -> None:
        self._names.add(topic)
        if may_collide(topic):
            self._by_metric_name.setdefault(metric_name(topic), []).append(topic)

    async def require_free(self, topic: str) -> None:
        """Check that the topic may be created beside the existing ones. Raises KafkaError:
        TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION; and CoordinationError."""
        if self._left == 0:
            await self._list()
        self._left -= 1
        if topic in self._marked:
            raise _marked_for_deletion(topic)
        if topic in self._names:
            raise _already_exists(topic)
        colliding = self._by_metric_name.get(metric_name(topic)) if may_collide(topic) else None
        if colliding:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{topic}' collides with existing topics: {', '.join(colliding)}",
            )

    async def _list(self) -> None:
        store = self._store()
        self._marked = frozenset(await store.topic_deletions())
        self._names.clear()
        self._by_metric_name.clear()
        async for name in in_slices(await store.topics()):
            self.add(name)
        self._left = self._listed_for


class TopicAdmin:
    """Creates and deletes topics in ZooKeeper, on the controller's broker only.

    The topics part of Kafka's ``ZkAdminManager``. Requests are checked against the metadata cache
    first. The cache may lag behind ZooKeeper, so the outcome of the write decides. The keys of the
    ``topic`` purgatory are topic names.
    """

    def __init__(
        self,
        store: Callable[[], ZkStore],
        cache: MetadataCache,
        reaper: Reaper[DelayedOperation],
        entropy: Entropy,
        config: TopicAdminConfig,
        check_topic_config: CheckTopicConfig,
        log: EventLog | None = None,
        policy: CreateTopicPolicy | None = None,
    ) -> None:
        self._policy = policy
        self._store = store
        self._cache = cache
        self._reaper = reaper
        self._entropy = entropy
        self._config = config
        self._check_topic_config = check_topic_config
        self._log = log or event_log("topic-admin")

    def topic_changed(self, topic: str) -> None:
        """Try the delayed operations that wait for ``topic``, after the metadata cache changed."""
        self._reaper.check_and_complete(topic)

    async def create_topics(
        self,
        topics: Sequence[CreatableTopic],
        timeout_ms: int,
        validate_only: bool,
        take_permits: TakePermits = take_freely,
    ) -> dict[str, TopicOutcome]:
        """Create the topics, and wait until all partitions have leaders.

        Returns the outcome of each topic by name. The topics must have distinct names. The
        partitions of each topic take permits, unless they are only validated.
        REQUEST_TIMED_OUT means that the topic was created, but lacks leaders after ``timeout_ms``.
        A ``timeout_ms`` of 0 or less always ends so."""
        known = KnownTopics(self._store, listed_for=LISTED_FOR)
        outcomes: dict[str, TopicOutcome] = {}
        async for topic in in_slices(
            topics, look_every=1
        ):  # the placement of one may take milliseconds
            outcomes[topic.name] = await self._create(topic, known, validate_only, take_permits)
        created = {n: o.partitions for n, o in outcomes.items() if o.error is None}
        if created and not validate_only:
            for name in await await_leaders(self._reaper, self._cache, created, timeout_ms):
                outcomes[name] = TopicOutcome(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
        return outcomes

    async def delete_topics(
        self,
        topics: Sequence[str],
        timeout_ms: int,
        take_permits: TakePermits = take_freely,
    ) -> dict[str, ErrorCode]:
        """Request the deletion of the topics, and wait until the controller has deleted them.

        Returns the error of each topic by name, None after a success. REQUEST_TIMED_OUT means that
        the deletion was requested, but the topic is in the metadata cache after ``timeout_ms``.
        The partitions of each topic take permits."""
        errors = {topic: await self._delete(topic, take_permits) for topic in topics}
        marked = [topic for topic, error in errors.items() if error is ErrorCode.NONE]
        if marked:
            for topic in await self._await_deletion(marked, timeout_ms):
                errors[topic] = ErrorCode.REQUEST_TIMED_OUT
        return errors

    # -- creation

    async def _create(
        self,
        topic: CreatableTopic,
        known: KnownTopics,
        validate_only: bool,
        take_permits: TakePermits,
    ) -> TopicOutcome:
        try:
            config = _given_config(topic)
            replicas = self._replicas(topic)
            require_valid(topic.name)
            await known.require_free(topic.name)
            self._check(replicas, config)
            if self._policy is not None:
                proposal = _proposal(topic, replicas, config)
                apply_policy(self._policy.validate, proposal, self._log)
            topic_id = ZERO_UUID
            if not validate_only:
                if await self._store().topic_marked_for_deletion(topic.name):
                    raise _marked_for_deletion(topic.name)  # since the listing
                take_permits(len(replicas))
                made = (
                    self._new_topic_id()
                    if self._config.inter_broker_protocol.has_topic_ids
                    else None
                )
                await self._store().create_topic(topic.name, made, replicas, config)
                topic_id = made or ZERO_UUID
                known.add(topic.name)
        except KafkaError as error:
            return self._failed(topic.name, error)
        except NodeExists:
            return self._failed(topic.name, _already_exists(topic.name))
        except CoordinationError as error:
            return self._failed(topic.name, coordination_failed(error))
        if not validate_only:
            self._log.info("topic_created", topic=topic.name, partitions=len(replicas))
        return TopicOutcome(None, topic_id, len(replicas), len(replicas[0]), config)

    def _failed(self, topic: str, error: KafkaError) -> TopicOutcome:
        self._log.info("topic_not_created", topic=topic, error=str(error))
        return TopicOutcome(error)

    def _replicas(self, topic: CreatableTopic) -> dict[int, tuple[int, ...]]:
        """Raises KafkaError."""
        if self._cache.contains_topic(topic.name):
            raise _already_exists(topic.name)
        counted = topic.num_partitions != USE_DEFAULT or topic.replication_factor != USE_DEFAULT
        if topic.assignments:
            if counted:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                )
            require_partition_count(len(topic.assignments), self._config.max_partitions_per_topic)
            # As in Kafka, these brokers need not exist.
            return {a.partition_index: tuple(a.broker_ids) for a in topic.assignments}
        config = self._config
        partitions = topic.num_partitions
        require_partition_count(partitions, config.max_partitions_per_topic)
        factor = topic.replication_factor
        brokers = broker_racks(self._cache.live_brokers())
        dice = len(brokers) or 1
        return assign_replicas(
            brokers,
            config.num_partitions if partitions == USE_DEFAULT else partitions,
            config.default_replication_factor if factor == USE_DEFAULT else factor,
            start_index=self._entropy.randrange(dice),
            replica_shift=self._entropy.randrange(dice),
        )

    def _check(self, replicas: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
        """Raises KafkaError."""
        _check_assignment(replicas)
        try:
            self._check_topic_config(config)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def _new_topic_id(self) -> UUID:
        """Return a random topic id (UUID version 4). Like Kafka, never a reserved one, nor one
        whose text form begins with a dash, which tools would parse as an option."""
        while True:
            topic_id = UUID(bytes=self._entropy.random_bytes(16), version=4)
            if topic_id.int > 1 and topic_id.bytes[0] >> 2 != _DASH:
                return topic_id

    # -- deletion

    async def _delete(self, topic: str, take_permits: TakePermits) -> ErrorCode:
        try:
            require_valid(topic)
            take_permits(len(self._cache.partitions(topic)))
            await self._store().request_topic_deletion(topic)
        except KafkaError as error:
            return error.code
        except NodeExists:
            return ErrorCode.NONE  # requested before: wait for the same deletion
        except CoordinationError as error:
            self._log.warning("topic_not_deleted", topic=topic, error=repr(error))
            return coordination_failed(error).code
        self._log.info("topic_deletion_requested", topic=topic)
        return ErrorCode.NONE

    # -- waiting

    async def _await_deletion(self, topics: list[str], timeout_ms: int) -> list[str]:
        if timeout_ms <= 0:
            return topics
        operation = DelayedDeleteTopics(timeout_ms, topics, self._cache)
        return await missing_after(self._reaper, operation)


_DASH = 62  # of the base64url alphabet


def _marked_for_deletion(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion.")


def _already_exists(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")


def coordination_failed(error: CoordinationError) -> KafkaError:
    """Return the error of a request whose ZooKeeper access failed. A broker that has lost its
    ZooKeeper session is no longer the controller."""
    if isinstance(error, SessionExpired):
        return KafkaError(ErrorCode.NOT_CONTROLLER)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper: {error!r}")


def _proposal(
    topic: CreatableTopic, replicas: Mapping[int, Sequence[int]], config: Mapping[str, str]
) -> TopicProposal:
    """Return what a policy is given: numbers with the defaults filled in, or assignments."""
    if topic.assignments:
        return TopicProposal(topic.name, None, None, replicas, config)
    return TopicProposal(topic.name, len(replicas), len(replicas[0]), None, config)


def _given_config(topic: CreatableTopic) -> dict[str, str]:
    nulls = [entry.name for entry in topic.configs if entry.value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    return {entry.name: entry.value for entry in topic.configs if entry.value is not None}


def _check_assignment(replicas: Mapping[int, Sequence[int]]) -> None:
    problem = None
    if len({len(brokers) for brokers in replicas.values()}) != 1:
        problem = "All partitions should have the same number of replicas"
    elif any(len(set(brokers)) != len(brokers) for brokers in replicas.values()):
        problem = f"Duplicate replica assignment found: {dict(replicas)}"
    elif sorted(replicas) != list(range(len(replicas))):
        problem = "partitions should be a consecutive 0-based integer sequence"
    elif not replicas[0]:
        problem = "A partition needs at least one replica"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
