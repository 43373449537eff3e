"""The controller's events: one dataclass each, with the controller state while it is handled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from minikafka.core.controller.request_batch import ControlRequest
from minikafka.core.controller.states import ControllerState
from minikafka.kernel.cluster import ElectionType, LeaderAndIsr, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.features import FeatureUpdate
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from minikafka.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """An event on the controller's queue. An event from a watch carries no data: its handler reads
    the current state from ZooKeeper."""

    state: ClassVar[ControllerState] = ControllerState.IDLE
    # The error for the event's caller if this broker is not, or no longer, the controller.
    moved: ClassVar[ErrorCode] = ErrorCode.NOT_CONTROLLER


# -------------------------------------------------------------------------- election, the session


@dataclass(frozen=True, slots=True)
class Startup(ControllerEvent):
    """The broker is registered: watch /controller and stand for election."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class ControllerChange(ControllerEvent):
    """/controller was created or its data changed."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class Reelect(ControllerEvent):
    """/controller was deleted, or the timer of the next election attempt fired."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class Expire(ControllerEvent):
    """The ZooKeeper session has expired: resign."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class NewSession(ControllerEvent):
    """The broker is registered in a new ZooKeeper session (RegisterBrokerAndReelect)."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class ShutdownEventThread(ControllerEvent):
    """The last event: the broker stops."""

    state = ControllerState.CONTROLLER_SHUTDOWN


# --------------------------------------------------------------------------------------- watches


@dataclass(frozen=True, slots=True)
class BrokerChange(ControllerEvent):
    """The children of /brokers/ids changed."""

    state = ControllerState.BROKER_CHANGE


@dataclass(frozen=True, slots=True)
class IsrRemovalsDue(ControllerEvent):
    """The timer of deferred ISR removals fired: remove the next slice of dead replicas."""

    state = ControllerState.BROKER_CHANGE


@dataclass(frozen=True, slots=True)
class BrokerModifications(ControllerEvent):
    """The data of /brokers/ids/<id> changed."""

    broker_id: int
    state = ControllerState.BROKER_CHANGE


@dataclass(frozen=True, slots=True)
class TopicChange(ControllerEvent):
    """The children of /brokers/topics changed."""

    state = ControllerState.TOPIC_CHANGE


@dataclass(frozen=True, slots=True)
class PartitionModifications(ControllerEvent):
    """The data of /brokers/topics/<topic> changed."""

    topic: str
    state = ControllerState.TOPIC_CHANGE


@dataclass(frozen=True, slots=True)
class TopicDeletion(ControllerEvent):
    """The children of /admin/delete_topics changed."""

    state = ControllerState.TOPIC_DELETION


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(ControllerEvent):
    """The children of /isr_change_notification changed."""

    state = ControllerState.ISR_CHANGE


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(ControllerEvent):
    """The children of /log_dir_event_notification changed."""

    state = ControllerState.LOG_DIR_CHANGE


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment(ControllerEvent):
    """/admin/reassign_partitions was created, changed or deleted."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(ControllerEvent):
    """The state znode of a partition that is (or was) being reassigned changed."""

    partition: TopicPartition
    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection(ControllerEvent):
    """/admin/preferred_replica_election was created, changed or deleted."""

    state = ControllerState.MANUAL_LEADER_BALANCE


# ---------------------------------------------------------------------- timers and configuration


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection(ControllerEvent):
    """The rebalance timer of the term ``controller_epoch`` fired: check the balance of leaders."""

    controller_epoch: int
    state = ControllerState.AUTO_LEADER_BALANCE


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable(ControllerEvent):
    """Unclean elections are allowed by default from now on."""

    state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable(ControllerEvent):
    """Unclean elections are allowed for a topic from now on."""

    topic: str
    state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE


# ------------------------------------------------------------------------- requests and responses


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection(ControllerEvent):
    """An administrator requests elections (ElectLeaders)."""

    partitions: tuple[TopicPartition, ...]  # each once
    election_type: ElectionType
    state = ControllerState.MANUAL_LEADER_BALANCE


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment(ControllerEvent):
    """An administrator requests reassignments; a target of None cancels the partition's one. Unless
    it ``may_change_factor``, each target must have as many replicas as the partition."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]
    may_change_factor: bool = True
    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments(ControllerEvent):
    """An administrator lists reassignments; None means all partitions."""

    partitions: frozenset[TopicPartition] | None
    state = ControllerState.LIST_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class AlterPartition(ControllerEvent):
    """Leader ``broker_id`` requests ISRs (KIP-497). Each state names the version that it
    replaces."""

    broker_id: int
    broker_epoch: int
    states: Mapping[TopicPartition, LeaderAndIsr]
    knows_ineligible: bool  # whether INELIGIBLE_REPLICA is an error that it knows
    state = ControllerState.ISR_CHANGE


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(ControllerEvent):
    """A broker requests a block of producer ids (KIP-730)."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures(ControllerEvent):
    """An administrator requests updates of finalized features (KIP-584). ``validate_only`` writes
    nothing, and ``all_or_none`` writes nothing if an update is refused."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool
    all_or_none: bool = False
    state = ControllerState.UPDATE_FEATURES


