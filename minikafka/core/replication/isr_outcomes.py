"""What has become of an ISR that a leader has proposed (Kafka's handleAlterPartitionError)."""

from __future__ import annotations

from typing import Final, TypeAlias

from minikafka.kernel.cluster import LeaderAndIsr
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IsrWritten:
    """The proposal is in the state znode, at ``zk_version``. ``is_announced``: the controller has
    written it, or knows of it."""

    zk_version: int
    is_announced: bool


@dataclass(frozen=True, slots=True)
class IsrLost:
    """The controller has written another state, or will not write this one. Its LeaderAndIsr
    follows; until then no other change is proposed."""

    reason: str


@dataclass(frozen=True, slots=True)
class IsrWithdrawn:
    """The controller has refused a member, and nothing was written. Another change may be
    proposed."""

    reason: str


@dataclass(frozen=True, slots=True)
class IsrFailed:
    """It is not known whether the proposal was written. It is written again."""

    error: str


IsrOutcome: TypeAlias = IsrWritten | IsrLost | IsrWithdrawn | IsrFailed

_WITHDRAWN: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
_LOST: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


def outcome_of(requested: LeaderAndIsr, result: LeaderAndIsr | ErrorCode) -> IsrOutcome:
    """Return the outcome of AlterPartition for one partition, from the state in the response or its
    error. ``requested`` names the version that the proposal replaces.

    A state of another leader epoch, or of an older version, is that of a response which a newer
    LeaderAndIsr has overtaken. One of the version that was to be replaced says that nothing was
    written."""
    if isinstance(result, ErrorCode):
        if result in _WITHDRAWN:
            return IsrWithdrawn(result.name)
        return IsrLost(result.name) if result in _LOST else IsrFailed(result.name)
    if result.leader_epoch == requested.leader_epoch:
        if result.zk_version == requested.zk_version:
            return IsrWithdrawn(f"the controller keeps {result}")
        if result.zk_version > requested.zk_version and set(result.isr) == set(requested.isr):
            return IsrWritten(result.zk_version, is_announced=True)
    return IsrLost(f"the controller has {result}")
