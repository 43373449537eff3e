"""The judge of share groups: histories of a group that keeps its promises, and of others."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from minikafka.client import AcknowledgeType
from minikafka.testing.verify.share_groups.history import ShareHistory, ShareStep
from minikafka.testing.verify.share_groups.judge import (
    DONE,
    TIMER_MS,
    ShareFinding,
    evidence,
    judge,
)

pytestmark = pytest.mark.mission("JUDGE-32")

LIMIT = 5
LOCK_MS = 20
ACTIONS = 150
MEMBERS = 3


@dataclass(eq=False)
class Entry:
    """A record as its leader knows it."""

    count: int = 0
    holder: int = -1
    locked_until_ms: int = 0
    done: bool = False


@dataclass(eq=False)
class Fetch:
    since: int
    term: int
    node: int = -1
    acquired: list[tuple[int, int]] | None = None  # offsets and counts


@dataclass(eq=False)
class Member:
    number: int
    fetch: Fetch | None = None
    received_row: int = -1
    sent_row: int = -1
    held: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    sent: dict[int, AcknowledgeType] = field(default_factory=dict)
    confirmed: bool | None = None  # whether the leader has confirmed what was sent


class ShareGroup:
    """A leader and members, who do at random what brokers and share consumers do.

    ``bug`` is a promise that the leader breaks once, at the first occasion after a third;
    ``planted`` says that it has."""

    def __init__(
        self, seed: int, bug: ShareFinding | None = None, early_locks: bool = False
    ) -> None:
        self.dice = random.Random(seed)
        self.history = ShareHistory("g", LIMIT, LOCK_MS + TIMER_MS, written={0: {}})
        self.planted = False
        self._bug = bug
        self._early_locks = early_locks
        self._log: list[Entry] = []
        self._start = 0
        self._term = 0
        self._now_ms = 0
        self._step = 0
        self._members = [self._new_member() for _ in range(MEMBERS)]
        self._done: dict[int, int] = {}  # rows in which members learnt that a record is done
        self._released: dict[int, tuple[int, int]] = {}  # rows, and counts
        self._seen: set[int] = set()  # offsets that somebody has received
        self._tried: set[int] = set()  # offsets that somebody may have settled
        self._hidden: set[int] = set()  # offsets that nobody is given any more

    def play(self) -> ShareHistory:
        actions = (
            *[self._send_fetch, self._serve_fetch, self._receive],
            *[self._acknowledge, self._settle, self._respond],
        )
        others = (self._write, self._end_some_locks, self._die, self._elect)
        for self._step in range(ACTIONS):
            if self.dice.randrange(7):
                self.dice.choice(actions)(self.dice.choice(self._members))
            else:
                self.dice.choices(others, (7, 6, 1, 1))[0]()
        for _ in range(MEMBERS * LIMIT):
            self._now_ms += LOCK_MS
            self._end_locks()
            for member in self._members:
                for action in actions:
                    action(member)
        return self.history

    def _is_due(self, bug: ShareFinding) -> bool:
        return self._bug is bug and not self.planted and self._step > ACTIONS // 3

    def _tick(self) -> int:
        self._now_ms += 1
        return self._now_ms

    def _note(self, step: ShareStep, member: Member, *values: int) -> int:
        return self.history.events.add(step, self._tick(), member.number, *values)

    # -- the leader

    def _write(self) -> None:
        for _ in range(self.dice.randrange(1, 5)):
            self.history.written[0][len(self._log)] = self._tick()
            self._log.append(Entry())

    def _serve_fetch(self, member: Member) -> None:
        if member.fetch is None or member.fetch.acquired is not None:
            return
        member.fetch.acquired, member.fetch.node = [], self._term
        for offset in range(self._start, len(self._log)):
            entry = self._log[offset]
            is_free = entry.holder < 0 and not entry.done and len(member.fetch.acquired) < 6
            if is_free and not self._is_hidden(offset):
                entry.count, entry.holder = entry.count + 1, member.number
                entry.locked_until_ms = self._now_ms + LOCK_MS
                member.fetch.acquired.append((offset, entry.count))

    def _is_hidden(self, offset: int) -> bool:
        is_lost = self._is_due(ShareFinding.LOST) and not self._log[offset].count
        is_stuck = self._is_due(ShareFinding.STUCK) and self._log[offset].count < 3
        if is_lost or (is_stuck and offset in self._seen - self._tried):
            self._hidden.add(offset)
            self.planted = True
        return offset in self._hidden

    def _free(self, entry: Entry) -> None:
        entry.holder = -1
        entry.done = entry.done or entry.count >= LIMIT
        while self._start < len(self._log) and self._log[self._start].done:
            self._start += 1

    def _end_locks(self, early: bool = False) -> None:
        for entry in self._log:
            if entry.holder >= 0 and (early or entry.locked_until_ms <= self._now_ms):
                self._free(entry)

    def _end_some_locks(self) -> None:
        self._end_locks(self._early_locks)

    def _elect(self) -> None:
        """Another broker leads: it does not know what is acquired."""
        self._end_locks(early=True)
        self._term += 1

    def _settle(self, member: Member) -> None:
        """Carry out what a member has sent; it goes out after the response to its fetch."""
        if not member.sent or member.confirmed is not None or member.fetch is not None:
            return
        effective = [offset for offset in member.sent if offset >= self._start]
        member.confirmed = all(self._log[o].holder == member.number for o in effective)
        if member.confirmed:
            for offset in effective:
                entry = self._log[offset]
                entry.done = member.sent[offset] in DONE
                self._free(entry)
        elif self._is_due(ShareFinding.ACCEPTED_TWICE):
            self._accept_again(member, effective)

    def _accept_again(self, member: Member, effective: list[int]) -> None:
        """Confirm what others have settled, if the first record will be delivered later."""
        first = self._log[self._start]
        settled = all(self._done.get(o, 1 << 60) < member.sent_row for o in effective)
        if settled and first.count < LIMIT:
            first.holder = -1  # its lock ends
            member.confirmed = self.planted = True
            for each in self._members:
                each.fetch = None
            self._respond(member)

    # -- members

    def _new_member(self) -> Member:
        number = self.history.add_member(f"member {len(self.history.members)}")
        return Member(number)

    def _die(self) -> None:
        if self.planted:
            return
        place = self.dice.randrange(MEMBERS)
        member = self._members[place]
        self._tried.update(member.sent)
        self._note(ShareStep.BLIND, member)
        for entry in self._log:
            if entry.holder == member.number:
                self._free(entry)
        self._members[place] = self._new_member()

    def _send_fetch(self, member: Member) -> None:
        if member.fetch is None and not member.sent:
            member.fetch = Fetch(len(self.history.events), self._term)

    def _receive(self, member: Member) -> None:
        fetch = member.fetch
        if fetch is None or fetch.acquired is None:
            return
        member.fetch = None
        if self._is_due(ShareFinding.RESURRECTED):
            for offset in [o for o, row in self._done.items() if row < fetch.since][:1]:
                fetch.acquired.append((offset, self._log[offset].count + 1))
                self.planted = True
        held = [
            (offset, other)
            for other in self._members
            for offset in other.held
            if self._log[offset].holder == other.number != member.number
            and offset not in self._tried
            and other.received_row < fetch.since
            and self._log[offset].count < 2
            and not any(offset in each.sent for each in self._members)
            and not other.sent
            and other.fetch is None
        ]
        if self._is_due(ShareFinding.TWO_HOLDERS) and held:
            fetch.acquired.append((held[0][0], 2))
        for offset, delivered in fetch.acquired:
            row, released = self._released.get(offset, (1 << 60, 0))
            if self._is_due(ShareFinding.COUNT_BACK) and row < fetch.since:
                delivered, self.planted = released, True
            values = (0, offset, offset, delivered, fetch.node, fetch.term, fetch.since)
            member.received_row = self._note(ShareStep.DELIVERED, member, *values)
            if offset not in member.held:
                member.held.append(offset)
            member.counts[offset] = delivered
            self._seen.add(offset)
        if self._is_due(ShareFinding.TWO_HOLDERS) and held:
            while not held[0][1].sent:
                self._acknowledge(held[0][1])
            self._settle(held[0][1])
            self.planted = bool(held[0][1].confirmed)
            self._respond(held[0][1])

    def _acknowledge(self, member: Member) -> None:
        waits = self._step < ACTIONS - 1 and self.dice.randrange(3)
        if member.sent or not member.held or waits:
            return
        member.sent_row = len(self.history.events)
        settled = [
            offset for offset in member.held if offset in self._done and offset > self._start
        ]
        if self._is_due(ShareFinding.ACCEPTED_TWICE) and settled:
            member.held = settled[:1]
        for offset in member.held:
            kind = AcknowledgeType.ACCEPT
            if self._step < ACTIONS - 1:
                kinds = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
                kind = self.dice.choices(kinds, (6, 2, 1))[0]
            member.sent[offset] = kind
            self._note(ShareStep.SENT, member, 0, offset, offset, kind, self._term, self._term)
        member.held, member.confirmed = [], None

    def _respond(self, member: Member) -> None:
        if member.confirmed is None:
            return
        step = ShareStep.CONFIRMED if member.confirmed else ShareStep.REFUSED
        if not self.dice.randrange(8) and not self.planted:
            step = ShareStep.DOUBTFUL
        if self._bug is ShareFinding.UNPROVEN:
            step, self.planted = ShareStep.DOUBTFUL, True
        row = self._note(step, member, 0)
        for offset, kind in member.sent.items():
            if kind not in DONE:
                if step is ShareStep.CONFIRMED:
                    self._released[offset] = row, member.counts[offset]
                continue
            if step is ShareStep.CONFIRMED:
                self._done.setdefault(offset, row)
            if step is not ShareStep.REFUSED:
                self._tried.add(offset)
        member.sent, member.confirmed = {}, None


def test_nothing_is_found_in_clean_histories() -> None:
    for seed in range(1_000):
        history = ShareGroup(seed).play()
        findings = judge(history)
        assert not findings, f"seed {seed}: {findings[0]}\n" + "\n".join(
            evidence(history, findings[0].about)  # type: ignore[arg-type]
        )


PLANTED = {
    ShareFinding.ACCEPTED_TWICE: "a second acceptance is confirmed",
    ShareFinding.RESURRECTED: "a record that is done is delivered",
    ShareFinding.TWO_HOLDERS: "a record is delivered to a second member before its lock ends",
    ShareFinding.COUNT_BACK: "a release does not count as a delivery",
    ShareFinding.LOST: "a record is delivered to nobody",
    ShareFinding.STUCK: "a record is delivered to nobody any more",
    ShareFinding.UNPROVEN: "no acknowledgement is confirmed",
}


@pytest.mark.parametrize("kind", PLANTED, ids=lambda kind: kind.name)
def test_each_planted_anomaly_is_found(kind: ShareFinding) -> None:
    assert PLANTED.keys() == set(ShareFinding)
    planted = 0
    for seed in range(2_000):
        group = ShareGroup(seed, kind)
        history = group.play()
        found = {finding.kind for finding in judge(history)}
        planted += group.planted
        assert not group.planted or kind in found, f"seed {seed}: {found}"
        if planted == 20:
            return
    raise AssertionError(f"planted only {planted} times")


def test_locks_that_end_before_their_time_are_found() -> None:
    found = 0
    for seed in range(100):
        kinds = {finding.kind for finding in judge(ShareGroup(seed, early_locks=True).play())}
        assert kinds <= {ShareFinding.TWO_HOLDERS}
        found += bool(kinds)
    assert found >= 20
