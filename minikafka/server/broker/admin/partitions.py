"""CreatePartitions: checks, placement of replicas, the ZooKeeper write, the wait for leaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from minikafka.core.controller.assignment import is_being_reassigned
from minikafka.core.controller.placement import (
    assign_replicas,
    broker_racks,
    require_partition_count,
)
from minikafka.core.purgatory import DelayedOperation
from minikafka.core.topic_names import require_valid
from minikafka.kernel.cluster import Broker, ReplicaAssignment
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.ports import BadVersion, CoordinationError, NoNode
from minikafka.protocol.messages.create_partitions import CreatePartitionsTopic
from minikafka.server.broker.admin.topics import await_leaders, coordination_failed
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.purgatories import Reaper
from minikafka.server.broker.quotas import TakePermits, take_freely
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore


class PartitionGrowth:
    """Adds partitions to topics, on the controller's broker only.

    Kafka's ``ZkAdminManager.createPartitions``. Unlike Kafka's, the write is conditional: it does
    not overwrite a reassignment of the same topic, or another request that adds partitions.
    """

    def __init__(
        self,
        store: Callable[[], ZkStore],
        cache: MetadataCache,
        reaper: Reaper[DelayedOperation],
        max_partitions: int,
        log: EventLog | None = None,
    ) -> None:
        self._store = store
        self._cache = cache
        self._reaper = reaper
        self._max_partitions = max_partitions
        self._log = log or event_log("partition-growth")

    async def create_partitions(
        self,
        topics: Sequence[CreatePartitionsTopic],
        timeout_ms: int,
        validate_only: bool,
        take_permits: TakePermits = take_freely,
    ) -> dict[str, KafkaError | None]:
        """Add partitions to each topic, and wait until all of them have leaders.

        Returns the error of each topic by name, None after a success. The topics must have distinct
        names. REQUEST_TIMED_OUT means that the partitions were added, but lack leaders after
        ``timeout_ms``. A ``timeout_ms`` of 0 or less always ends so. The new partitions of each
        topic take permits, unless they are only validated."""
        errors = {
            topic.name: await self._grow(topic, validate_only, take_permits) for topic in topics
        }
        grown = {topic.name: topic.count for topic in topics if errors[topic.name] is None}
        if grown and not validate_only:
            for name in await await_leaders(self._reaper, self._cache, grown, timeout_ms):
                errors[name] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return errors

    async def _grow(
        self, topic: CreatePartitionsTopic, validate_only: bool, take_permits: TakePermits
    ) -> KafkaError | None:
        try:
            while not await self._try(topic, validate_only, take_permits):
                # The znode has changed between the read and the write. The permits are taken.
                take_permits = take_freely
        except KafkaError as error:
            self._log.info("topic_partitions_not_added", topic=topic.name, error=str(error))
            return error
        except NoNode:
            return _unknown(topic.name)
        except MalformedZnode as error:
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        except CoordinationError as error:
            return coordination_failed(error)
        return None

    async def _try(
        self, topic: CreatePartitionsTopic, validate_only: bool, take_permits: TakePermits
    ) -> bool:
        """Check the request and write the assignment. False if the znode has changed since it was
        read. Raises KafkaError, CoordinationError, MalformedZnode."""
        require_valid(topic.name)
        store = self._store()
        if await store.topic_marked_for_deletion(topic.name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        found = await store.topic_assignment_version(topic.name)
        if found is None:
            raise _unknown(topic.name)
        known, version = found
        require_partition_count(topic.count, self._max_partitions)
        added = new_partitions(topic, known.partitions, self._cache.live_brokers())
        if validate_only:
            return True
        take_permits(len(added))
        try:
            await store.set_topic_assignment(
                topic.name,
                known.topic_id,
                {**known.partitions, **added},
                expected_version=version,
            )
        except BadVersion:
            return False
        self._log.info("topic_partitions_added", topic=topic.name, partitions=topic.count)
        return True


def new_partitions(
    topic: CreatePartitionsTopic,
    existing: Mapping[int, ReplicaAssignment],
    brokers: Sequence[Broker],
) -> dict[int, ReplicaAssignment]:
    """Return the assignments of the partitions to add.

    They are those of the request, if it has any. Otherwise ``assign_replicas`` continues from the
    first replica of partition 0, as Kafka does. Raises KafkaError."""
    if any(is_being_reassigned(assignment) for assignment in existing.values()):
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{topic.name}'.",
        )
    if 0 not in existing:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unexpected existing replica assignment for topic '{topic.name}', partition id 0 is "
            "missing.",
        )
    have, missing = len(existing), topic.count - len(existing)
    if missing < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {have} partitions, which is higher than the requested "
            f"{topic.count}.",
        )
    if missing == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partitions.")
    model = existing[0].replicas
    if topic.assignments is not None:
        assignments = [tuple(assignment.broker_ids) for assignment in topic.assignments]
        _check_assignments(
            assignments, missing, len(model), {broker.id for broker in brokers}, have
        )
        return {have + n: ReplicaAssignment(replicas) for n, replicas in enumerate(assignments)}
    racks = broker_racks(brokers)
    start = next((n for n, broker in enumerate(racks) if broker.id >= model[0]), 0)
    placed = assign_replicas(
        racks, missing, len(model), start_index=start, replica_shift=start, start_partition=have
    )
    return {partition: ReplicaAssignment(replicas) for partition, replicas in placed.items()}


def _check_assignments(
    assignments: Sequence[tuple[int, ...]], missing: int, factor: int, live: set[int], first: int
) -> None:
    """Raise KafkaError(INVALID_REPLICA_ASSIGNMENT) for assignments that the request must not
    have. ``first`` is the number of the first new partition."""
    unknown = sorted({broker for replicas in assignments for broker in replicas} - live)
    problem = None
    if unknown:
        problem = f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}."
    elif len(assignments) != missing:
        problem = (
            f"Increasing the number of partitions by {missing} but {len(assignments)} assignments "
            "provided."
        )
    for partition, replicas in enumerate(assignments, first):
        if problem is not None:
            break
        if not replicas:
            problem = f"Cannot have replication factor of 0 for partition id {partition}."
        elif len(set(replicas)) < len(replicas):
            problem = (
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {partition}."
            )
        elif len(replicas) != factor:
            problem = (
                f"Inconsistent replication factor between partitions, partition 0 has {factor} "
                f"while partition {partition} has {len(replicas)}."
            )
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _unknown(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
