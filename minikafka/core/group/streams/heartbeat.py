"""StreamsGroupHeartbeat: members of a streams group join, reconcile and leave (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from minikafka.core.group.modern.admission import check_member, check_room, fenced
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.metadata_hash import hash_of
from minikafka.core.group.streams.assignor import TaskMember, assign
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.core.group.streams.endpoints import partitions_by_endpoint
from minikafka.core.group.streams.group import NOT_VALIDATED, StreamsGroup
from minikafka.core.group.streams.member import (
    NOT_JOINED,
    StreamsGroupMember,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.streams.reconciliation import CurrentTasks, reconcile
from minikafka.core.group.streams.tasks import (
    NO_TASKS,
    TaskAssignment,
    Tasks,
    read_tasks,
    task_rows,
)
from minikafka.core.group.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    check_topology,
    configure,
    required_topics,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS, LEAVES_FOR_NOW
from minikafka.protocol.messages.streams_group_heartbeat import (
    Status,
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from minikafka.protocol.messages.streams_group_log import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from minikafka.protocol.messages.streams_topology import KeyValue, TaskIds

_FIRST_EPOCH: Final = 2  # a member whose assignment is delayed has the epoch 1
_STANDBY_REPLICAS: Final = "num.standby.replicas"


class StreamsHeartbeat(NamedTuple):
    """A StreamsGroupHeartbeat request and the client that has sent it."""

    request: StreamsGroupHeartbeatRequest
    client_id: str = ""
    client_host: str = ""

    @property
    def owned(self) -> TaskAssignment | None:
        """The tasks that the member owns; None if the request has none of the fields."""
        request = self.request
        active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
        if active is None or standby is None or warmup is None:
            return None
        return TaskAssignment(read_tasks(active), read_tasks(standby), read_tasks(warmup))


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatResult:
    """The response to a heartbeat, and the internal topics that the broker is to create."""

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = field(default_factory=dict)


# ---- the request


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError for a request that no member may send: INVALID_REQUEST,
    STREAMS_INVALID_TOPOLOGY."""
    problem = _unsupported(request) or _misplaced(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.topology is not None:
        check_topology(_stored_topology(request.topology))


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the problem of a field that Kafka 4.2 does not support either."""
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.task_offsets is not None:
        return "TaskOffsets are not supported yet."
    if request.task_end_offsets is not None:
        return "TaskEndOffsets are not supported yet."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    subtopologies = () if request.topology is None else request.topology.subtopologies
    if any(each.source_topic_regex for each in subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _misplaced(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Return the problem of a field that is missing, or set where it must not be."""
    tasks = {
        "ActiveTasks": request.active_tasks,
        "StandbyTasks": request.standby_tasks,
        "WarmupTasks": request.warmup_tasks,
    }
    for text, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId")):
        if not text.strip():
            return f"{name} can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch == JOINS:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        for name, rows in tasks.items():
            if rows is None or rows:
                return f"{name} must be empty when (re-)joining."
        if request.topology is None:
            return "Topology must be non-null when (re-)joining."
    elif request.member_epoch == LEAVES_FOR_NOW:
        return "InstanceId can't be null."
    elif request.member_epoch < LEAVES_FOR_NOW:
        epoch = request.member_epoch
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    if len({rows is None for rows in tasks.values()}) > 1:
        return "If one task-type is non-null, all must be non-null."
    if request.member_epoch != JOINS and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None


def _stored_topology(topology: Topology) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(topology.epoch, topology.subtopologies)


# ---- a member that joins or stays


def heartbeat(
    changes: GroupChanges[StreamsGroup],
    facts: StreamsHeartbeat,
    image: MetadataImage,
    config: StreamsGroupConfig,
) -> StreamsHeartbeatResult:
    """Process the heartbeat of a member that joins or stays.

    The steps are Kafka's: the member's metadata, the topology and its topics, the group epoch, the
    target assignment, the member's assignment. A group with ``delay`` waits for the
    assignment. Raises KafkaError; then ``changes`` may have records, which the caller takes back.
    """
    group, request = changes.group, facts.request
    member_id = request.member_id
    _admit(group, facts, config)
    before = group.current.get(member_id, NOT_JOINED)
    raised = _store_metadata(changes, facts)
    is_new = group.topology is None
    _store_topology(changes, request.topology)
    status = _stale_status(group, member_id)
    configured = _configure(changes, image, is_new=is_new, raised=raised, config=config)
    _check_owned(configured, request)
    if group.epoch > group.target_epoch and group.delay is None:
        assign_tasks(changes, configured)
    current = _reconcile(changes, facts)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = member_id
    response = StreamsGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        status=[*status, *_statuses(group, configured)],
    )
    if request.member_epoch == JOINS or current.assigned != before.assigned:
        response.active_tasks = task_rows(current.assigned.active)
        response.standby_tasks = task_rows(current.assigned.standby)
        response.warmup_tasks = task_rows(current.assigned.warmup)
        if group.members[member_id].endpoint is not None:
            group.endpoint_epoch += 1
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = partitions_by_endpoint(group, configured, image)
    response.endpoint_information_epoch = group.endpoint_epoch
    return StreamsHeartbeatResult(response, configured.missing)


