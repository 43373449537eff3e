"""Steps of a member of a streams group towards its target, and random groups at every step."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.group.streams.member import read_current, stored_current
from minikafka.core.group.streams.reconciliation import (
    CurrentTasks,
    StreamsMemberState,
    TaskHolders,
    reconcile,
)
from minikafka.core.group.streams.tasks import NO_TASKS, TaskAssignment, Tasks
from minikafka.kernel.errors import ErrorCode, KafkaError

NAMES = ("m1", "m2", "m3", "m4")
PROCESSES = {"m1": "p1", "m2": "p1", "m3": "p2", "m4": "p3"}


def tasks(*partitions: int) -> Tasks:
    return {"0": frozenset(partitions)} if partitions else {}


def active(*partitions: int) -> TaskAssignment:
    return TaskAssignment(tasks(*partitions))


def stable(*partitions: int, epoch: int = 5) -> CurrentTasks:
    epochs = {("0", partition): epoch for partition in partitions}
    return CurrentTasks(
        StreamsMemberState.STABLE, epoch, epoch - 1, active(*partitions), epochs=epochs
    )


def test_tasks_are_revoked_in_the_old_epoch_and_keep_their_epochs() -> None:
    after = reconcile(stable(1, 2), 7, active(2, 3), "p", TaskHolders(), None)
    assert (after.state, after.member_epoch) == (StreamsMemberState.UNREVOKED_TASKS, 5)
    assert (after.assigned, after.pending_revocation) == (active(2), active(1))
    assert after.epochs == {("0", 1): 5, ("0", 2): 5}
    assert reconcile(after, 7, active(2, 3), "p", TaskHolders(), active(1, 2)) is after
    done = reconcile(after, 7, active(2, 3), "p", TaskHolders(), active(2))
    assert (done.state, done.member_epoch, done.assigned) == (
        StreamsMemberState.STABLE,
        7,
        active(2, 3),
    )
    assert done.epochs == {("0", 2): 5, ("0", 3): 7}
    assert read_current(stored_current(done)) == done


def test_another_revocation_raises_the_epoch() -> None:
    after = reconcile(stable(1, 2), 7, active(2), "p", TaskHolders(), None)
    again = reconcile(after, 8, NO_TASKS, "p", TaskHolders(), active(2))
    assert (again.state, again.member_epoch) == (StreamsMemberState.UNREVOKED_TASKS, 6)
    assert again.pending_revocation == active(2)


def test_a_task_of_another_member_is_awaited() -> None:
    holders = TaskHolders()
    holders.add("q", stable(3))
    after = reconcile(stable(1), 7, active(1, 3), "p", holders, None)
    assert (after.state, after.member_epoch) == (StreamsMemberState.UNRELEASED_TASKS, 7)
    assert after.assigned == active(1)
    holders.remove("q", stable(3))
    assert reconcile(after, 7, active(1, 3), "p", holders, None).assigned == active(1, 3)


def test_a_standby_task_waits_for_the_active_one_of_its_process_only() -> None:
    holders, target = TaskHolders(), TaskAssignment(standby=tasks(3))
    holders.add("p", stable(3))
    assert reconcile(stable(), 7, target, "p", holders, None).assigned == NO_TASKS
    assert reconcile(stable(), 7, target, "q", holders, None).assigned == target


def test_a_member_in_an_unknown_state_begins_again() -> None:
    unknown = CurrentTasks(StreamsMemberState.UNKNOWN, 5, 4, active(1), epochs={("0", 1): 5})
    with pytest.raises(KafkaError) as refusal:
        reconcile(unknown, 7, active(1), "p", TaskHolders(), active(1))
    assert refusal.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(unknown, 7, active(1), "p", TaskHolders(), NO_TASKS).member_epoch == 7


@pytest.mark.mission("STR-10")
@given(st.data())
def test_an_active_task_is_at_one_member_whatever_happens(data: st.DataObject) -> None:
    """Targets change, and members heartbeat in any order, with what they own or without."""
    holders = TaskHolders()
    current = dict.fromkeys(NAMES, CurrentTasks())
    owned = dict.fromkeys(NAMES, NO_TASKS)
    epoch, targets = 0, dict.fromkeys(NAMES, NO_TASKS)
    for _ in range(data.draw(st.integers(1, 30))):
        if data.draw(st.booleans()):
            epoch += 1
            targets = data.draw(_targets)
        member_id = data.draw(st.sampled_from(NAMES))
        says = owned[member_id] if data.draw(st.booleans()) else None
        _beat(member_id, current, owned, targets, epoch, holders, says)
        _check(current)
    for _ in range(6):
        for member_id in NAMES:
            _beat(member_id, current, owned, targets, epoch, holders, owned[member_id])
            _check(current)
    assert {member_id: now.assigned for member_id, now in current.items()} == targets
    assert all(now.state is StreamsMemberState.STABLE for now in current.values()) or epoch == 0


def _beat(
    member_id: str,
    current: dict[str, CurrentTasks],
    owned: dict[str, TaskAssignment],
    targets: dict[str, TaskAssignment],
    epoch: int,
    holders: TaskHolders,
    says: TaskAssignment | None,
) -> None:
    """Process a heartbeat. The member has after it what it was told."""
    process_id, before = PROCESSES[member_id], current[member_id]
    after = reconcile(before, epoch, targets[member_id], process_id, holders, says)
    holders.remove(process_id, before)
    holders.add(process_id, after)
    current[member_id], owned[member_id] = after, after.assigned


def _check(current: dict[str, CurrentTasks]) -> None:
    at_members: Counter[tuple[str, int]] = Counter()
    at_processes: Counter[tuple[str, str, int]] = Counter()
    for member_id, now in current.items():
        for assignment in (now.assigned, now.pending_revocation):
            for kind in (assignment.active, assignment.standby):
                for name, some in kind.items():
                    at_processes.update((PROCESSES[member_id], name, p) for p in some)
                    if kind is assignment.active:
                        at_members.update((name, p) for p in some)
    assert set(at_members.values()) <= {1}, "an active task has one member"
    assert set(at_processes.values()) <= {1}, "a process has a task once"


def _assignment(owners: dict[int, tuple[str, str | None]]) -> dict[str, TaskAssignment]:
    """Return targets, of which each task has an active member and perhaps a standby one."""
    rows = {m: (set[int](), set[int]()) for m in NAMES}
    for task, (owner, copy) in owners.items():
        rows[owner][0].add(task)
        if copy is not None and PROCESSES[copy] != PROCESSES[owner]:
            rows[copy][1].add(task)
    return {m: TaskAssignment(tasks(*first), tasks(*second)) for m, (first, second) in rows.items()}


_targets = st.dictionaries(
    st.integers(0, 4),
    st.tuples(st.sampled_from(NAMES), st.none() | st.sampled_from(NAMES)),
).map(_assignment)
