"""The steps by which a member of a streams group comes from its tasks to its target.

As in a consumer group, a member first revokes what its target lacks and stays in its epoch until it
has acknowledged that (UNREVOKED_TASKS). Then it takes the epoch of the target, and the free tasks
of the target (``TaskHolders``). As long as some are not free it is in UNRELEASED_TASKS. Kafka:
``CurrentAssignmentBuilder`` of streams groups.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from minikafka.core.group.modern.partitions import difference, intersection, union
from minikafka.core.group.streams.tasks import NO_TASKS, TaskAssignment, TaskId, Tasks
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass


class StreamsMemberState(IntEnum):
    """How far a member is with its reconciliation, by the numbers in the coordinator's records.

    STABLE: it has the tasks of the target of its epoch.
    UNREVOKED_TASKS: it has yet to acknowledge that it revoked tasks.
    UNRELEASED_TASKS: it is in the target's epoch, and waits for tasks of other members.
    UNKNOWN: a record of a later version has a state that this version does not know.
    """

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class CurrentTasks:
    """What a member has been assigned (Kafka's ``StreamsGroupCurrentMemberAssignmentValue``).

    ``assigned`` are the tasks that it may have. ``pending_revocation`` are those that it has to
    revoke; it holds them until it acknowledges that it did. ``epochs`` has, for each active task of
    both, the target epoch in which it was assigned: commits in older epochs are refused.
    """

    state: StreamsMemberState = StreamsMemberState.STABLE
    member_epoch: int = 0
    previous_member_epoch: int = 0
    assigned: TaskAssignment = NO_TASKS
    pending_revocation: TaskAssignment = NO_TASKS
    epochs: Mapping[TaskId, int] = field(default_factory=dict)


class TaskHolders:
    """The processes that hold tasks: their members have them assigned or pending revocation.

    A task is active in one process at most. Two members of one process never have the same task, of
    whatever kind: they would use the same directory."""

    class _Kinds(NamedTuple):
        active: Counter[str]
        copies: Counter[str]

    def __init__(self) -> None:
        self._holders: defaultdict[TaskId, TaskHolders._Kinds] = defaultdict(
            lambda: TaskHolders._Kinds(Counter(), Counter())
        )

    def add(self, process_id: str, current: CurrentTasks) -> None:
        self._count(process_id, current, 1)

    def remove(self, process_id: str, current: CurrentTasks) -> None:
        self._count(process_id, current, -1)

    def _count(self, process_id: str, current: CurrentTasks, amount: int) -> None:
        for tasks in (current.assigned, current.pending_revocation):
            for kind in (tasks.active, tasks.standby, tasks.warmup):
                for name, partitions in kind.items():
                    for partition in partitions:
                        is_active = kind is tasks.active
                        self._count_task((name, partition), process_id, is_active, amount)

    def _count_task(self, task: TaskId, process_id: str, is_active: bool, amount: int) -> None:
        kinds = self._holders[task]
        processes = kinds.active if is_active else kinds.copies
        processes[process_id] += amount
        if not processes[process_id]:
            del processes[process_id]
            if not (kinds.active or kinds.copies):
                del self._holders[task]

    def is_free_for_active(self, process_id: str, task: TaskId) -> bool:
        """Return whether no process has the active task, and this one no copy of its state."""
        kinds = self._holders.get(task)
        return kinds is None or not (kinds.active or process_id in kinds.copies)

    def is_free_for_copy(self, process_id: str, task: TaskId) -> bool:
        """Return whether this process has the task in no way."""
        kinds = self._holders.get(task)
        return kinds is None or (process_id not in kinds.active and process_id not in kinds.copies)


def reconcile(
    current: CurrentTasks,
    target_epoch: int,
    target: TaskAssignment,
    process_id: str,
    holders: TaskHolders,
    owned: TaskAssignment | None,
) -> CurrentTasks:
    """Return the next assignment of a member on its way to ``target``, after a heartbeat.

    Return ``current`` itself if there is no step to take. ``owned`` is what the heartbeat says that
    the member has; None if it did not say. ``holders`` include the member itself, with ``current``.

    Raise KafkaError (FENCED_MEMBER_EPOCH) in the state UNKNOWN, unless the member has nothing.
    """
    member_epoch = current.member_epoch
    match current.state:
        case StreamsMemberState.STABLE if member_epoch == target_epoch:
            return current
        case StreamsMemberState.UNREVOKED_TASKS:
            if owned is None or owned.overlaps(current.pending_revocation):
                return current
            member_epoch += 1
        case StreamsMemberState.UNKNOWN:
            if owned is None or not owned.is_empty:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in an unknown state. The member must abandon all "
                    "its tasks and rejoin.",
                )
            member_epoch = target_epoch
    after = _next(current, member_epoch, target_epoch, target, process_id, holders, owned)
    return current if after == current else after


def _next(
    current: CurrentTasks,
    member_epoch: int,
    target_epoch: int,
    target: TaskAssignment,
    process_id: str,
    holders: TaskHolders,
    owned: TaskAssignment | None,
) -> CurrentTasks:
    """Revoke the tasks that the target lacks. If there are none, assign free tasks."""
    assigned = current.assigned
    kept = _each(intersection, assigned, target)
    revoked = _each(difference, assigned, target)
    if not revoked.is_empty and (owned is None or owned.overlaps(revoked)):
        return CurrentTasks(
            StreamsMemberState.UNREVOKED_TASKS,
            member_epoch,
            current.member_epoch,
            kept,
            revoked,
            _epochs_of(current, kept, revoked),
        )
    missing = _each(difference, target, kept)
    free = TaskAssignment(
        _free(missing.active, process_id, holders.is_free_for_active),
        _free(missing.standby, process_id, holders.is_free_for_copy),
        _free(missing.warmup, process_id, holders.is_free_for_copy),
    )
    new = {(name, p): target_epoch for name, some in free.active.items() for p in some}
    return CurrentTasks(
        StreamsMemberState.STABLE if free == missing else StreamsMemberState.UNRELEASED_TASKS,
        target_epoch,
        current.member_epoch,
        _each(union, kept, free),
        NO_TASKS,
        _epochs_of(current, kept) | new,
    )


def _each(
    operation: Callable[[Tasks, Tasks], Tasks], left: TaskAssignment, right: TaskAssignment
) -> TaskAssignment:
    return TaskAssignment(
        operation(left.active, right.active),
        operation(left.standby, right.standby),
        operation(left.warmup, right.warmup),
    )


def _free(tasks: Tasks, process_id: str, is_free: Callable[[str, TaskId], bool]) -> Tasks:
    free = {
        name: frozenset(p for p in partitions if is_free(process_id, (name, p)))
        for name, partitions in tasks.items()
    }
    return {name: partitions for name, partitions in free.items() if partitions}


def _epochs_of(current: CurrentTasks, *assignments: TaskAssignment) -> dict[TaskId, int]:
    """Return the epochs in which active tasks were assigned; that of the member if no record has
    it, as in Kafka."""
    return {
        (name, p): current.epochs.get((name, p), current.member_epoch)
        for assignment in assignments
        for name, partitions in assignment.active.items()
        for p in partitions
    }