def _statuses(group: StreamsGroup, configured: ConfiguredTopology) -> list[Status]:
    statuses = []
    if group.epoch > group.target_epoch and group.delay is not None:
        detail = "Assignment delayed due to the configured initial rebalance delay."
        statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, detail))
    if configured.problem is not None:
        statuses.append(configured.problem)
    if group.shutdown_by is not None:
        detail = (
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a "
            "shutdown for the entire application."
        )
        statuses.append(Status(StatusCode.SHUTDOWN_APPLICATION, detail))
    return statuses


# ---- admission


def _admit(group: StreamsGroup, facts: StreamsHeartbeat, config: StreamsGroupConfig) -> None:
    """Check that the sender has a known member epoch, or that there is room for it to join.

    As in Kafka 4.2 a full group refuses also a member that joins again. Raises KafkaError:
    GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    epoch = facts.request.member_epoch
    if epoch == JOINS:
        check_room(group, config.max_size)
        return
    known = require_member(group, facts.request.member_id)
    if epoch != known.member_epoch and not _lost_response(known, facts):
        raise fenced(group, epoch, known.member_epoch)


def require_member(group: StreamsGroup, member_id: str) -> CurrentTasks:
    """Return the tasks of a member. Raises KafkaError: UNKNOWN_MEMBER_ID."""
    check_member(group, member_id)
    return group.current.get(member_id, NOT_JOINED)


def _lost_response(known: CurrentTasks, facts: StreamsHeartbeat) -> bool:
    """Whether the member may have missed the response that raised its epoch."""
    owned, assigned = facts.owned, known.assigned
    return (
        facts.request.member_epoch == known.previous_member_epoch < known.member_epoch
        and owned is not None
        and _is_within(owned.active, assigned.active)
        and _is_within(owned.standby, assigned.standby)
        and _is_within(owned.warmup, assigned.warmup)
    )


def _is_within(owned: Tasks, assigned: Tasks) -> bool:
    return all(some <= assigned.get(name, frozenset()) for name, some in owned.items())


def _store_metadata(changes: GroupChanges[StreamsGroup], facts: StreamsHeartbeat) -> bool:
    """Store the metadata of a member. Return whether it is new, or has changed."""
    group, request = changes.group, facts.request
    known = group.members.get(request.member_id)
    new = _described(known or StreamsGroupMember(), facts)
    if new == known:
        return False
    key = StreamsGroupMemberMetadataKey(group.group_id, request.member_id)
    changes.write(key, stored_metadata(new))
    return True


def _described(known: StreamsGroupMember, facts: StreamsHeartbeat) -> StreamsGroupMember:
    """Return the metadata of a member: the fields of the request, else the known ones."""
    request = facts.request
    timeout_ms, endpoint = request.rebalance_timeout_ms, request.user_endpoint
    return StreamsGroupMember(
        known.instance_id,
        known.rack_id if request.rack_id is None else request.rack_id,
        facts.client_id,
        facts.client_host,
        known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        known.topology_epoch if request.topology is None else request.topology.epoch,
        known.process_id if request.process_id is None else request.process_id,
        known.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        known.client_tags
        if request.client_tags is None
        else {tag.key: tag.value for tag in request.client_tags},
    )


# ---- the topology and the group epoch


def _store_topology(changes: GroupChanges[StreamsGroup], topology: Topology | None) -> None:
    """Store the topology of the first member. Raises KafkaError: INVALID_REQUEST."""
    group = changes.group
    known = group.topology
    if known is None:
        if topology is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                "The member has sent no topology, and the group has none.",
            )
        changes.write(StreamsGroupTopologyKey(group.group_id), _stored_topology(topology))
    elif topology is not None and topology.epoch >= known.epoch:
        sent = {each.subtopology_id: each for each in topology.subtopologies}
        stored = {each.subtopology_id: each for each in known.subtopologies}
        if topology.epoch != known.epoch or sent != stored:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _stale_status(group: StreamsGroup, member_id: str) -> list[Status]:
    epoch = group.members[member_id].topology_epoch
    newest = epoch if group.topology is None else group.topology.epoch
    if epoch >= newest:
        return []
    detail = f"The member's topology epoch {epoch} is behind the group's topology epoch {newest}."
    return [Status(StatusCode.STALE_TOPOLOGY, detail)]


def _configure(
    changes: GroupChanges[StreamsGroup],
    image: MetadataImage,
    *,
    is_new: bool,
    raised: bool,
    config: StreamsGroupConfig,
) -> ConfiguredTopology:
    """Validate the topology against new topics. Raise the group epoch if ``raised``, or if the
    topics, their validity or the configured number of standby tasks have changed."""
    group, topology = changes.group, changes.group.topology
    assert topology is not None, "the first member has sent it"
    seen, configured = group.metadata_hash, group.configured
    if is_new or configured is None or group.image is not image:
        seen = hash_of(required_topics(topology), image)
        if is_new or configured is None or seen != group.metadata_hash:
            configured = configure(topology, image)
    validated = topology.epoch if configured.is_ready else NOT_VALIDATED
    configs = {_STANDBY_REPLICAS: str(config.standby_replicas)}
    stored = (group.metadata_hash, group.validated_epoch, group.assignment_configs)
    if raised or (seen, validated, configs) != stored:
        rows = [KeyValue(*each) for each in configs.items()]
        epoch = group.epoch + 1 if group.epoch else _FIRST_EPOCH
        value = StreamsGroupMetadataValue(epoch, seen, validated, rows)
        changes.write(StreamsGroupMetadataKey(group.group_id), value)
    group.image, group.configured = image, configured
    return configured


def _check_owned(configured: ConfiguredTopology, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError (INVALID_REQUEST) for tasks that the topology does not have."""
    if not configured.is_ready or configured.subtopologies is None:
        return
    for rows in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for row in rows or ():
            _check_tasks(configured, row)


