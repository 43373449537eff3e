"""The states of partitions and replicas, and from which states each may be entered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class PartitionState(IntEnum):
    """Where a partition stands, with Kafka's numbers."""

    NEW = 0  # has replicas, never had a leader
    ONLINE = 1  # has a leader
    OFFLINE = 2  # had a leader, and lost it
    NON_EXISTENT = 3  # never made, or deleted

    def __str__(self) -> str:
        return _PARTITION_NAMES[self]


class ReplicaState(IntEnum):
    """Where one replica of a partition stands, with Kafka's numbers."""

    NEW = 1  # just made; may only become a follower
    ONLINE = 2  # may lead or follow
    OFFLINE = 3  # its broker is gone, or it was stopped
    DELETION_STARTED = 4  # its broker was told to delete it
    DELETION_SUCCESSFUL = 5  # its broker has deleted it
    DELETION_INELIGIBLE = 6  # deletion failed, or cannot be tried now
    NON_EXISTENT = 7  # forgotten

    def __str__(self) -> str:
        return _REPLICA_NAMES[self]


_PARTITION_NAMES = {
    PartitionState.NEW: "NewPartition",
    PartitionState.ONLINE: "OnlinePartition",
    PartitionState.OFFLINE: "OfflinePartition",
    PartitionState.NON_EXISTENT: "NonExistentPartition",
}

_REPLICA_NAMES = {
    ReplicaState.NEW: "NewReplica",
    ReplicaState.ONLINE: "OnlineReplica",
    ReplicaState.OFFLINE: "OfflineReplica",
    ReplicaState.DELETION_STARTED: "ReplicaDeletionStarted",
    ReplicaState.DELETION_SUCCESSFUL: "ReplicaDeletionSuccessful",
    ReplicaState.DELETION_INELIGIBLE: "ReplicaDeletionIneligible",
    ReplicaState.NON_EXISTENT: "NonExistentReplica",
}

PARTITION_PREDECESSORS: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}

_STOPPABLE = frozenset(
    {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    }
)

REPLICA_PREDECESSORS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _STOPPABLE,
    ReplicaState.OFFLINE: _STOPPABLE,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.DELETION_STARTED, ReplicaState.OFFLINE}
    ),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}


class ControllerState(IntEnum):
    """What the controller is busy with: Kafka's ``ControllerState`` gauge."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


# The part of a timer's name before "RateAndTimeMs"; states without a row have no timer in Kafka.
RATE_AND_TIME_METRICS: Mapping[ControllerState, str] = {
    ControllerState.CONTROLLER_CHANGE: "ControllerChange",
    ControllerState.BROKER_CHANGE: "LeaderElection",
    ControllerState.TOPIC_CHANGE: "TopicChange",
    ControllerState.TOPIC_DELETION: "TopicDeletion",
    ControllerState.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignment",
    ControllerState.AUTO_LEADER_BALANCE: "AutoLeaderBalance",
    ControllerState.MANUAL_LEADER_BALANCE: "ManualLeaderBalance",
    ControllerState.CONTROLLED_SHUTDOWN: "ControlledShutdown",
    ControllerState.ISR_CHANGE: "IsrChange",
    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED: "LeaderAndIsrResponseReceived",
    ControllerState.LOG_DIR_CHANGE: "LogDirChange",
    ControllerState.CONTROLLER_SHUTDOWN: "ControllerShutdown",
    ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE: "UncleanLeaderElectionEnable",
    ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE: "TopicUncleanLeaderElectionEnable",
    ControllerState.LIST_PARTITION_REASSIGNMENT: "ListPartitionReassignment",
    ControllerState.UPDATE_FEATURES: "UpdateFeatures",
}
