"""Check the history of a consumer group: find every broken promise.

A group processes records at least once: a member that is slow or dead may have processed what the
next owner of its partition receives again. This is what Kafka promises nevertheless:

* A member that gets a partition begins at the committed offset. That one is known if the last
  commit of the previous owner is acknowledged, and nothing else is under way. A commit whose
  outcome is unknown may be stored, and so may one that is under way while the partition gets a new
  owner: Kafka accepts it before the rebalance ends, and stores it a moment later.
* As long as a member keeps a partition it receives each record once, in order, without gaps.
* A commit that a member sends after its partition has a newer owner is refused. With the classic
  protocol the coordinator compares only generations, and the members of a static identity. A
  cooperative member may have joined the generation in which another one owns its partition, and
  commit once more (KIP-429): no fault of the coordinator.
* A generation has one owner of a partition. With the consumer protocol (KIP-848) a member epoch
  tells that the coordinator knew of the member, and of what it owned: a member that has a partition
  in the epoch of its newer owner, or in a later one, was not removed before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.event_table import NOTHING
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.groups.history import (
    GroupEvent,
    GroupHistory,
    GroupStep,
    LoggedOffsets,
)


class GroupFinding(Enum):
    """What ``judge`` finds, each with its meaning."""

    SKIPPED = "a record that no member received, or that one member passed over"
    LOST = "a member began beyond what was committed"
    REPEATED = "received again by a member that had kept the partition"
    BACK = "a committed offset went back"
    TWO_OWNERS = "a partition with two owners"
    FENCED_COMMIT = "a commit that was accepted after the partition had got a newer owner"
    STUCK = "in the end a partition had no owner, or its owner received nothing"
    UNPROVEN = "no commit was acknowledged, and nothing is proven"


class GroupAbout(NamedTuple):
    """What a finding is about: the events of a partition in these rows, both included."""

    group: str
    partition: int
    first_row: int
    last_row: int


class SentCommit(NamedTuple):
    row: int
    epoch: int
    offset: int


@dataclass(slots=True, eq=False)
class Stint:
    """The time in which a member owns a partition.

    ``began_at`` is the epoch in which it got the partition, ``epoch`` the last one in which it
    still has it, and ``position`` the next offset. ``starts`` are the offsets that may be the
    committed one when the stint begins. ``acknowledged`` has several commits only if they were
    under way at the same time.
    """

    number: int
    row: int
    member: int
    began_at: int
    epoch: int
    starts: list[int]
    position: int | None = None
    sending: dict[int, SentCommit] = field(default_factory=dict)  # by offset
    acknowledged: list[tuple[int, int]] = field(default_factory=list)  # offsets, rows of responses
    doubtful: list[int] = field(default_factory=list)


def judge(history: GroupHistory) -> list[Finding]:
    """Return all broken promises by partition, in the order of time; empty if there is none."""
    partitions = sorted({*history.log, *history.written, *history.committed})
    judges = {partition: GroupPartitionJudge(history, partition) for partition in partitions}
    for event in history.events:
        if event.partition in judges:
            judges[event.partition].see(event)
        elif event.step is GroupStep.ENDED:
            for each in judges.values():
                each.member_ends(event.member)
        elif event.step is GroupStep.SETTLED:
            for each in judges.values():
                each.settle(event.row)
    findings: list[Finding] = []
    if not history.events.counts[GroupStep.COMMITTED]:
        findings.append(
            Finding(GroupFinding.UNPROVEN, f"group {history.group}", "no commit was acknowledged")
        )
    for each in judges.values():
        each.end()
        findings += each.findings
    return findings


class GroupPartitionJudge:
    """Checks one partition. ``see`` is called with its events, ``member_ends`` and ``settle`` in
    between, and ``end`` at the end."""

    def __init__(self, history: GroupHistory, partition: int) -> None:
        self.findings: list[Finding] = []
        self._history = history
        self._partition = partition
        self._log = history.log.get(partition, LoggedOffsets())
        self._stints: list[Stint] = []
        self._open: dict[int, Stint] = {}  # by member
        self._latest: dict[int, Stint] = {}  # by member
        self._strays: list[
            SentCommit
        ] = []  # after a newer stint had begun, and not refused for sure
        self._given: list[tuple[int, int]] = []  # first and last offsets
        self._pairs: set[tuple[int, int]] = set()  # stints, as two owners
        self._steps = {
            GroupStep.ASSIGNED: self._assigned,
            GroupStep.REVOKED: self._ceased,
            GroupStep.LOST: self._ceased,
            GroupStep.POLLED: self._polled,
            GroupStep.SENT: self._sent,
            GroupStep.COMMITTED: self._committed,
            GroupStep.REFUSED: self._refused,
        }

    def see(self, event: GroupEvent) -> None:
        self._steps[event.step](event)

    def member_ends(self, member: int) -> None:
        self._open.pop(member, None)

    # -- ownership

    def _assigned(self, event: GroupEvent) -> Stint:
        stint = self._open.get(event.member)
        if stint is None:
            number, starts = len(self._stints), self._possible()
            row, member, epoch = event.row, event.member, event.epoch
            stint = Stint(number, row, member, epoch, epoch, starts)
            self._stints.append(stint)
            self._open[member] = self._latest[member] = stint
        stint.epoch = event.epoch
        for other in self._open.values():
            if other.epoch == stint.epoch and not self._is_same(stint, other):
                self._add_two_owners(other, stint, event)
        return stint

    def _ceased(self, event: GroupEvent) -> None:
        self._open.pop(event.member, None)

    def _add_two_owners(self, older: Stint, newer: Stint, event: GroupEvent) -> None:
        pair = min(older.number, newer.number), max(older.number, newer.number)
        if pair not in self._pairs:
            self._pairs.add(pair)
            text = (
                f"{self._name(older)} owned it in epoch {event.epoch}, and so did "
                f"{self._name(newer)}, which got it in epoch {newer.began_at}"
            )
            self._add(GroupFinding.TWO_OWNERS, text, min(older.row, newer.row), event.row)

    # -- records

    def _polled(self, event: GroupEvent) -> None:
        stint = self._stint_of(event)
        for newer in self._stints[stint.number + 1 :]:
            if newer.began_at <= event.epoch and not self._is_same(stint, newer):
                self._add_two_owners(stint, newer, event)
        if stint.position is None:
            self._check_start(stint, event)
        elif event.first < stint.position:
            text = f"{self._name(stint)} received offset {event.first} at {stint.position}"
            self._add(GroupFinding.REPEATED, text, stint.row, event.row)
        elif missed := self._log.count(stint.position, event.first):
            text = (
                f"{self._name(stint)} went from {stint.position} to {event.first}, over "
                f"{missed} records"
            )
            self._add(GroupFinding.SKIPPED, text, stint.row, event.row)
        stint.position = event.last + 1
        if self._given and self._given[-1][0] <= event.first <= self._given[-1][1] + 1:
            first, last = self._given[-1]
            self._given[-1] = first, max(last, event.last)
        else:
            self._given.append((event.first, event.last))

    def _check_start(self, stint: Stint, event: GroupEvent) -> None:
        """Check that a stint begins at the committed offset."""
        strays = (commit.offset for commit in self._strays if commit.row > stint.row)
        starts = [*stint.starts, *strays]
        if any(at <= event.first and not self._log.count(at, event.first) for at in starts):
            return
        kind = GroupFinding.BACK if event.first < min(starts) else GroupFinding.LOST
        text = f"{self._name(stint)} began at {event.first}, and {_words(starts)} was committed"
        self._add(kind, text, self._row_before(stint), event.row)

    def _row_before(self, stint: Stint) -> int:
        return self._stints[max(0, stint.number - 1)].row

    # -- commits

    def _sent(self, event: GroupEvent) -> None:
        stint = self._stint_of_commit(event)
        commit = SentCommit(event.row, event.epoch, event.first)
        stint.sending[commit.offset] = commit
        if self._is_stray(stint, commit) and self._fence(stint, commit) is None:
            self._strays.append(commit)

    def _committed(self, event: GroupEvent) -> None:
        stint = self._stint_of_commit(event)
        commit = stint.sending.pop(event.first, None)
        if commit is None:
            return
        if (newer := self._fence(stint, commit)) is not None:
            text = (
                f"{self._name(stint)} committed {commit.offset} in epoch {commit.epoch}, after "
                f"{self._name(newer)} had got the partition in epoch {newer.began_at}"
            )
            self._add(GroupFinding.FENCED_COMMIT, text, stint.row, event.row)
        elif not self._is_stray(stint, commit):
            meanwhile = [each for each in stint.acknowledged if each[1] > commit.row]
            stint.acknowledged = [*meanwhile, (commit.offset, event.row)]

    def _refused(self, event: GroupEvent) -> None:
        stint = self._stint_of_commit(event)
        commit = stint.sending.pop(event.first, None)
        if commit is not None and not self._is_stray(stint, commit):
            stint.doubtful.append(commit.offset)

    def _is_stray(self, stint: Stint, commit: SentCommit) -> bool:
        """Whether a newer stint had begun before the commit."""
        return any(newer.row < commit.row for newer in self._stints[stint.number + 1 :])

    def _fence(self, stint: Stint, commit: SentCommit) -> Stint | None:
        """Return the newer stint for which the coordinator must refuse a commit."""
        is_consumer = self._history.protocol == "consumer"
        for newer in self._stints[stint.number + 1 :]:
            if newer.row > commit.row:
                continue
            is_another = newer.member != stint.member
            by_member = is_another and (is_consumer or self._is_same(stint, newer))
            if by_member or newer.began_at > commit.epoch:
                return newer
        return None

    def _possible(self) -> list[int]:
        """Return the offsets of which one is the committed one: what was acknowledged last, and
        what may have been stored after that. Without any it is the start of the log."""
        found: list[int] = []
        for stint in reversed(self._stints):
            found += [*stint.doubtful, *stint.sending]
            if stint.acknowledged:
                found += [offset for offset, _ in stint.acknowledged]
                return found + [each.offset for each in self._strays if each.row > stint.row]
        return [self._log.start, *found, *(commit.offset for commit in self._strays)]

    # -- the end

    def settle(self, row: int) -> None:
        """Check that the partition has an owner, and that all records were received."""
        first_row = self._stints[-1].row if self._stints else 0
        if not self._open:
            self._add(GroupFinding.STUCK, "it had no owner in the end", first_row, row)
        end = max((last + 1 for _, last in self._given), default=self._log.start)
        if left := self._log.count(end, self._history.written.get(self._partition, 0)):
            text = f"{left} records from offset {end} on were received by nobody"
            self._add(GroupFinding.STUCK, text, first_row, row)

    def end(self) -> None:
        """Check what is committed, and that all records before it were received."""
        last_row = len(self._history.events)
        first_row = self._stints[-1].row if self._stints else 0
        possible = self._possible()
        committed = self._history.committed.get(self._partition, self._log.start)
        if committed not in possible:
            kind = GroupFinding.BACK if committed < min(possible) else GroupFinding.LOST
            text = f"in the end {committed} is committed, and {_words(possible)} was"
            self._add(kind, text, first_row, last_row)
        position = self._log.start
        for first, last in [*sorted(self._given), (committed, committed)]:
            if missed := self._log.between(position, min(first, committed)):
                text = (
                    f"nobody received the {len(missed)} records at {missed[0]} to {missed[-1]}, "
                    f"and {committed} is committed"
                )
                self._add(GroupFinding.SKIPPED, text, 0, last_row)
            position = max(position, last + 1)

    def _stint_of(self, event: GroupEvent) -> Stint:
        """Return the member's stint. One that was not assigned what it uses gets it by that."""
        known = self._open.get(event.member) or self._latest.get(event.member)
        return known or self._assigned(event)

    def _stint_of_commit(self, event: GroupEvent) -> Stint:
        """Return the stint that a commit of a member is about, by the epoch: it may come late."""
        own = (each for each in reversed(self._stints) if each.member == event.member)
        return next((each for each in own if each.began_at <= event.epoch), self._stint_of(event))

    def _is_same(self, stint: Stint, other: Stint) -> bool:
        members = self._history.members
        return members[stint.member].identity == members[other.member].identity

    def _name(self, stint: Stint) -> str:
        return self._history.members[stint.member].name

    def _add(self, kind: GroupFinding, text: str, first_row: int, last_row: int) -> None:
        group, partition = self._history.group, self._partition
        about = GroupAbout(group, partition, first_row, last_row)
        self.findings.append(Finding(kind, f"group {group} partition {partition}", text, about))


