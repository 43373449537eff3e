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


class _Process:
    """A process: its members with the number of tasks of each, and all its tasks."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tasks: set[TaskId] = set()
        self._number = 0
        self._by_load: list[tuple[int, int, str]] | None = None
        self._order = count()

    @property
    def load(self) -> float:
        return self._number / len(self.counts)

    def add(self, member_id: str, task: TaskId) -> int:
        """Give a task to a member. Return the number of its tasks."""
        self._by_load = None
        return self._add(member_id, task)

    def add_to_least_loaded(self, task: TaskId) -> tuple[str, int]:
        """Give a task to the member with the fewest. Return its id and the number of its tasks."""
        if self._by_load is None:
            self._by_load = [(n, next(self._order), member) for member, n in self.counts.items()]
            heapify(self._by_load)
        _, _, member_id = heappop(self._by_load)
        number = self._add(member_id, task)
        heappush(self._by_load, (number, next(self._order), member_id))
        return member_id, number

    def _add(self, member_id: str, task: TaskId) -> int:
        self.tasks.add(task)
        self._number += 1
        self.counts[member_id] += 1
        return self.counts[member_id]


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
        self._process_of = {m: member.process_id for m, member in members.items()}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: defaultdict[TaskId, list[str]] = defaultdict(list)
        self._active: defaultdict[str, set[TaskId]] = defaultdict(set)
        self._standby: defaultdict[str, set[TaskId]] = defaultdict(set)
        for member_id, member in members.items():
            self._processes[member.process_id].counts[member_id] = 0
            for name, partitions in member.target.active.items():
                self._was_active.update(((name, p), member_id) for p in partitions)
            for name, partitions in member.target.standby.items():
                for partition in partitions:
                    self._was_standby[name, partition].append(member_id)
        active = sum(each.tasks for each in subtopologies.values())
        stateful = sum(each.tasks for each in subtopologies.values() if each.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + stateful * standby_replicas, len(members))

    def of(self, member_id: str) -> TaskAssignment:
        active, standby = self._active[member_id], self._standby[member_id]
        return TaskAssignment(of_task_ids(active), of_task_ids(standby))

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._process_of[member_id]]

    def _number(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

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
            member_id, number = process.add_to_least_loaded(task)
            self._count_active(member_id, task, number)
            by_load.push(process)

    def _keep_active(self, task: TaskId, member_id: str | None) -> bool:
        """Give an active task to a member that has its state, if that has less than its share."""
        if member_id is None or self._number(member_id) >= self._active_quota.share:
            return False
        self._count_active(member_id, task, self._process(member_id).add(member_id, task))
        return True

    def _count_active(self, member_id: str, task: TaskId, number: int) -> None:
        self._active[member_id].add(task)
        self._active_quota.reached(number)
        self._quota.reached(number)

    def _last_standby(self, task: TaskId) -> str | None:
        members = self._was_standby.get(task)
        return self._least_loaded(members) if members else None

    def _least_loaded(self, members: list[str], without: TaskId | None = None) -> str | None:
        """Return a member with the least loaded process and the fewest tasks. Return None if the
        process of the first member has the task ``without``: Kafka checks only this process."""
        best = members[0]
        load, number = self._process(best).load, self._number(best)
        for member_id in members[1:]:
            process = self._process(member_id)
            is_open = without is None or without not in process.tasks
            if process.load < load and is_open and self._number(member_id) < number:
                best, load, number = member_id, process.load, self._number(member_id)
        is_taken = without is not None and without in self._process(members[0]).tasks
        return None if is_taken else best

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
        member_id = self._was_active.get(task)
        if member_id is not None and self._may_stand_by(member_id, task):
            self._count_standby(member_id, task, self._process(member_id).add(member_id, task))
            return True
        before = self._was_standby.get(task)
        member_id = self._least_loaded(before, task) if before else None
        if member_id is None or self._number(member_id) >= self._quota.share:
            return False
        self._count_standby(member_id, task, self._process(member_id).add(member_id, task))
        return True

    def _may_stand_by(self, member_id: str, task: TaskId) -> bool:
        is_elsewhere = task not in self._process(member_id).tasks
        return is_elsewhere and self._number(member_id) < self._quota.share

    def _assign_standby(self, by_load: _ByLoad, task: TaskId) -> bool:
        """Give a standby task to the least loaded process that does not have the task."""
        passed: list[_Process] = []
        process = by_load.pop()
        while process is not None and task in process.tasks:
            passed.append(process)
            process = by_load.pop()
        if process is not None:
            member_id, number = process.add_to_least_loaded(task)
            self._count_standby(member_id, task, number)
            by_load.push(process)
        for other in reversed(passed):
            by_load.push(other)
        return process is not None

    def _count_standby(self, member_id: str, task: TaskId, number: int) -> None:
        self._standby[member_id].add(task)
        self._quota.reached(number)
