"""The result of a run as text and JSON: counts, findings, and the evidence of the first ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.workload import Workload

SHOWN = 20  # findings of a workload with their evidence


class Reported(Protocol):
    """What a nemesis says that it did. ``ok``: it could, and the cluster recovered each time."""

    @property
    def ok(self) -> bool: ...

    def lines(self) -> Iterator[str]: ...

    def as_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class WorkloadVerdict:
    """The result of one workload. ``evidence`` is that of the first findings, line by line."""

    workload: str
    promise: str
    topics: tuple[str, ...]
    counts: Mapping[str, int]
    findings: tuple[Finding, ...]
    evidence: tuple[tuple[str, ...], ...]

    def headline(self) -> str:
        done = ", ".join(count_in_words(*pair) for pair in self.counts.items())
        if not self.findings:
            return f"ok: {self.promise}; {done}"
        kinds = Counter(finding.kind for finding in self.findings)
        wrong = ", ".join(f"{count:,} {kind.name.lower()}" for kind, count in kinds.items())
        return f"FAILED: {wrong}; {done}"

    def finding_lines(self) -> Iterator[str]:
        """Yield each finding, followed by its evidence."""
        for finding, evidence in zip(self.findings, self.evidence, strict=False):
            where = f" {finding.where}:" if finding.where else ""
            yield f"{finding.kind.name.lower()}:{where} {finding.text}"
            yield from (f"    {line}" for line in evidence)
        if len(self.findings) > len(self.evidence):
            yield f"and {len(self.findings) - len(self.evidence):,} more"

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": not self.findings,
            "topics": list(self.topics),
            "counts": dict(self.counts),
            "found": dict(Counter(finding.kind.name.lower() for finding in self.findings)),
            "findings": [
                {
                    "kind": finding.kind.name.lower(),
                    "where": finding.where,
                    "text": finding.text,
                    "evidence": list(evidence),
                }
                for finding, evidence in zip(self.findings, self.evidence, strict=False)
            ],
        }


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The result of a run."""

    workloads: tuple[WorkloadVerdict, ...]
    nemesis: Reported | None = None

    @property
    def ok(self) -> bool:
        recovered = self.nemesis is None or self.nemesis.ok
        return recovered and not any(each.findings for each in self.workloads)

    @property
    def topics(self) -> list[str]:
        return [topic for each in self.workloads for topic in each.topics]

    def lines(self) -> Iterator[str]:
        """Yield the headline of each workload, what the nemesis did, and all findings."""
        several = len(self.workloads) > 1
        for each in self.workloads:
            yield f"{each.workload}: {each.headline()}" if several else each.headline()
        if self.nemesis is not None:
            yield from self.nemesis.lines()
        for each in self.workloads:
            yield from each.finding_lines()

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "ok": self.ok,
            "workloads": {each.workload: each.as_json() for each in self.workloads},
        }
        if self.nemesis is not None:
            found["nemesis"] = self.nemesis.as_json()
        return found


def verdict(workload: Workload) -> WorkloadVerdict:
    """Judge a workload that has ended."""
    findings = workload.judge()
    return WorkloadVerdict(
        workload.name,
        workload.promise,
        tuple(workload.topics),
        workload.counts(),
        tuple(findings),
        tuple(tuple(workload.evidence(finding)) for finding in findings[:SHOWN]),
    )


def count_in_words(key: str, count: int) -> str:
    """Return e.g. "1,000 records acknowledged", and "longest wait 0.7 s"."""
    if key.endswith("_ms"):
        return f"{key[:-3].replace('_', ' ')} {count / 1000:.1f} s"
    return f"{count:,} {key.replace('_', ' ')}"
