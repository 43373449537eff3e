"""The states of a group, and from which states each may be entered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class GroupState(Enum):
    """Values are Kafka's names, as DescribeGroups and ListGroups tell them.

    EMPTY: no members; it is kept for its offsets, or never had members.
    PREPARING_REBALANCE: members are to join; their JoinGroup requests wait.
    COMPLETING_REBALANCE: all have joined; the leader is to assign, SyncGroup requests wait.
    STABLE: every member has its assignment.
    DEAD: deleted, expired, or coordinated elsewhere. The end.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Mapping[GroupState, frozenset[GroupState]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.PREPARING_REBALANCE: frozenset(
            {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
        ),
        GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
        GroupState.DEAD: frozenset(GroupState),
    }
)
