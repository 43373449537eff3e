"""One transactional id as its coordinator holds it."""

from __future__ import annotations

from typing import Any

from minikafka.core.transaction.facts import NO_EPOCH, TransactionFacts
from minikafka.core.transaction.states import VALID_PREVIOUS_STATES, TransactionState
from minikafka.kernel.cluster import TopicPartition


class Transaction:
    """Kafka's ``TransactionMetadata``. ``facts`` are what its last replicated record says;
    ``pending`` is the state of the record that is on its way, if one is: until that is settled,
    nothing else may be.

    ``unmarked``, in a prepared state: the partitions that have no marker yet. ``markers`` stands
    for the markers being sent, None when there are none: news of others are stale.
    """

    __slots__ = ("facts", "markers", "pending", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, facts: TransactionFacts) -> None:
        self.transactional_id = transactional_id
        self.facts = facts
        self.pending: TransactionState | None = None
        self.unmarked: set[TopicPartition] = set()
        self.markers: Any = None

    @property
    def is_new(self) -> bool:
        """Nothing of it is in the log yet."""
        return self.facts.producer_epoch == NO_EPOCH

    @property
    def is_visible(self) -> bool:
        """Not to come, and not about to go."""
        return not self.is_new and self.pending is not TransactionState.DEAD

    def prepare(self, state: TransactionState) -> None:
        """A record that leads to ``state`` is about to be written."""
        assert self.pending is None, f"{self.transactional_id}: {self.pending} is on its way"
        previous = VALID_PREVIOUS_STATES[state]
        assert self.facts.state in previous, f"{self.transactional_id}: {self.facts.state}>{state}"
        self.pending = state

    def become(self, facts: TransactionFacts) -> None:
        """Its record is replicated."""
        self.facts = facts
        self.pending = None
        self.unmarked = set(facts.partitions) if facts.state.is_prepared else set()
