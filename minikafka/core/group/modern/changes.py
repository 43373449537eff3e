"""The records that a decision about a group writes, and how they are taken back."""

from __future__ import annotations

from typing import Generic, TypeVar

from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.records import (
    GroupRecord,
    ModernGroupKey,
    ModernGroupRecord,
    ModernGroupValue,
)

G = TypeVar("G", bound=ModernGroup)


class GroupChanges(Generic[G]):
    """The records that a decision writes, applied to the group at once.

    What is decided next builds on them, also for the next request, before they are in the log.
    ``undo`` takes them back if they do not get there. Kafka: the snapshots of ``TimelineHashMap``.
    """

    def __init__(self, group: G) -> None:
        self.group = group
        self.records: list[GroupRecord] = []
        self._before: list[tuple[ModernGroupKey, ModernGroupValue | None]] = []

    def write(self, key: ModernGroupKey, value: ModernGroupValue | None) -> None:
        self._before.append((key, self.group.value_of(key)))
        self.group.replay(key, value)
        self.records.append(ModernGroupRecord(key, value))

    def undo(self) -> None:
        for key, value in reversed(self._before):
            self.group.replay(key, value)
        self.group.image = None  # what it was seen to have is not stored
        self._before.clear()
        self.records.clear()
