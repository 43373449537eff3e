"""Check the history of a share group: find every broken promise.

A share group delivers a record to one member at a time, which holds it until it acknowledges it or
its lock ends. A record that is accepted or rejected is done; one that is released, or whose lock
ends, is delivered again with a higher count, up to a limit. What clients observe is less than what
leaders know, and the judge finds only what cannot be otherwise:

* Below its start offset, where all records are done, a leader ignores acknowledgements and confirms
  them, as Kafka does. So a second acceptance says something only if the record was not done yet, or
  if an offset at or below it is delivered later: then the start offset had not passed it.
* A broker that was cut off may believe that it still leads. What it delivers says nothing; its
  acknowledgements are refused by the share coordinator. A delivery counts if it comes from the
  broker that had confirmed before, or in the same leader epoch or a newer one.
* A lock ends with its time, with the share session of the member, and with the leader's office. It
  has ended too early if the member's session went on, to an acknowledgement that got a response,
  and the same leader has delivered the record to another member before the time was over.
* A delivery whose response is lost raises the count, too. The judge does not believe in records
  that were delivered unseen more than twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple

from minikafka.core.share.share_partition import AcknowledgeType
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.share_groups.history import ShareEvent, ShareHistory, ShareStep

DONE: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
MOST_UNSEEN: Final = 2
TIMER_MS: Final = 100  # by which a broker's timer may be early
MAX: Final = 1 << 62


class ShareFinding(Enum):
    """What ``judge`` finds, each with its meaning."""

    ACCEPTED_TWICE = "accepted or rejected again after it was done"
    RESURRECTED = "delivered after it was accepted or rejected"
    TWO_HOLDERS = "held by two members at a time"
    COUNT_BACK = "delivered with a count that it had before it was released"
    LOST = "acknowledged to its producer, and never delivered"
    STUCK = "delivered, and in the end neither done nor delivered again"
    UNPROVEN = "no acceptance was confirmed, and nothing is proven"


class ShareAbout(NamedTuple):
    """What a finding is about: a record."""

    partition: int
    offset: int


@dataclass(slots=True, eq=False)
class SentAcknowledgement:
    """An acknowledgement of one record. ``outcome`` is None while it is under way."""

    row: int
    member: int
    kind: AcknowledgeType
    node: int
    term: int
    outcome: ShareStep | None = None
    outcome_row: int = -1


@dataclass(slots=True, eq=False)
class SharedRecord:
    """What is known of one record: its deliveries, and what was acknowledged."""

    deliveries: list[ShareEvent] = field(default_factory=list)
    acknowledgements: list[SentAcknowledgement] = field(default_factory=list)

    @property
    def count(self) -> int:
        return max((each.value for each in self.deliveries), default=0)

    def may_be_done(
        self, but_for: SentAcknowledgement | None = None, before_row: int = MAX
    ) -> bool:
        """Whether an acceptance or rejection that was sent before a row may have succeeded."""
        return any(
            each.kind in DONE and each.outcome is not ShareStep.REFUSED and each.row < before_row
            for each in self.acknowledgements
            if each is not but_for
        )


def judge(history: ShareHistory) -> list[Finding]:
    """Return all broken promises by partition, in the order of time; empty if there is none."""
    judges: dict[int, SharePartitionJudge] = {}
    blind_ms: list[int] = []
    session_ends: dict[int, list[int]] = defaultdict(list)  # rows, by member
    for event in history.events:
        if event.step in (ShareStep.BLIND, ShareStep.DOUBTFUL):
            session_ends[event.member].append(event.row)
        if event.step is ShareStep.BLIND:
            blind_ms.append(event.at_ms)
    for partition in history.written:
        judges[partition] = SharePartitionJudge(history, partition, blind_ms, session_ends)
    for event in history.events:
        if event.partition in judges:
            judges[event.partition].see(event)
    findings: list[Finding] = []
    for each in judges.values():
        each.end()
        findings += each.findings
    if not any(each.accepted for each in judges.values()):
        text = "no acceptance was confirmed"
        findings.append(Finding(ShareFinding.UNPROVEN, f"group {history.group}", text))
    return findings


class Suspect(NamedTuple):
    """A confirmed acknowledgement that its leader may have ignored. It is a finding if a later
    delivery shows that the start offset had not passed the record."""

    kind: ShareFinding
    offset: int
    text: str
    sent: SentAcknowledgement


class SharePartitionJudge:
    """Checks one partition. ``see`` is called with its events, and ``end`` at the end."""

    def __init__(
        self,
        history: ShareHistory,
        partition: int,
        blind_ms: list[int],
        session_ends: Mapping[int, list[int]],
    ) -> None:
        self.findings: list[Finding] = []
        self.accepted = 0
        self._history = history
        self._partition = partition
        self._records: dict[int, SharedRecord] = defaultdict(SharedRecord)
        self._sent: dict[int, list[tuple[int, SentAcknowledgement]]] = defaultdict(
            list
        )  # by member
        self._blind_ms = blind_ms
        self._suspects: list[Suspect] = []
        self._session_ends = session_ends
        self._deliveries: list[ShareEvent] = []
        self._steps = {
            ShareStep.DELIVERED: self._delivered,
            ShareStep.SENT: self._acknowledged,
            ShareStep.CONFIRMED: self._settled,
            ShareStep.REFUSED: self._settled,
            ShareStep.DOUBTFUL: self._settled,
        }

    def see(self, event: ShareEvent) -> None:
        self._steps[event.step](event)

    # -- deliveries

    def _delivered(self, event: ShareEvent) -> None:
        self._deliveries.append(event)
        for offset in range(event.first, event.last + 1):
            record = self._records[offset]
            for known in record.acknowledgements:
                if known.outcome is not ShareStep.CONFIRMED or known.outcome_row >= event.since:
                    continue
                if not _counts(event, known):
                    continue
                if known.kind in DONE:
                    name, done = self._name(event.member), known.kind.name.lower()
                    text = f"delivered to {name} after {self._name(known.member)} had {done}ed it"
                    self._add(ShareFinding.RESURRECTED, offset, text)
                elif event.value <= self._count_of(record, known):
                    text = (
                        f"delivered to {self._name(event.member)} with count {event.value}, after "
                        f"{self._name(known.member)} had released it with that or a higher one"
                    )
                    self._add(ShareFinding.COUNT_BACK, offset, text)
            record.deliveries.append(event)

    def _count_of(self, record: SharedRecord, known: SentAcknowledgement) -> int:
        """Return the delivery count of what a member has acknowledged."""
        delivery = self._delivery_of(record, known)
        return 0 if delivery is None else delivery.value

    def _delivery_of(self, record: SharedRecord, known: SentAcknowledgement) -> ShareEvent | None:
        """Return the delivery that an acknowledgement is about: the member's last one before the
        outcome, since a fetch that is under way may acquire the record again."""
        own = (
            each
            for each in reversed(record.deliveries)
            if each.member == known.member and each.row < known.outcome_row
        )
        return next(own, None)

    # -- acknowledgements

    def _acknowledged(self, event: ShareEvent) -> None:
        kind = AcknowledgeType(event.value)
        for offset in range(event.first, event.last + 1):
            sent = SentAcknowledgement(event.row, event.member, kind, event.node, event.term)
            self._records[offset].acknowledgements.append(sent)
            self._sent[event.member].append((offset, sent))

    def _settled(self, event: ShareEvent) -> None:
        """Note the outcome of all that a member has sent for the partition."""
        for offset, sent in self._sent.pop(event.member, ()):
            sent.outcome, sent.outcome_row = event.step, event.row
            if event.step is not ShareStep.DOUBTFUL:
                self._check_lock(offset, sent)
            if event.step is ShareStep.CONFIRMED:
                self.accepted += sent.kind is AcknowledgeType.ACCEPT
                self._check_holder(offset, sent)

    def _check_holder(self, offset: int, sent: SentAcknowledgement) -> None:
        """Check a confirmed acknowledgement: its sender held the record, and nobody else did."""
        record, name = self._records[offset], self._name(sent.member)
        suspect = None
        if (other := _done_before(record, sent)) is not None:
            text = f"{name} settled it after {self._name(other.member)} had"
            suspect = Suspect(ShareFinding.ACCEPTED_TWICE, offset, text, sent)
        elif (delivery := self._delivered_between(record, sent)) is not None:
            text = (
                f"{name} held it until its acknowledgement was confirmed, and meanwhile it was "
                f"delivered to {self._name(delivery.member)}"
            )
            suspect = Suspect(ShareFinding.TWO_HOLDERS, offset, text, sent)
        if suspect is not None:
            self._suspects.append(suspect)

    def _check_lock(self, offset: int, sent: SentAcknowledgement) -> None:
        """Check that nobody else got a record before the lock of a member had ended."""
        record = self._records[offset]
        own = self._delivery_of(record, sent)
        if own is None or any(
            each.member == own.member and each is not sent and each.outcome_row > own.since
            for each in record.acknowledgements
        ):
            return  # an earlier acknowledgement, under way meanwhile, may be about this delivery
        ends = self._session_ends.get(sent.member, [])
        if bisect_left(ends, own.since) != bisect_left(ends, sent.outcome_row):
            return
        locked_ms = self._asked_ms(own) + self._history.lock_ms - TIMER_MS
        for each in record.deliveries:
            is_later = each.value > own.value and each.row < sent.row
            is_by_the_same = each.node == own.node and each.term == own.term
            if is_later and is_by_the_same and each.at_ms < locked_ms:
                text = (
                    f"delivered to {self._name(each.member)} {each.at_ms - own.at_ms} ms after "
                    f"{self._name(own.member)}, which had it for {self._history.lock_ms} ms"
                )
                self._add(ShareFinding.TWO_HOLDERS, offset, text)
                return

    def _asked_ms(self, delivery: ShareEvent) -> int:
        """Return a time before which the fetch of a delivery was not sent."""
        return self._history.events[delivery.since - 1].at_ms if delivery.since else 0

    def _is_proven(self, suspect: Suspect) -> bool:
        """Whether the start offset had not passed a record when its acknowledgement arrived.

        It had not if the record was not done, or if an offset that is not above it was delivered
        later."""
        record, sent = self._records[suspect.offset], suspect.sent
        row = sent.outcome_row
        at_ms = self._history.events[row].at_ms
        if not (record.may_be_done(sent, row) or self._may_be_over(record, 0, at_ms, row)):
            return True
        return any(
            each.since > row and each.first <= suspect.offset
            for each in self._deliveries
            if _counts(each, sent)
        )

    def _delivered_between(
        self, record: SharedRecord, sent: SentAcknowledgement
    ) -> ShareEvent | None:
        """Return a delivery to another member while the sender held the record."""
        own = self._delivery_of(record, sent)
        return next(
            (
                each
                for each in record.deliveries
                if own is not None
                and each.member != sent.member
                and own.row < each.since
                and each.row < sent.row
                and _counts(each, sent)
            ),
            None,
        )

    def _may_be_over(
        self, record: SharedRecord, since_ms: int, until_ms: int = MAX, before_row: int = MAX
    ) -> bool:
        """Whether a record had been delivered as often as the limit allows, perhaps unseen, by
        fetches before a row. ``since_ms`` and ``until_ms`` are the life of the record."""
        seen = [each for each in record.deliveries if each.since < before_row]
        if seen:
            newest = max(seen, key=lambda each: each.value)
            since_ms = self._asked_ms(newest)
        blind = bisect_right(self._blind_ms, until_ms) - bisect_left(self._blind_ms, since_ms)
        count = max((each.value for each in seen), default=0)
        return count + min(blind, MOST_UNSEEN) >= self._history.delivery_limit

    # -- the end

    def end(self) -> None:
        """Check what only later deliveries can tell, and that each record is done, or was delivered
        as often as the limit allows."""
        for suspect in filter(self._is_proven, self._suspects):
            self._add(suspect.kind, suspect.offset, suspect.text)
        for offset, sent_ms in self._history.written.get(self._partition, {}).items():
            record = self._records.get(offset) or SharedRecord()
            if record.may_be_done() or self._may_be_over(record, sent_ms):
                continue
            if record.deliveries:
                member, count = self._name(record.deliveries[-1].member), record.count
                text = f"delivered to {member} with count {count}, and not done in the end"
                self._add(ShareFinding.STUCK, offset, text)
            else:
                self._add(ShareFinding.LOST, offset, "never delivered")

    def _name(self, member: int) -> str:
        return self._history.members[member]

    def _add(self, kind: ShareFinding, offset: int, text: str) -> None:
        where, about = f"partition {self._partition}", ShareAbout(self._partition, offset)
        self.findings.append(Finding(kind, where, f"offset {offset}: {text}", about))


def _counts(delivery: ShareEvent, known: SentAcknowledgement) -> bool:
    """Whether the broker of a delivery led the partition at least as late as that of an
    acknowledgement, as far as the members knew."""
    return delivery.node == known.node or delivery.term >= known.term


def _done_before(record: SharedRecord, sent: SentAcknowledgement) -> SentAcknowledgement | None:
    """Return an acknowledgement that had settled the record before one was sent."""
    return next(
        (
            each
            for each in record.acknowledgements
            if each.kind in DONE
            and each.outcome is ShareStep.CONFIRMED
            and each.outcome_row < sent.row
        ),
        None,
    )


def evidence(history: ShareHistory, about: ShareAbout) -> Iterator[str]:
    """Yield what happened to a record, line by line in the order of time."""
    open_of: set[int] = set()  # members with acknowledgements under way
    for event in history.events:
        if event.partition != about.partition:
            continue
        if event.first <= about.offset <= event.last:
            if event.step is ShareStep.SENT:
                open_of.add(event.member)
            yield _line(history, event)
        elif event.first < 0 and event.member in open_of:
            open_of.discard(event.member)
            yield _line(history, event)


def _line(history: ShareHistory, event: ShareEvent) -> str:
    name = history.members[event.member]
    if event.step is ShareStep.DELIVERED:
        what = f"is delivered to {name} with count {event.value}"
    elif event.step is ShareStep.SENT:
        what = f"{name} sends {AcknowledgeType(event.value).name}"
    else:
        what = f"{name}: {event.step.name.lower()}"
    return f"{event.at_ms / 1000:.3f} s: {what} (broker {event.node}, leader epoch {event.term})"
