"""What a plan wants written to ZooKeeper, what came of it, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from minikafka.core.controller.context import ControllerContext
from minikafka.kernel.cluster import LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from minikafka.kernel.ports import CoordinationError

State = TypeVar("State")
Subject = TypeVar("Subject")

# State znodes as read; a partition without one is not in it.
States: TypeAlias = Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
# What became of each write: what is there now, with its version, or why it failed.
WriteResults: TypeAlias = Mapping[TopicPartition, LeaderAndIsr | CoordinationError]


@dataclass(frozen=True, slots=True)
class StateChange(Generic[Subject, State]):
    """One partition or replica went from ``before`` to ``after``; for the state-change log."""

    subject: Subject
    before: State
    after: State
    leadership: LeaderIsrAndControllerEpoch | None = None


@dataclass(frozen=True, slots=True)
class Refusal(Generic[Subject, State]):
    """One partition or replica could not go from ``before`` to ``after``."""

    subject: Subject
    before: State
    after: State
    reason: str


def newer_controller(context: ControllerContext, state: LeaderIsrAndControllerEpoch) -> str | None:
    """Why a znode that a newer controller wrote must not be touched; ``None`` if ours is newest."""
    if state.controller_epoch <= context.epoch:
        return None
    return (
        "the LeaderAndIsr path was already written by another controller: the one with epoch "
        f"{context.epoch} went through a soft failure and another was elected with epoch "
        f"{state.controller_epoch}"
    )
