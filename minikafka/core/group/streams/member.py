"""The members of a streams group: metadata, tasks, and their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from minikafka.core.group.streams.reconciliation import CurrentTasks, StreamsMemberState
from minikafka.core.group.streams.tasks import (
    TaskAssignment,
    TaskId,
    Tasks,
    read_tasks,
    task_rows,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.streams_group_log import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    TaskIdsWithEpochs,
)
from minikafka.protocol.messages.streams_topology import KeyValue, UserEndpoint

NOT_JOINED: Final = CurrentTasks()


@dataclass(frozen=True, slots=True)
class StreamsGroupMember:
    """The metadata of a member. ``endpoint`` is the host and the port at which it serves
    interactive queries. Kafka: ``StreamsGroupMember``."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)


def stored_metadata(member: StreamsGroupMember) -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        None if member.endpoint is None else UserEndpoint(*member.endpoint),
        tag_rows(member),
    )


def tag_rows(member: StreamsGroupMember) -> list[KeyValue]:
    return [KeyValue(key, value) for key, value in sorted(member.client_tags.items())]


def read_metadata(value: StreamsGroupMemberMetadataValue) -> StreamsGroupMember:
    endpoint = value.user_endpoint
    return StreamsGroupMember(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in value.client_tags},
    )


def stored_target(target: TaskAssignment) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        task_rows(target.active), task_rows(target.standby), task_rows(target.warmup)
    )


def read_target(value: StreamsGroupTargetAssignmentMemberValue) -> TaskAssignment:
    return TaskAssignment(
        read_tasks(value.active_tasks),
        read_tasks(value.standby_tasks),
        read_tasks(value.warmup_tasks),
    )


def stored_current(current: CurrentTasks) -> StreamsGroupCurrentMemberAssignmentValue:
    assigned, revoked, epochs = current.assigned, current.pending_revocation, current.epochs
    return StreamsGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_member_epoch,
        current.state,
        _active_rows(assigned.active, epochs),
        _copy_rows(assigned.standby),
        _copy_rows(assigned.warmup),
        _active_rows(revoked.active, epochs),
        _copy_rows(revoked.standby),
        _copy_rows(revoked.warmup),
    )


def _active_rows(tasks: Tasks, epochs: Mapping[TaskId, int]) -> list[TaskIdsWithEpochs]:
    rows = _copy_rows(tasks)
    for row in rows:
        row.assignment_epochs = [epochs[row.subtopology_id, p] for p in row.partitions]
    return rows


def _copy_rows(tasks: Tasks) -> list[TaskIdsWithEpochs]:
    return [TaskIdsWithEpochs(row.subtopology_id, row.partitions) for row in task_rows(tasks)]


def read_current(value: StreamsGroupCurrentMemberAssignmentValue) -> CurrentTasks:
    """Return a member's tasks. An unknown state, of a later Kafka, is UNKNOWN, as in Kafka; tasks
    without epochs, of an older one, are assigned in the epoch of the member."""
    known = value.state in StreamsMemberState.__members__.values()
    active = (*value.active_tasks, *value.active_tasks_pending_revocation)
    epochs = {task: epoch for row in active for task, epoch in _epochs(row, value.member_epoch)}
    return CurrentTasks(
        StreamsMemberState(value.state) if known else StreamsMemberState.UNKNOWN,
        value.member_epoch,
        value.previous_member_epoch,
        TaskAssignment(
            read_tasks(value.active_tasks),
            read_tasks(value.standby_tasks),
            read_tasks(value.warmup_tasks),
        ),
        TaskAssignment(
            read_tasks(value.active_tasks_pending_revocation),
            read_tasks(value.standby_tasks_pending_revocation),
            read_tasks(value.warmup_tasks_pending_revocation),
        ),
        epochs,
    )


def _epochs(row: TaskIdsWithEpochs, member_epoch: int) -> list[tuple[TaskId, int]]:
    tasks = [(row.subtopology_id, partition) for partition in row.partitions]
    epochs = row.assignment_epochs or []
    if len(epochs) != len(tasks):
        epochs = [member_epoch] * len(tasks)
    return list(zip(tasks, epochs, strict=True))
