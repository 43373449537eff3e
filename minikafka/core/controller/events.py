"""What can happen to a controller: one frozen dataclass per event, with the state it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from minikafka.core.controller.states import ControllerState
from minikafka.kernel.cluster import ElectionType, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class ControllerEvent:
    """A fact or a hint. Hints (watches) carry no data: whoever takes them reads anew."""

    state: ClassVar[ControllerState] = ControllerState.IDLE
    # What somebody hears who asked this of a broker that is not, or no longer, the controller.
    moved: ClassVar[ErrorCode] = ErrorCode.NOT_CONTROLLER


# -------------------------------------------------------------------------- election, the session


@dataclass(frozen=True, slots=True)
class Startup(ControllerEvent):
    """The broker is registered: watch /controller and stand for election."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class ControllerChange(ControllerEvent):
    """/controller was made or its data changed."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class Reelect(ControllerEvent):
    """/controller is gone, or it is time to try again."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class Expire(ControllerEvent):
    """The ZooKeeper session is over, and with it every claim to be the controller."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class NewSession(ControllerEvent):
    """The broker is registered in a new ZooKeeper session (RegisterBrokerAndReelect)."""

    state = ControllerState.CONTROLLER_CHANGE


@dataclass(frozen=True, slots=True)
class ShutdownEventThread(ControllerEvent):
    """The broker stops; this is the last event."""

    state = ControllerState.CONTROLLER_SHUTDOWN


# ----------------------------------------------------------------------------------------- hints


@dataclass(frozen=True, slots=True)
class BrokerChange(ControllerEvent):
    """The children of /brokers/ids changed."""

    state = ControllerState.BROKER_CHANGE


@dataclass(frozen=True, slots=True)
class DeadReplicasLeave(ControllerEvent):
    """It is time to take more replicas of dead brokers out of ISRs in which others lead."""

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
    """/admin/reassign_partitions was made, changed, or taken away."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange(ControllerEvent):
    """The state znode of a partition changed that is (or was) being reassigned."""

    partition: TopicPartition
    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class PreferredReplicaElection(ControllerEvent):
    """/admin/preferred_replica_election was made, changed, or taken away."""

    state = ControllerState.MANUAL_LEADER_BALANCE


# -------------------------------------------------------------------------- the controller's own


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


# --------------------------------------------------------------------------- requests and answers


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection(ControllerEvent):
    """An administrator wants leaders elected."""

    partitions: frozenset[TopicPartition]
    election_type: ElectionType
    state = ControllerState.MANUAL_LEADER_BALANCE


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment(ControllerEvent):
    """An administrator wants replicas moved; ``None`` gives up what is under way."""

    targets: Mapping[TopicPartition, tuple[int, ...] | None]
    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments(ControllerEvent):
    """An administrator asks what is on the move; ``None`` for all."""

    partitions: frozenset[TopicPartition] | None
    state = ControllerState.LIST_PARTITION_REASSIGNMENT


@dataclass(frozen=True, slots=True)
class ControlledShutdown(ControllerEvent):
    """A broker asks to be relieved of its leaderships. ``broker_epoch`` -1: it did not say."""

    broker_id: int
    broker_epoch: int
    state = ControllerState.CONTROLLED_SHUTDOWN
    moved = ErrorCode.STALE_CONTROLLER_EPOCH


@dataclass(frozen=True, slots=True)
class BrokerAnswer(ControllerEvent):
    """A broker answered a request that was sent under ``controller_epoch``."""

    broker_id: int
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(BrokerAnswer):
    """``broker_epoch`` is the life of the broker that the request was meant for."""

    broker_epoch: int
    response: LeaderAndIsrResponse
    state = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponse(BrokerAnswer):
    error: ErrorCode
    state = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived(BrokerAnswer):
    """Errors of those partitions that the request said to delete."""

    error: ErrorCode
    partition_errors: Mapping[TopicPartition, ErrorCode]
    state = ControllerState.TOPIC_DELETION


@dataclass(frozen=True, slots=True)
class BrokerUnresponsive(ControllerEvent):
    """A live broker has fallen so far behind that its queue was dropped: it has to be told
    everything again."""

    broker_id: int
    state = ControllerState.BROKER_CHANGE
