"""The sticky assignment of tasks to the members of a streams group.

Members with one process id are threads of one process, and share the state on its disk. An active
task stays at its member, else goes to a member that has its standby task, else to the least loaded
process. Standby tasks (``num.standby.replicas`` for each task with state) go to other processes.
Kafka: ``StickyTaskAssignor``, whose results these are, but for the order of equally loaded ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

from minikafka.core.group.streams.tasks import NO_TASKS, TaskAssignment, TaskId, of_task_ids
from minikafka.core.group.streams.topology import ConfiguredSubtopology


class TaskMember(NamedTuple):
    """A member of the group: its process, and the target assignment that it has so far."""

    process_id: str
    target: TaskAssignment = NO_TASKS


def assign(
    members: Mapping[str, TaskMember],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    standby_replicas: int,
) -> dict[str, TaskAssignment]:
    """Return the target assignment of each member, by its id. ``members`` is not empty."""
    assignment = _Assignment(members, subtopologies, standby_replicas)
    assignment.assign_active()
    if standby_replicas > 0:
        assignment.assign_standby()
    return {member_id: assignment.of(member_id) for member_id in members}


class _Member:
    """A member, and the tasks that it gets."""

    __slots__ = ("active", "number", "process", "standby")

    def __init__(self, process: _Process) -> None:
        self.process = process
        self.number = 0
        self.active: set[TaskId] = set()
        self.standby: set[TaskId] = set()


class _Process:
    """A process: its members, and all its tasks."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.tasks: set[TaskId] = set()
        self._number = 0
        self._by_load: list[tuple[int, int, _Member]] | None = None
        self._order = count()

    @property
    def load(self) -> float:
        return self._number / len(self.members)

    def add(self, member: _Member, task: TaskId) -> None:
        """Give a task to a member."""
        self._by_load = None
        self._add(member, task)

    def add_to_least_loaded(self, task: TaskId) -> _Member:
        """Give a task to the member with the fewest, and return that."""
        if self._by_load is None:
            self._by_load = [(each.number, next(self._order), each) for each in self.members]
            heapify(self._by_load)
        _, _, member = heappop(self._by_load)
        self._add(member, task)
        heappush(self._by_load, (member.number, next(self._order), member))
        return member

    def _add(self, member: _Member, task: TaskId) -> None:
        self.tasks.add(task)
        self._number += 1
        member.number += 1