def _words(offsets: list[int]) -> str:
    return " or ".join(map(str, sorted(set(offsets))))


MOST_LINES: Final = 40


def evidence(history: GroupHistory, about: GroupAbout) -> Iterator[str]:
    """Yield the events of a finding, line by line; of many the last ones, and before them only what
    is not a poll."""
    rows = [
        event
        for event in history.events.between(about.first_row, about.last_row)
        if event.partition in (about.partition, NOTHING)
    ]
    before, last = rows[: -MOST_LINES // 2], rows[-MOST_LINES // 2 :]
    if len(rows) > MOST_LINES:
        before = [event for event in before if event.step is not GroupStep.POLLED]
    yield from (_line(history, event) for event in [*before[-MOST_LINES // 2 :], *last])


def _line(history: GroupHistory, event: GroupEvent) -> str:
    who = "the group" if event.member < 0 else history.members[event.member].name
    words = {
        GroupStep.ASSIGNED: f"has the partition in epoch {event.epoch}",
        GroupStep.REVOKED: "gives the partition up",
        GroupStep.LOST: "learns that it has lost the partition",
        GroupStep.POLLED: f"receives {event.first} to {event.last} in epoch {event.epoch}",
        GroupStep.SENT: f"commits {event.first} in epoch {event.epoch}",
        GroupStep.COMMITTED: f"has committed {event.first}",
        GroupStep.REFUSED: f"does not know whether {event.first} is committed",
        GroupStep.ENDED: "has ended",
        GroupStep.SETTLED: "has settled",
    }
    return f"{event.at_ms / 1000:.3f} s: {who} {words[event.step]}"
