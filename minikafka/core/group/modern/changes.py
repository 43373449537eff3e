"""``GroupChanges``: the records of one decision about a group, applied and possibly undone."""

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
    """The records that a decision writes. ``write`` applies them to the group at once.

    Later decisions build on them before they are in the log. ``undo`` restores the group if the
    append fails. Kafka: the snapshots of ``TimelineHashMap``.
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
        self.group.image = None  # the epoch for this image may be undone
        self._before.clear()
        self.records.clear()