class _Quota:
    """The number of tasks that a member should have: an equal share of the tasks that are left.

    When a member reaches it, the other members share the rest."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.share = -(-tasks // members)

    def reached(self, number: int) -> None:
        if number == self.share:
            self._members -= 1
            self._tasks -= number
            self.share = -(-self._tasks // self._members) if self._members else 0


class _ByLoad:
    """Processes by their load; equal ones in the order in which they came."""

    def __init__(self, processes: Iterator[_Process]) -> None:
        self._order = count()
        self._heap = [(process.load, next(self._order), process) for process in processes]
        heapify(self._heap)

    def pop(self) -> _Process | None:
        return heappop(self._heap)[2] if self._heap else None

    def push(self, process: _Process) -> None:
        heappush(self._heap, (process.load, next(self._order), process))


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, TaskMember],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        standby_replicas: int,
    ) -> None:
        self._subtopologies = subtopologies
        self._replicas = standby_replicas
        self._processes: defaultdict[str, _Process] = defaultdict(_Process)
        self._members: dict[str, _Member] = {}
        self._was_active: dict[TaskId, _Member] = {}
        self._was_standby: defaultdict[TaskId, list[_Member]] = defaultdict(list)
        for member_id, (process_id, target) in members.items():
            process = self._processes[process_id]
            member = self._members[member_id] = _Member(process)
            process.members.append(member)
            for name, partitions in target.active.items():
                self._was_active.update(((name, p), member) for p in partitions)
            for name, partitions in target.standby.items():
                for partition in partitions:
                    self._was_standby[name, partition].append(member)
        active = sum(each.tasks for each in subtopologies.values())
        stateful = sum(each.tasks for each in subtopologies.values() if each.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * standby_replicas, len(members))

    def of(self, member_id: str) -> TaskAssignment:
        member = self._members[member_id]
        return TaskAssignment(of_task_ids(member.active), of_task_ids(member.standby))

    # -- active tasks

    def assign_active(self) -> None:
        """Go through the tasks by partition, so that a member gets tasks of many subtopologies."""
        tasks = [(name, p) for name, each in self._subtopologies.items() for p in range(each.tasks)]
        tasks.sort(key=lambda task: (task[1], task[0]))
        rest = [task for task in tasks if not self._keep_active(task, self._was_active.get(task))]
        rest = [task for task in rest if not self._keep_active(task, self._last_standby(task))]
        by_load = _ByLoad(iter(self._processes.values()))
        for task in sorted(rest):
            process = by_load.pop()
            assert process is not None, "there is a member"
            self._count_active(process.add_to_least_loaded(task), task)
            by_load.push(process)

    def _keep_active(self, task: TaskId, member: _Member | None) -> bool:
        """Give an active task to a member that has its state, if that has less than its share."""
        if member is None or member.number >= self._active_quota.share:
            return False
        member.process.add(member, task)
        self._count_active(member, task)
        return True

    def _count_active(self, member: _Member, task: TaskId) -> None:
        member.active.add(task)
        self._active_quota.reached(member.number)
        self._quota.reached(member.number)

    def _last_standby(self, task: TaskId) -> _Member | None:
        members = self._was_standby.get(task)
        return _least_loaded(members) if members else None

    # -- standby tasks

    def assign_standby(self) -> None:
        """Keep standby tasks where their state is, and share the others among the processes."""
        tasks = [
            (name, partition)
            for name, each in self._subtopologies.items()
            if each.is_stateful
            for partition in range(each.tasks)
        ]
        missing: dict[TaskId, int] = {}
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            kept = 0
            while kept < self._replicas and self._keep_standby(task):
                kept += 1
            if kept < self._replicas:
                missing[task] = self._replicas - kept
        by_load = _ByLoad(iter(self._processes.values()))
        for task in sorted(missing, reverse=True):
            for _ in range(missing[task]):
                if not self._assign_standby(by_load, task):
                    break  # no process without the task is left

    def _keep_standby(self, task: TaskId) -> bool:
        """Give a standby task to the member that had it as an active one, or as a standby."""
        member, share = self._was_active.get(task), self._quota.share
        if member is None or task in member.process.tasks or member.number >= share:
            before = self._was_standby.get(task)
            member = _least_loaded(before, task) if before else None
            if member is None or member.number >= share:
                return False
        member.process.add(member, task)
        self._count_standby(member, task)
        return True

    def _assign_standby(self, by_load: _ByLoad, task: TaskId) -> bool:
        """Give a standby task to the least loaded process that does not have the task."""
        passed: list[_Process] = []
        process = by_load.pop()
        while process is not None and task in process.tasks:
            passed.append(process)
            process = by_load.pop()
        if process is not None:
            self._count_standby(process.add_to_least_loaded(task), task)
            by_load.push(process)
        for other in reversed(passed):
            by_load.push(other)
        return process is not None

    def _count_standby(self, member: _Member, task: TaskId) -> None:
        member.standby.add(task)
        self._quota.reached(member.number)


def _least_loaded(members: list[_Member], without: TaskId | None = None) -> _Member | None:
    """Return a member with the least loaded process and the fewest tasks. Return None if the
    process of the first member has the task ``without``: Kafka checks only this process."""
    best = members[0]
    if without is not None and without in best.process.tasks:
        return None
    for member in members[1:]:
        is_open = without is None or without not in member.process.tasks
        if member.process.load < best.process.load and is_open and member.number < best.number:
            best = member
    return best
