"""The states of a transactional id, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class TransactionState(IntEnum):
    """Kafka's numbers, as they stand in ``__transaction_state``; ``title`` is Kafka's name.

    DEAD and PREPARE_EPOCH_FENCE are never in a record: an expired id is deleted, and an epoch is
    fenced by the very record that begins the abort.
    """

    title: str

    def __new__(cls, number: int, title: str) -> TransactionState:
        state = int.__new__(cls, number)
        state._value_ = number
        state.title = title
        return state

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    @property
    def is_prepared(self) -> bool:
        """It is decided, and markers are to be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        return self in VALID_PREVIOUS_STATES[TransactionState.DEAD]


S = TransactionState

VALID_PREVIOUS_STATES: Mapping[TransactionState, frozenset[TransactionState]] = MappingProxyType(
    {
        S.EMPTY: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.ONGOING: frozenset({S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.PREPARE_COMMIT: frozenset({S.ONGOING}),
        S.PREPARE_ABORT: frozenset({S.ONGOING, S.PREPARE_EPOCH_FENCE}),
        S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
        S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
        S.DEAD: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
        S.PREPARE_EPOCH_FENCE: frozenset({S.ONGOING}),
    }
)

STATES_BY_TITLE: Mapping[str, TransactionState] = MappingProxyType({s.title: s for s in S})
STATES_BY_NUMBER: Mapping[int, TransactionState] = MappingProxyType({int(s): s for s in S})
