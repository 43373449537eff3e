"""The sticky assignment of tasks: each active task once, and standby tasks at other processes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.streams.assignor import TaskMember, assign
from minikafka.core.group.streams.tasks import NO_TASKS, TaskAssignment, TaskId, Tasks
from minikafka.core.group.streams.topology import ConfiguredSubtopology, InternalTopic

STATE = {"c": InternalTopic("c", 1, 0, {})}


def subtopology(tasks: int, *, stateful: bool = False) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(tasks, ("t",), {}, STATE if stateful else {})


def each(tasks: Tasks) -> list[TaskId]:
    return [(name, partition) for name, some in tasks.items() for partition in some]


def processes(count: int, threads: int = 1) -> dict[str, TaskMember]:
    """Return members without tasks: ``threads`` of each process."""
    return {f"m{p}-{t}": TaskMember(f"p{p}") for p in range(count) for t in range(threads)}


def again(
    members: dict[str, TaskMember], targets: dict[str, TaskAssignment]
) -> dict[str, TaskMember]:
    return {m: TaskMember(known.process_id, targets[m]) for m, known in members.items()}


subtopologies = st.dictionaries(
    st.sampled_from("0123"),
    st.builds(subtopology, st.integers(1, 6), stateful=st.booleans()),
    min_size=1,
)
# Member id to process id and the tasks that it had, also of a topology that is gone.
old_tasks = st.dictionaries(
    st.sampled_from("01234"), st.frozensets(st.integers(0, 7), min_size=1), max_size=3
)
groups = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.builds(
        TaskMember,
        st.sampled_from(["p1", "p2", "p3"]),
        st.builds(TaskAssignment, old_tasks, old_tasks),
    ),
    min_size=1,
)


@pytest.mark.mission("STR-10")
@given(groups, subtopologies, st.integers(0, 3))
def test_each_active_task_has_one_member_and_standby_tasks_are_elsewhere(
    members: dict[str, TaskMember], topology: dict[str, ConfiguredSubtopology], replicas: int
) -> None:
    targets = assign(members, topology, replicas)
    assert targets.keys() == members.keys()
    active = Counter(task for target in targets.values() for task in each(target.active))
    wanted = {(name, p) for name, one in topology.items() for p in range(one.tasks)}
    assert active == dict.fromkeys(wanted, 1)
    at_process = Counter(
        (members[member_id].process_id, task)
        for member_id, target in targets.items()
        for task in (*each(target.active), *each(target.standby))
    )
    assert set(at_process.values()) == {1}, "a process has a task once"
    standby = Counter(task for target in targets.values() for task in each(target.standby))
    others = len({member.process_id for member in members.values()}) - 1
    stateful = {task for task in wanted if topology[task[0]].is_stateful}
    expected = dict.fromkeys(stateful, min(replicas, others))
    assert {task: standby[task] for task in stateful} == expected
    assert standby.keys() <= stateful


@given(st.integers(1, 4), st.integers(1, 3), subtopologies, st.integers(0, 2))
def test_an_assignment_stays_as_it_is(
    count: int, threads: int, topology: dict[str, ConfiguredSubtopology], replicas: int
) -> None:
    members = processes(count, threads)
    targets = assign(members, topology, replicas)
    active = {m: target.active for m, target in targets.items()}
    kept = assign(again(members, targets), topology, replicas)
    assert {m: target.active for m, target in kept.items()} == active
    numbers = [len(each(tasks)) for tasks in active.values()]
    assert max(numbers) - min(numbers) <= 1


def test_a_new_member_takes_no_more_than_its_share() -> None:
    members = processes(2)
    targets = assign(members, {"0": subtopology(6)}, 0)
    members = again(members, targets) | {"new": TaskMember("new")}
    after = assign(members, {"0": subtopology(6)}, 0)
    assert [len(each(after[m].active)) for m in members] == [2, 2, 2]
    for member_id, target in targets.items():
        assert set(each(after[member_id].active)) <= set(each(target.active))


def test_the_standby_task_takes_over_from_a_member_that_is_gone() -> None:
    members, topology = processes(3), {"0": subtopology(3, stateful=True)}
    targets = assign(members, topology, 1)
    del members["m0-0"]
    (lost,) = each(targets["m0-0"].active)
    (heir,) = (m for m in members if lost in each(targets[m].standby))
    after = assign(again(members, targets), topology, 1)
    assert lost in each(after[heir].active)


def test_without_another_process_there_is_no_standby_task() -> None:
    targets = assign(processes(1, 2), {"0": subtopology(2, stateful=True)}, 1)
    assert all(target.standby == NO_TASKS.standby for target in targets.values())