@dataclass(frozen=True, slots=True)
class ControlledShutdown(ControllerEvent):
    """A broker requests a controlled shutdown. ``broker_epoch`` is -1 if the request has none."""

    broker_id: int
    broker_epoch: int
    state = ControllerState.CONTROLLED_SHUTDOWN
    moved = ErrorCode.STALE_CONTROLLER_EPOCH


@dataclass(frozen=True, slots=True)
class BrokerResponse(ControllerEvent):
    """A broker responded to a request that was sent in the term of ``controller_epoch``."""

    broker_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(BrokerResponse):
    """``broker_epoch`` is the broker's epoch when the request was made; it changes with a
    restart."""

    broker_epoch: int
    response: LeaderAndIsrResponse
    state = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived(BrokerResponse):
    error: ErrorCode
    state = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived(BrokerResponse):
    """``partition_errors`` has the partitions that the request said to delete."""

    error: ErrorCode
    partition_errors: Mapping[TopicPartition, ErrorCode]
    state = ControllerState.TOPIC_DELETION


@dataclass(frozen=True, slots=True)
class BrokerUnresponsive(ControllerEvent):
    """A live broker's request queue was full and was dropped, so the broker needs the whole current
    state again."""

    broker_id: int
    state = ControllerState.BROKER_CHANGE


def response_event(
    broker_id: int, request: ControlRequest, response: Any
) -> ControllerEvent | None:
    """Return the event for the response to ``request``. As in Kafka there is none for a StopReplica
    that deletes nothing."""
    epoch = request.controller_epoch
    if isinstance(request, LeaderAndIsrRequest):
        return LeaderAndIsrResponseReceived(broker_id, epoch, request.broker_epoch, response)
    if isinstance(request, StopReplicaRequest):
        errors = _deletion_errors(request, response)
        if not errors:
            return None
        error = ErrorCode(response.error_code)
        return TopicDeletionStopReplicaResponseReceived(broker_id, epoch, error, errors)
    return UpdateMetadataResponseReceived(broker_id, epoch, ErrorCode(response.error_code))


def replica_errors(
    response: LeaderAndIsrResponse, topic_names: Mapping[UUID, str]
) -> dict[TopicPartition, ErrorCode]:
    """Return each replica's error in a LeaderAndIsr response. Topics that were deleted meanwhile
    are left out."""
    by_name = [(error.topic_name, error) for error in response.partition_errors]
    by_id = [
        (topic_names[topic.topic_id], error)
        for topic in response.topics
        if topic.topic_id in topic_names
        for error in topic.partition_errors
    ]
    return {
        TopicPartition(topic, error.partition_index): ErrorCode(error.error_code)
        for topic, error in (*by_name, *by_id)
    }


def _deletion_errors(
    request: StopReplicaRequest, response: StopReplicaResponse
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of the partitions that ``request`` deletes.

    If the request failed as a whole, the response may name no partition; then all of them failed.
    """
    deleted = [
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    ]
    errors = {
        TopicPartition(e.topic_name, e.partition_index): ErrorCode(e.error_code)
        for e in response.partition_errors
    }
    overall = ErrorCode(response.error_code)
    if overall is not ErrorCode.NONE:
        return {tp: errors.get(tp, overall) for tp in deleted}
    return {tp: errors[tp] for tp in deleted if tp in errors}
