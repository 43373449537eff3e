"""The result of a run as text and JSON: counts, violations, histories of the records concerned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.history import (
    IN_DOUBT,
    SOMEWHERE,
    UNSETTLED,
    History,
    Reading,
    RecordId,
)
from minikafka.testing.verify.judge import Finding

SHOWN = 20  # findings with their histories
SPELLED = {
    SOMEWHERE: "acknowledged, offset unknown",
    IN_DOUBT: "given up, in doubt",
    UNSETTLED: "not settled",
}


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The result of a run. ``worst_ms``: the longest time from send to acknowledgement."""

    topic: str
    acknowledged: int
    in_doubt: int
    read: int
    readers: int
    worst_ms: int
    findings: tuple[Finding, ...]
    histories: tuple[tuple[str, ...], ...]  # of the first findings, line by line

    @property
    def ok(self) -> bool:
        return not self.findings

    def headline(self) -> str:
        done = (
            f"{self.acknowledged:,} records acknowledged, {self.in_doubt:,} in doubt, "
            f"{self.read:,} read by {self.readers} readers, "
            f"longest wait for an acknowledgement {self.worst_ms / 1000:.1f} s"
        )
        if self.ok:
            return f"ok: nothing lost, doubled, reordered or misread; {done}"
        counts = Counter(finding.kind for finding in self.findings)
        wrong = ", ".join(f"{count:,} {kind.name.lower()}" for kind, count in counts.items())
        return f"FAILED: {wrong}; {done}"

    def lines(self) -> Iterator[str]:
        """Yield the headline, then each violation, followed by the histories of its records."""
        yield self.headline()
        for finding, history in zip(self.findings, self.histories, strict=False):
            where = "" if finding.partition < 0 else f" partition {finding.partition}:"
            yield f"{finding.kind.name.lower()}:{where} {finding.text}"
            yield from (f"    {line}" for line in history)
        if len(self.findings) > len(self.histories):
            yield f"and {len(self.findings) - len(self.histories):,} more"

    def as_json(self) -> dict[str, Any]:
        counts = Counter(finding.kind.name.lower() for finding in self.findings)
        return {
            "ok": self.ok,
            "topic": self.topic,
            "acknowledged": self.acknowledged,
            "in_doubt": self.in_doubt,
            "read": self.read,
            "readers": self.readers,
            "worst_ms": self.worst_ms,
            "counts": dict(counts),
            "findings": [
                {
                    "kind": finding.kind.name.lower(),
                    "partition": finding.partition,
                    "text": finding.text,
                    "history": list(history),
                }
                for finding, history in zip(self.findings, self.histories, strict=False)
            ],
        }


def verdict(topic: str, history: History, findings: Sequence[Finding]) -> RunVerdict:
    return RunVerdict(
        topic=topic,
        acknowledged=sum(written.acknowledged for written in history.written),
        in_doubt=sum(written.in_doubt for written in history.written),
        read=sum(reading.count for reading in history.readings),
        readers=len(history.readings),
        worst_ms=max(
            (s.settled_ms - s.sent_ms for w in history.written for s in w if s.is_acknowledged),
            default=0,
        ),
        findings=tuple(findings),
        histories=tuple(tuple(_history(history, f.records)) for f in findings[:SHOWN]),
    )


def _history(history: History, records: Sequence[RecordId]) -> Iterator[str]:
    for record in records:
        sent = history.sent(record)
        if sent is None:
            continue
        outcome = SPELLED.get(sent.offset, f"acknowledged at offset {sent.offset}")
        yield (
            f"producer {record.producer} record {record.number} (key {sent.key}): "
            f"sent to partition {sent.partition} at {_time(sent.sent_ms)}, "
            f"{outcome} at {_time(sent.settled_ms)}"
        )
        for reading in [*history.readings, history.final]:
            yield f"  {reading.name}: {_sightings(reading, sent.partition, record)}"


def _sightings(reading: Reading, partition: int, record: RecordId) -> str:
    found = [
        f"offset {seen.offset} at {_time(seen.at_ms)}"
        for seen in reading.seen(partition)
        if seen.id == record
    ]
    return ", ".join(found) or "did not see it"


def _time(at_ms: int) -> str:
    return f"{at_ms / 1000:.3f} s"
