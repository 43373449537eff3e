"""Delayed operations: parked until an event or their time-out completes them, exactly once."""

from minikafka.core.purgatory.operation import DelayedOperation
from minikafka.core.purgatory.purgatory import DEFAULT_PURGE_INTERVAL, Purgatory
from minikafka.core.purgatory.watchers import Watchers

__all__ = ["DEFAULT_PURGE_INTERVAL", "DelayedOperation", "Purgatory", "Watchers"]
