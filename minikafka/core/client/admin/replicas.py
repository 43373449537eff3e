"""Calls about replicas: reassign them, elect leaders, describe log directories, move replicas
between them, and delete records at the leader of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from minikafka.core.client.calls import Call, ControllerCall, error_of, of_each, raise_for
from minikafka.core.client.cluster_view import TopicView, group_by_leader
from minikafka.kernel.cluster import (
    NO_LEADER,
    ElectionType,
    ReplicaAssignment,
    TopicPartition,
    grouped,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
)
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListReassignmentsTopic,
)

PlacementOutcomes: TypeAlias = dict[TopicPartition, KafkaError | None]


def elect_leaders(
    election_type: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ControllerCall[PlacementOutcomes]:
    """Build ElectLeaders. The result is None for each partition that got a new leader.

    If ``partitions`` is None, all are elected, and those that need no election have no outcome.
    """

    def read(response: ElectLeadersResponse) -> PlacementOutcomes:
        raise_for(response.error_code)
        outcomes = {
            TopicPartition(topic.topic, row.partition_id): error_of(
                row.error_code, row.error_message
            )
            for topic in response.replica_election_results
            for row in topic.partition_result
        }
        for error in outcomes.values():
            if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                raise error  # retried at the current controller
        return outcomes

    topics = None
    if partitions is not None:
        topics = [ElectLeadersTopic(t, numbers) for t, numbers in grouped(partitions).items()]
    return ControllerCall(ElectLeadersRequest(election_type, topics, timeout_ms), read)


def alter_partition_reassignments(
    targets: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> ControllerCall[PlacementOutcomes]:
    """Build AlterPartitionReassignments. A target of None cancels a reassignment.

    The result is None for each partition whose reassignment has begun.
    """

    def read(response: AlterPartitionReassignmentsResponse) -> PlacementOutcomes:
        raise_for(response.error_code, response.error_message)
        found = {
            TopicPartition(topic.name, row.partition_index): error_of(
                row.error_code, row.error_message
            )
            for topic in response.responses
            for row in topic.partitions
        }
        return of_each(targets, found)

    rows = grouped(
        (tp.topic, ReassignablePartition(tp.partition, None if to is None else list(to)))
        for tp, to in targets.items()
    )
    topics = [ReassignableTopic(name, partitions) for name, partitions in rows.items()]
    return ControllerCall(AlterPartitionReassignmentsRequest(timeout_ms, topics=topics), read)


def list_partition_reassignments(
    partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> ControllerCall[dict[TopicPartition, ReplicaAssignment]]:
    """Build ListPartitionReassignments for ``partitions``, or for all if None.

    The result has the reassignments in progress.
    """

    def read(
        response: ListPartitionReassignmentsResponse,
    ) -> dict[TopicPartition, ReplicaAssignment]:
        raise_for(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, row.partition_index): ReplicaAssignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in response.topics
            for row in topic.partitions
        }

    topics = None
    if partitions is not None:
        topics = [ListReassignmentsTopic(t, numbers) for t, numbers in grouped(partitions).items()]
    return ControllerCall(ListPartitionReassignmentsRequest(timeout_ms, topics), read)


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory. ``offset_lag``: how far the log is behind the high watermark,
    or a future log, which moves to this directory, behind the current one; -1 if it is not
    known."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """``error`` is KAFKA_STORAGE_ERROR for a directory that is offline. Sizes of the volume are -1
    if the broker does not send them."""

    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo] = field(default_factory=dict)
    total_bytes: int = -1
    usable_bytes: int = -1


def describe_log_dirs(
    partitions: Mapping[str, Sequence[int]] | None = None,
) -> Call[dict[str, LogDirDescription]]:
    """Build DescribeLogDirs. The result has the log directories of the called broker, by path, with
    its replicas of the ``partitions`` of topics; None: of all."""
    topics = None
    if partitions is not None:
        topics = [DescribableLogDirTopic(name, list(rows)) for name, rows in partitions.items()]

    def read(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
        raise_for(response.error_code)
        return {
            row.log_dir: LogDirDescription(
                ErrorCode(row.error_code),
                {
                    TopicPartition(topic.name, found.partition_index): ReplicaInfo(
                        found.partition_size, found.offset_lag, found.is_future_key
                    )
                    for topic in row.topics
                    for found in topic.partitions
                },
                row.total_bytes,
                row.usable_bytes,
            )
            for row in response.results
        }

    return Call(DescribeLogDirsRequest(topics=topics), read)


def alter_replica_log_dirs(
    paths: Mapping[TopicPartition, str],
) -> Call[dict[TopicPartition, KafkaError | None]]:
    """Build AlterReplicaLogDirs, to the broker whose replicas move.

    The result is None for replicas whose move has begun, or that are there already.
    """

    def read(response: AlterReplicaLogDirsResponse) -> dict[TopicPartition, KafkaError | None]:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for topic in response.results:
            for row in topic.partitions:
                replica = TopicPartition(topic.topic_name, row.partition_index)
                outcomes[replica] = error_of(row.error_code, str(replica))
        return outcomes

    by_path = grouped((path, replica) for replica, path in paths.items())
    dirs = [
        AlterReplicaLogDir(
            path,
            [
                AlterReplicaLogDirTopic(topic, numbers)
                for topic, numbers in grouped(replicas).items()
            ],
        )
        for path, replicas in by_path.items()
    ]
    return Call(AlterReplicaLogDirsRequest(dirs=dirs), read)


# The low watermark: where the log starts now on every live replica.
DeletionOutcome: TypeAlias = int | KafkaError
DeletionOutcomes: TypeAlias = dict[TopicPartition, DeletionOutcome]


def delete_records(
    offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> Call[DeletionOutcomes]:
    """Build DeleteRecords, to the leader of these partitions. The result has all of them."""

    def read(response: DeleteRecordsResponse) -> DeletionOutcomes:
        missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        outcomes: DeletionOutcomes = dict.fromkeys(offsets, missing)
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                error = error_of(row.error_code, str(tp))
                outcomes[tp] = row.low_watermark if error is None else error
        return outcomes

    rows = ((tp.topic, DeleteRecordsPartition(tp.partition, at)) for tp, at in offsets.items())
    topics = [DeleteRecordsTopic(name, found) for name, found in grouped(rows).items()]
    return Call(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), read)


def is_final(outcome: DeletionOutcome) -> bool:
    """Return whether the outcome of one partition is not worth another attempt.

    A follower that has not deleted yet is a retriable error; a partition that does not exist is
    final.
    """
    if not isinstance(outcome, KafkaError):
        return True
    return outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not outcome.code.retriable


def by_leader(
    offsets: Mapping[TopicPartition, int], topics: Iterable[TopicView]
) -> tuple[dict[int, dict[TopicPartition, int]], dict[TopicPartition, KafkaError]]:
    """Group partitions by leader. Those without one are returned with their error."""
    views = {topic.name: topic for topic in topics}
    errors: dict[TopicPartition, KafkaError] = {}
    leaders: dict[TopicPartition, int] = {}
    for tp in sorted(offsets):
        topic = views.get(tp.topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if code is not ErrorCode.NONE:
            errors[tp] = KafkaError(code, str(tp))
        elif partition is None:
            errors[tp] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(tp))
        elif partition.leader == NO_LEADER:
            errors[tp] = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, str(tp))
        else:
            leaders[tp] = partition.leader
    located = {tp: offset for tp, offset in offsets.items() if tp in leaders}
    return group_by_leader(located, leaders).by_leader, errors
