"""Check what became of deleted records: where logs start, and what is below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.append.history import Reading
from minikafka.testing.verify.finding import Finding


class DeletionKind(Enum):
    """What ``judge_deletions`` finds, each with its meaning."""

    SHORT = "confirmed, and the log starts below what was requested"
    BACK = "the log starts lower than was confirmed before"
    UNDELETED = "read in the end, though its deletion was confirmed"
    TOO_MUCH = "the log starts above all that was requested"


class SentDeletion(NamedTuple):
    """A request to delete the records below ``before``, and the confirmed log start; -1 if the
    request failed, which may have deleted them or not. Times are milliseconds into the run."""

    partition: int
    before: int
    sent_ms: int
    start: int
    settled_ms: int


class SeenStart(NamedTuple):
    """A log start that a broker gave to a request sent at ``sent_ms``."""

    partition: int
    start: int
    sent_ms: int
    seen_ms: int


@dataclass(slots=True)
class Deletions:
    """All deletions and log starts, in the order of their ends."""

    deletions: list[SentDeletion] = field(default_factory=list)
    starts: list[SeenStart] = field(default_factory=list)


def judge_deletions(history: Deletions, final: Reading) -> list[Finding]:
    """Return what is wrong with log starts, and with the final reading below them."""
    by_partition: dict[int, list[SentDeletion]] = defaultdict(list)
    for deletion in history.deletions:
        by_partition[deletion.partition].append(deletion)
    starts: dict[int, list[SeenStart]] = defaultdict(list)
    for seen in history.starts:
        starts[seen.partition].append(seen)
    findings: list[Finding] = []
    for partition in sorted({*by_partition, *starts}):
        where = f"partition {partition}"
        deletions = by_partition[partition]
        findings.extend(_confirmations(where, deletions))
        findings.extend(_starts(where, deletions, starts[partition]))
        confirmed = max((each.start for each in deletions), default=-1)
        below = [seen.offset for seen in final.seen(partition) if seen.offset < confirmed]
        if below:
            text = f"{len(below)} records below {confirmed} are read, the first at {below[0]}"
            findings.append(Finding(DeletionKind.UNDELETED, where, text, (partition,)))
    return findings


def _confirmations(where: str, deletions: Sequence[SentDeletion]) -> Iterator[Finding]:
    for each in deletions:
        if 0 <= each.start < each.before:
            text = f"deleting below {each.before} was confirmed with the log start {each.start}"
            yield Finding(DeletionKind.SHORT, where, text, (each.partition,))


def _starts(
    where: str, deletions: Sequence[SentDeletion], starts: Sequence[SeenStart]
) -> Iterator[Finding]:
    for seen in starts:
        # What is not confirmed may go back when another replica leads.
        confirmed = max((d.start for d in deletions if d.settled_ms < seen.sent_ms), default=-1)
        if seen.start < confirmed:
            text = f"the log starts at {seen.start}, and {confirmed} was confirmed before"
            yield Finding(DeletionKind.BACK, where, text, (seen.partition,))
        most = max((d.before for d in deletions if d.sent_ms <= seen.seen_ms), default=0)
        if seen.start > most:
            text = f"the log starts at {seen.start}, and only what is below {most} was deleted"
            yield Finding(DeletionKind.TOO_MUCH, where, text, (seen.partition,))
