"""Check what readings of a compacted topic ended with: the last version of each key, or later."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from minikafka.testing.verify.compacted.history import (
    UNKNOWN,
    CompactedHistory,
    Key,
    LastVersion,
    Scan,
    Version,
)
from minikafka.testing.verify.finding import Finding


class CompactedKind(Enum):
    """What ``judge`` finds, each with its meaning."""

    LOST = "the last acknowledged version of a key is not there, nor a later one"
    STALE = "a reading ends with a version older than one acknowledged before it began"
    RESURRECTED = "a reading ends with a version older than a tombstone before it began"
    REORDERED = "a version behind a later one of its key, or there twice"
    MOVED = "acknowledged at another offset than it is at"
    STRANGER = "written by nobody"
    UNPROVEN = "no version was acknowledged, or no reading came to its end"


def judge(history: CompactedHistory) -> list[Finding]:
    """Return all that is wrong."""
    acknowledged = any(
        version.offset != UNKNOWN for versions in history.versions.values() for version in versions
    )
    if not (acknowledged and history.scans):
        return [Finding(CompactedKind.UNPROVEN, "", CompactedKind.UNPROVEN.value)]
    findings: list[Finding] = []
    for scan in history.scans:
        for partition, offset in scan.strangers:
            text = f"{scan.name} read offset {offset}, which nobody wrote"
            findings.append(Finding(CompactedKind.STRANGER, f"partition {partition}", text))
        for key, version, after in scan.swapped:
            text = f"{scan.name} read version {version} after version {after}"
            findings.append(_of_key(CompactedKind.REORDERED, key, text))
        if scan.is_proof(history.retention_ms, history.lag_ms):
            for key, versions in history.versions.items():
                findings.extend(_end_of_key(scan, key, versions))
    for (key, number), offset in history.scans[-1].offsets.items():
        known = history.versions[key][number].offset
        if known not in (UNKNOWN, offset):
            text = f"version {number} was acknowledged at offset {known}, and is at {offset}"
            findings.append(_of_key(CompactedKind.MOVED, key, text))
    return findings


def _end_of_key(scan: Scan, key: Key, versions: list[Version]) -> Iterator[Finding]:
    """Check what a scan ended with, which is no older than what was acknowledged before it."""
    last = last_before(versions, scan.began_ms)
    if last < 0:
        return
    found = scan.last.get(key)
    if found is None:
        if not _may_be_deleted(versions, last, scan.ended_ms):
            text = f"{scan.name} found nothing, and version {last} was acknowledged before"
            yield _of_key(CompactedKind.LOST, key, text)
    elif found.version < last:
        kind = CompactedKind.RESURRECTED if versions[last].is_tombstone else CompactedKind.STALE
        text = f"{scan.name} ended with version {_words(found)}, and version {last} was before it"
        yield _of_key(kind, key, text)


def last_before(versions: list[Version], at_ms: int) -> int:
    """Return the last version that was acknowledged before a time; -1 if there is none."""
    for number in range(len(versions) - 1, -1, -1):
        version = versions[number]
        if version.offset != UNKNOWN and version.settled_ms < at_ms:
            return number
    return -1


def _may_be_deleted(versions: list[Version], last: int, at_ms: int) -> bool:
    """Return whether a tombstone, acknowledged or not, may be the last record at a time."""
    return any(v.is_tombstone and v.sent_ms <= at_ms for v in versions[last:])


def _words(found: LastVersion) -> str:
    return f"{found.version} (a tombstone)" if found.is_tombstone else str(found.version)


def _of_key(kind: CompactedKind, key: Key, text: str) -> Finding:
    return Finding(kind, f"partition {key.partition}, key {key.number}", text, (key,))