def _check_tasks(configured: ConfiguredTopology, row: TaskIds) -> None:
    name, subtopologies = row.subtopology_id, configured.subtopologies or {}
    if name not in subtopologies:
        problem = f"Subtopology {name} does not exist in the topology."
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    tasks = subtopologies[name].tasks
    for partition in row.partitions:
        if not 0 <= partition < tasks:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task {partition} for subtopology {name} is invalid. Number of tasks for this "
                f"subtopology: {tasks}",
            )


# ---- tasks


def assign_tasks(changes: GroupChanges[StreamsGroup], configured: ConfiguredTopology) -> None:
    """Compute the target assignment of the group epoch, and store changed targets. Without the
    topics that the topology needs no member gets tasks."""
    group, name = changes.group, changes.group.group_id
    targets = dict.fromkeys(group.members, NO_TASKS)
    if configured.is_ready and configured.subtopologies is not None:
        members = {
            member_id: TaskMember(member.process_id, group.targets.get(member_id, NO_TASKS))
            for member_id, member in group.members.items()
        }
        replicas = int(group.assignment_configs[_STANDBY_REPLICAS])
        targets = assign(members, configured.subtopologies, replicas)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            key = StreamsGroupTargetAssignmentMemberKey(name, member_id)
            changes.write(key, stored_target(target))
    changes.write(
        StreamsGroupTargetAssignmentMetadataKey(name),
        StreamsGroupTargetAssignmentMetadataValue(group.epoch),
    )


def _reconcile(changes: GroupChanges[StreamsGroup], facts: StreamsHeartbeat) -> CurrentTasks:
    """Take a member one step towards its target. Return its tasks.

    While the assignment is delayed the target is empty. Raises KafkaError: FENCED_MEMBER_EPOCH.
    """
    group, member_id = changes.group, facts.request.member_id
    before = group.current.get(member_id, NOT_JOINED)
    epoch, target = group.target_epoch, group.targets.get(member_id, NO_TASKS)
    if group.epoch > epoch:
        epoch, target = max(1, epoch), NO_TASKS
    process_id = group.members[member_id].process_id
    current = reconcile(before, epoch, target, process_id, group.holders, facts.owned)
    if current is not before:
        key = StreamsGroupCurrentMemberAssignmentKey(group.group_id, member_id)
        changes.write(key, stored_current(current))
    return current


# ---- members that leave


def fence_members(changes: GroupChanges[StreamsGroup], member_ids: Iterable[str]) -> None:
    """Remove members, by tombstones in Kafka's order. The group epoch rises, so that the next
    heartbeat assigns their tasks."""
    group, name = changes.group, changes.group.group_id
    for member_id in member_ids:
        changes.write(StreamsGroupCurrentMemberAssignmentKey(name, member_id), None)
        changes.write(StreamsGroupTargetAssignmentMemberKey(name, member_id), None)
        changes.write(StreamsGroupMemberMetadataKey(name, member_id), None)
    configs = [KeyValue(*each) for each in group.assignment_configs.items()]
    value = StreamsGroupMetadataValue(
        group.epoch + 1, group.metadata_hash, group.validated_epoch, configs
    )
    changes.write(StreamsGroupMetadataKey(name), value)
