"""The tasks of a member: active, standby and warm-up ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field
from typing import Final, TypeAlias

from minikafka.core.group.modern.partitions import overlap
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.streams_group_log import TaskIdsWithEpochs
from minikafka.protocol.messages.streams_topology import TaskIds

# A subtopology and a partition of its sources.
TaskId: TypeAlias = tuple[str, int]
# Subtopology to partitions, never an empty set. Treated as immutable.
Tasks: TypeAlias = dict[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """Tasks by kind: a member processes ``active`` ones, keeps copies of the state of ``standby``
    ones, and restores the state of ``warmup`` ones before it becomes active for them."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, other: TaskAssignment) -> bool:
        """Return whether a task is in both, as the same kind."""
        return (
            overlap(self.active, other.active)
            or overlap(self.standby, other.standby)
            or overlap(self.warmup, other.warmup)
        )


NO_TASKS: Final = TaskAssignment()


def of_task_ids(tasks: Iterable[TaskId]) -> Tasks:
    """Group tasks by subtopology."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for name, partition in tasks:
        found[name].add(partition)
    return {name: frozenset(partitions) for name, partitions in found.items()}


def task_rows(tasks: Tasks) -> list[TaskIds]:
    """Return tasks as messages and records have them."""
    return [TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def read_tasks(rows: Iterable[TaskIds | TaskIdsWithEpochs]) -> Tasks:
    return {row.subtopology_id: frozenset(row.partitions) for row in rows if row.partitions}
