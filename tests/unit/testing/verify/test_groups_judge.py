"""The judge of consumer groups: histories of a group that keeps its promises, and of others."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

import pytest

from minikafka.client import ConsumerRecord
from minikafka.testing.verify.groups.history import GroupHistory, GroupStep, LoggedOffsets
from minikafka.testing.verify.groups.judge import GroupAbout, GroupFinding, evidence, judge
from minikafka.testing.verify.groups.member import _runs

pytestmark = pytest.mark.mission("JUDGE-30", "JUDGE-31")

PARTITIONS = range(2)
ACTIONS = 120


@dataclass(eq=False)
class Commit:
    """A commit under way. ``accepted``: the coordinator will store it."""

    partition: int
    offset: int
    accepted: bool
    stored: bool = False


@dataclass(eq=False)
class Member:
    number: int
    identity: str
    epoch: int = 0
    fenced: bool = False  # removed by the coordinator, without knowing it
    positions: dict[int, int] = field(default_factory=dict)  # of the partitions that it owns
    begins: dict[int, bool] = field(default_factory=dict)  # before the first poll, see _assign
    commit: Commit | None = None


class Group:
    """A log, a coordinator and members, who do at random what clients do.

    ``bug`` is a promise that the coordinator breaks once, at the first occasion after the middle;
    ``planted`` says that it has."""

    def __init__(
        self, seed: int, protocol: str, static: bool = False, bug: GroupFinding | None = None
    ) -> None:
        self.dice = random.Random(seed)
        self.history = GroupHistory("g", protocol)
        self.static = static
        self.eager = protocol == "classic" and seed % 2 == 0
        self.planted = False
        self._bug = bug
        self._ends = dict.fromkeys(PARTITIONS, 0)
        self._committed: dict[int, int] = {}
        self._sent: set[tuple[int, int]] = set()  # partitions and offsets
        self._acknowledged: set[int] = set()  # partitions
        self._accepted: list[Commit] = []  # and not stored yet
        self._generation = 0
        self._members: list[Member] = []
        self._now_ms = count()
        self._step = 0

    def play(self) -> GroupHistory:
        for _ in range(3):
            self._join()
        self._rebalance()
        actions = (
            *[self._write, self._write, self._poll, self._poll, self._poll, self._begin_commit],
            *[self._commit_on, self._commit_on, self._leave, self._crash, self._fence],
            *[self._notice, self._join, self._rebalance],
        )
        weights = (8, 8, 10, 10, 10, 10, 10, 10, 1, 1, 2, 2, 2, 1)
        for self._step in range(ACTIONS):
            self.dice.choices(actions, weights)[0]()
        self._end()
        return self.history

    def _is_due(self, bug: GroupFinding) -> bool:
        return self._bug is bug and not self.planted and self._step > ACTIONS // 2

    def _note(self, step: GroupStep, member: Member, partition: int = -1, *places: int) -> None:
        events = self.history.events
        events.add(step, next(self._now_ms), member.number, member.epoch, partition, *places)

    # -- members

    def _join(self) -> None:
        if len(self._members) > 4:
            return
        number = len(self.history.members)
        taken = {member.identity for member in self._members if not member.fenced}
        free = [name for name in ("a", "b", "c", "d", "e") if name not in taken]
        name = free[0] if self.static else str(number)
        for member in self._members:
            member.fenced = member.fenced or member.identity == name
        self.history.add_member(f"member {number}", name)
        self._members.append(Member(number, name))
        self._rebalance()

    def _leave(self) -> None:
        members = self._alive()
        if len(members) > 1:
            member = self.dice.choice(members)
            self._revoke(member, list(member.positions))
            self._stop(member)
            self._rebalance()

    def _crash(self) -> None:
        if len(self._alive()) > 1:
            self._stop(self.dice.choice(self._members))
            self._rebalance()

    def _stop(self, member: Member) -> None:
        """End a member; a commit that is under way may be stored."""
        if member.commit is not None and self.dice.randrange(2):
            self._store(member.commit)
        self._note(GroupStep.ENDED, member)
        self._members.remove(member)

    def _fence(self) -> None:
        """Remove a member that goes on for some time."""
        if len(self._alive()) > 1:
            self.dice.choice(self._alive()).fenced = True
            self._rebalance()

    def _notice(self) -> None:
        for member in self._members:
            if member.fenced:
                self._drop_commit(member)
                for partition in member.positions:
                    self._note(GroupStep.LOST, member, partition)
                member.positions, member.begins = {}, {}
                member.fenced = any(
                    other is not member and other.identity == member.identity
                    for other in self._members
                )
        self._rebalance()

    def _alive(self) -> list[Member]:
        return [member for member in self._members if not member.fenced]

    # -- rebalances

    def _rebalance(self) -> None:
        members = self._alive()
        if not members:
            return
        target = {partition: self.dice.choice(members) for partition in PARTITIONS}
        for member in members:
            going = [p for p in member.positions if self.eager or target[p] is not member]
            self._revoke(member, going)
        self._generation += 1
        self.dice.shuffle(members)
        for member in members:
            member.epoch = self._generation
            for partition in PARTITIONS:
                if target[partition] is member:
                    self._assign(member, partition)
        self._assign_to_a_second_one(members, target)

    def _assign_to_a_second_one(self, members: list[Member], target: dict[int, Member]) -> None:
        others = [each for each in members if each is not target[0]]
        if self._is_due(GroupFinding.TWO_OWNERS) and others:
            self._assign(others[0], 0)
            self.planted = True

    def _assign(self, member: Member, partition: int) -> None:
        self._note(GroupStep.ASSIGNED, member, partition)
        if partition not in member.positions:
            member.positions[partition] = self._committed.get(partition, 0)
            member.begins[partition] = partition in self._acknowledged

    def _revoke(self, member: Member, partitions: list[int]) -> None:
        self._drop_commit(member)
        for partition in partitions:
            if self.dice.randrange(2):
                self._start_commit(member, partition)
                self._drop_commit(member)
            self._note(GroupStep.REVOKED, member, partition)
            del member.positions[partition]
            member.begins.pop(partition, None)

    def _drop_commit(self, member: Member) -> None:
        if member.commit is not None:
            self._finish(member)

    # -- records

    def _write(self) -> None:
        self._ends[self.dice.choice(PARTITIONS)] += self.dice.randrange(1, 6)

    def _poll(self) -> None:
        for member in self._members:
            if member.commit is None and member.positions:
                self._receive(member, self.dice.choice(list(member.positions)))

    def _receive(self, member: Member, partition: int) -> None:
        position, end = member.positions[partition], self._ends[partition]
        begins, was_committed = partition in member.begins, member.begins.get(partition, False)
        sent = {at for p, at in self._sent if p == partition}
        if self._is_due(GroupFinding.SKIPPED) and not begins and position + 1 < end:
            position, self.planted = position + 1, True
        if self._is_due(GroupFinding.REPEATED) and not begins and position > 0:
            position, self.planted = position - 1, True
        if self._is_due(GroupFinding.LOST) and begins and max(sent, default=0) + 1 < end:
            position, self.planted = max(sent, default=0) + 1, True
        if self._is_due(GroupFinding.BACK) and was_committed and 0 not in sent:
            position, self.planted = 0, True
        if position < end:
            last = self.dice.randrange(position, end)
            self._note(GroupStep.POLLED, member, partition, position, last)
            member.positions[partition] = last + 1
            member.begins.pop(partition, None)

    # -- commits

    def _begin_commit(self) -> None:
        member = self.dice.choice(self._members)
        if member.commit is None and member.positions:
            self._start_commit(member, self.dice.choice(list(member.positions)))

    def _start_commit(self, member: Member, partition: int) -> None:
        offset = member.positions[partition]
        if not offset:
            return
        self._note(GroupStep.SENT, member, partition, offset)
        self._sent.add((partition, offset))
        accepted = not member.fenced and self.dice.randrange(8) > 0
        newer = any(partition in other.positions for other in self._alive() if other is not member)
        breaks = self._is_due(GroupFinding.FENCED_COMMIT) and member.fenced and newer
        accepted = accepted or breaks
        member.commit = Commit(partition, offset, accepted)
        if accepted:
            self._accepted.append(member.commit)
        if breaks:
            self.planted = True
            self._finish(member)

    def _commit_on(self) -> None:
        """Store a commit, or respond to it."""
        member = self.dice.choice(self._members)
        if member.commit is not None:
            if member.commit.accepted and not member.commit.stored:
                self._store(member.commit)
            else:
                self._finish(member)

    def _store(self, commit: Commit) -> None:
        """Store a commit, and before it those that were accepted earlier."""
        while commit.accepted and not commit.stored:
            first = self._accepted.pop(0)
            first.stored = True
            self._committed[first.partition] = first.offset

    def _finish(self, member: Member) -> None:
        commit, member.commit = member.commit, None
        assert commit is not None
        self._store(commit)
        fails = self._bug is GroupFinding.UNPROVEN or not self.dice.randrange(8)
        if commit.accepted and (not fails or self._bug is GroupFinding.FENCED_COMMIT):
            self._note(GroupStep.COMMITTED, member, commit.partition, commit.offset)
            self._acknowledged.add(commit.partition)
        else:
            self._note(GroupStep.REFUSED, member, commit.partition, commit.offset)

    # -- the end

    def _end(self) -> None:
        self._notice()
        if not self._alive():
            self._join()
        sleeps = self._bug is GroupFinding.STUCK
        for partition in PARTITIONS:
            self._ends[partition] += 1
        for _ in range(0 if sleeps else 30):
            self._poll()
            for member in self._members:
                self._drop_commit(member)
                for partition in member.positions:
                    self._start_commit(member, partition)
                    self._drop_commit(member)
        self.planted = self.planted or self._bug in (GroupFinding.STUCK, GroupFinding.UNPROVEN)
        self.history.events.add(GroupStep.SETTLED, next(self._now_ms))
        for member in list(self._members):
            self._revoke(member, list(member.positions))
            self._stop(member)
        self._forget_a_commit()
        for partition, end in self._ends.items():
            log = self.history.log[partition] = LoggedOffsets()
            for offset in range(end):
                log.append(offset)
            self.history.written[partition] = end
        self.history.committed = dict(self._committed)

    def _forget_a_commit(self) -> None:
        for partition in self._acknowledged:
            if self._is_due(GroupFinding.BACK) and (partition, 0) not in self._sent:
                self._committed[partition] = 0
                self.planted = True


GROUPS = [("classic", False), ("classic", True), ("consumer", False), ("consumer", True)]


@pytest.mark.parametrize(("protocol", "static"), GROUPS)
def test_nothing_is_found_in_clean_histories(protocol: str, static: bool) -> None:
    for seed in range(250):
        history = Group(seed, protocol, static).play()
        findings = judge(history)
        assert not findings, f"seed {seed}: {findings[0]}\n" + "\n".join(
            evidence(history, findings[0].about)  # type: ignore[arg-type]
        )


PLANTED = {
    GroupFinding.SKIPPED: "a member's position jumps over a record",
    GroupFinding.LOST: "a member begins beyond all offsets that were committed",
    GroupFinding.REPEATED: "a member receives its last record again",
    GroupFinding.BACK: "the coordinator forgets an acknowledged commit",
    GroupFinding.TWO_OWNERS: "a generation has a second owner of a partition",
    GroupFinding.FENCED_COMMIT: "the commit of a removed member is accepted",
    GroupFinding.STUCK: "the members receive nothing any more",
    GroupFinding.UNPROVEN: "no commit is acknowledged",
}


@pytest.mark.parametrize("kind", PLANTED, ids=lambda kind: kind.name)
def test_each_planted_anomaly_is_found(kind: GroupFinding) -> None:
    assert PLANTED.keys() == set(GroupFinding)
    planted = 0
    for seed in range(2_000):
        protocol, static = GROUPS[seed % len(GROUPS)]
        group = Group(seed, protocol, static, kind)
        history = group.play()
        found = {finding.kind for finding in judge(history)}
        planted += group.planted
        assert not group.planted or kind in found, f"seed {seed}: {found}"
        if planted == 20:
            return
    raise AssertionError(f"planted only {planted} times")


def test_the_evidence_of_many_events_is_short() -> None:
    history = Group(3, "classic").play()
    first, *_ = evidence(history, GroupAbout("g", 0, 0, 20))
    assert "has the partition in epoch 1" in first
    lines = list(evidence(history, GroupAbout("g", 0, 0, len(history.events))))
    assert len(lines) == 40
    assert lines[-1].endswith("has ended")


def test_consecutive_records_of_a_poll_are_one_event() -> None:
    offsets = [(0, 4), (0, 5), (1, 0), (0, 6), (0, 9), (1, 1)]
    records = [ConsumerRecord("t", p, offset, 0, None, None, (), 0) for p, offset in offsets]
    assert sorted(_runs(records)) == [(0, 4, 6), (0, 9, 9), (1, 0, 1)]
