"""States of partitions and replicas, legal transitions, and invariants of the state znode.

``PARTITION_PREDECESSORS`` and ``REPLICA_PREDECESSORS`` are Kafka's transition tables: from which
states each state may be entered. ``check_first_state`` and ``check_next_state`` assert what must
hold for every state that a controller writes:

- the leader is in the ISR, or there is no leader;
- a first ISR consists of assigned replicas. A later ISR only loses replicas; the one exception is
  an unclean election, which makes the new leader the whole ISR;
- the leader epoch is greater than the one that it replaces;
- the state carries the epoch of the controller that writes it, which is not older than the epoch of
  the controller that wrote the state before.

They are called where a state is made (``election``, ``replica_machine``, ``reassignment``) and
again where it is written (``controller/state_machines``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Generic, TypeAlias, TypeVar

from minikafka.kernel.cluster import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import CoordinationError


class PartitionState(IntEnum):
    """The state of a partition, with Kafka's numbers."""

    NEW = 0  # has replicas, never had a leader
    ONLINE = 1  # has a leader
    OFFLINE = 2  # had a leader, and lost it
    NON_EXISTENT = 3  # never made, or deleted

    def __str__(self) -> str:
        return _PARTITION_NAMES[self]


class ReplicaState(IntEnum):
    """The state of one replica of a partition, with Kafka's numbers."""

    NEW = 1  # created by a reassignment or with its topic; may only become a follower
    ONLINE = 2  # may lead or follow
    OFFLINE = 3  # its broker is dead, or it was stopped
    DELETION_STARTED = 4  # its broker was sent StopReplica with deletion
    DELETION_SUCCESSFUL = 5  # its broker has deleted it
    DELETION_INELIGIBLE = 6  # deletion failed, or cannot be tried now
    NON_EXISTENT = 7  # not in the assignment any more

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


AnyState = TypeVar("AnyState", PartitionState, ReplicaState)


class ControllerState(IntEnum):
    """The kind of event that the controller is handling: Kafka's ``ControllerState`` gauge."""

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


def machines() -> Mapping[str, Any]:
    """Return the two state machines as JSON values: their states, and the allowed transitions as
    pairs of names."""
    return {
        "partition": _machine(PARTITION_PREDECESSORS),
        "replica": _machine(REPLICA_PREDECESSORS),
    }


def _machine(predecessors: Mapping[AnyState, frozenset[AnyState]]) -> Mapping[str, Any]:
    return {
        "states": [{"name": str(state), "number": int(state)} for state in predecessors],
        "transitions": [
            {"before": str(before), "after": str(after)}
            for after, allowed in predecessors.items()
            for before in sorted(allowed)
        ],
    }


State = TypeVar("State")
Subject = TypeVar("Subject")

# State znodes as they were read. Partitions without a state znode are left out.
States: TypeAlias = Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
# The result of each write: what was written, with its new version, or the error.
WriteResults: TypeAlias = Mapping[TopicPartition, LeaderAndIsr | CoordinationError]


@dataclass(frozen=True, slots=True)
class StateChange(Generic[Subject, State]):
    """A transition of a partition or replica, for the state-change log."""

    subject: Subject
    before: State
    after: State
    leadership: LeaderIsrAndControllerEpoch | None = None


@dataclass(frozen=True, slots=True)
class RefusedChange(Generic[Subject, State]):
    """A transition that is not possible, and why."""

    subject: Subject
    before: State
    after: State
    reason: str


def check_first_state(
    state: LeaderIsrAndControllerEpoch, controller_epoch: int, assignment: ReplicaAssignment
) -> None:
    """Assert the invariants of a partition's first state."""
    first = state.leader_and_isr
    assert state.controller_epoch == controller_epoch, "a state of another controller's term"
    assert set(first.isr) <= set(assignment.replicas), f"{first}: ISR not among {assignment}"
    assert first.leader in first.isr, f"{first}: leader not in the ISR"
    assert first.leader_epoch == 0, f"{first}: a first leader epoch is 0"


def check_next_state(
    before: LeaderIsrAndControllerEpoch,
    after: LeaderIsrAndControllerEpoch,
    controller_epoch: int,
) -> None:
    """Assert the invariants of a state that replaces ``before``, which may come from a tool or from
    another release and is not checked itself."""
    old, new = before.leader_and_isr, after.leader_and_isr
    assert after.controller_epoch == controller_epoch, "a state of another controller's term"
    assert before.controller_epoch <= controller_epoch, "a newer controller wrote this state"
    assert new.leader_epoch > old.leader_epoch, f"{old} -> {new}: the leader epoch must grow"
    assert set(new.isr) <= set(old.isr) or new.isr == (new.leader,), f"{old} -> {new}: ISR grows"
    inherited = new.leader == old.leader and old.leader not in old.isr
    assert new.leader in (NO_LEADER, *new.isr) or inherited, f"{old} -> {new}: leader not in ISR"
    assert new.zk_version == old.zk_version, "a write must name the version that it replaces"


def newer_controller(controller_epoch: int, state: LeaderIsrAndControllerEpoch) -> str | None:
    """Return why the controller of ``controller_epoch`` must not overwrite ``state``: a newer
    controller wrote it. None if it may be overwritten."""
    if state.controller_epoch <= controller_epoch:
        return None
    return (
        "the LeaderAndIsr path was already written by another controller: the one with epoch "
        f"{controller_epoch} went through a soft failure and another was elected with epoch "
        f"{state.controller_epoch}"
    )
