"""The verdict on compacted topics: clean histories, and those in which one thing is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from minikafka.testing.verify.compacted.history import (
    UNKNOWN,
    CompactedHistory,
    Key,
    LastVersion,
    Scan,
    Version,
)
from minikafka.testing.verify.compacted.judge import CompactedKind, judge

pytestmark = pytest.mark.mission("JUDGE-3")
RETENTION_MS = 200
LAG_MS = 60
KEYS = 4


class Stored(NamedTuple):
    offset: int
    key: Key
    version: int
    is_tombstone: bool
    at_ms: int


class Played:
    """One partition by a broker that keeps its promises: written, compacted and read in turns."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.history = CompactedHistory(RETENTION_MS, LAG_MS)
        self.log: list[Stored] = []
        self.end = self.now_ms = 0
        self.reading: tuple[Scan, int, int, int] | None = None  # and position, end, rounds
        for _ in range(self.dice.randrange(30, 120)):
            self.now_ms += self.dice.randrange(1, 20)
            self.dice.choice([self.write, self.write, self.write, self.compact, self.read])()
        while self.reading is not None:
            self.read()
        self.write_one(Key(0, 0), acknowledged=True)
        self.final = self.scan("final reading")

    def write(self) -> None:
        self.write_one(Key(0, self.dice.randrange(KEYS)), self.dice.random() < 0.8)

    def write_one(self, key: Key, acknowledged: bool, is_tombstone: bool | None = None) -> None:
        if is_tombstone is None:
            is_tombstone = self.dice.random() < 0.3
        versions = self.history.versions.setdefault(key, [])
        version = Version(is_tombstone, self.now_ms)
        versions.append(version)
        if acknowledged or self.dice.random() < 0.5:
            number = len(versions) - 1
            self.log.append(Stored(self.end, key, number, is_tombstone, self.now_ms))
            if acknowledged:
                version.offset, version.settled_ms = self.end, self.now_ms + 1
            self.end += 1
        self.now_ms += 2

    def compact(self) -> None:
        old = [stored for stored in self.log if stored.at_ms <= self.now_ms - LAG_MS]
        last = {stored.key: stored.offset for stored in old}
        kept = [
            stored
            for stored in old
            if stored.offset == last[stored.key]
            and not (stored.is_tombstone and stored.at_ms <= self.now_ms - RETENTION_MS - LAG_MS)
        ]
        self.log[: len(old)] = kept

    def read(self) -> None:
        """Read a part of the log, or begin to."""
        if self.reading is None:
            self.reading = Scan("reading", self.now_ms), 0, self.end, 1
            return
        scan, position, end, rounds = self.reading
        upto = min(end, position + self.dice.randrange(1, 30))
        for stored in self.log:
            if position <= stored.offset < upto:
                scan.see(stored.key, stored.version, stored.is_tombstone)
        if upto < end or rounds:
            rest = (self.end, 0) if upto == end else (end, rounds)
            if upto == end:
                scan.again_ms = self.now_ms
            self.reading = scan, upto, *rest
            return
        scan.ended_ms = self.now_ms
        self.history.scans.append(scan)
        self.reading = None

    def scan(self, name: str) -> Scan:
        self.now_ms += 2
        scan = Scan(name, self.now_ms, self.now_ms, self.now_ms)
        for stored in self.log:
            scan.see(stored.key, stored.version, stored.is_tombstone, stored.offset)
        self.history.scans.append(scan)
        return scan

    def kinds(self) -> set[object]:
        return {finding.kind for finding in judge(self.history)}


def test_clean_histories() -> None:
    assert [seed for seed in range(1_000) if Played(seed).kinds()] == []


def lost(played: Played) -> None:
    played.write_one(Key(0, 0), True, is_tombstone=False)
    played.log = [stored for stored in played.log if stored.key != Key(0, 0)]
    played.scan("final reading")


def stale(played: Played, is_tombstone: bool = False) -> None:
    played.write_one(Key(0, 0), True, is_tombstone=False)
    played.write_one(Key(0, 0), True, is_tombstone=is_tombstone)
    played.log.pop()
    played.scan("final reading")


def resurrected(played: Played) -> None:
    stale(played, is_tombstone=True)


def reordered(played: Played) -> None:
    played.write_one(Key(0, 0), True)
    played.write_one(Key(0, 0), True)
    played.log[-2:] = reversed(played.log[-2:])
    played.scan("final reading")


def moved(played: Played) -> None:
    played.write_one(Key(0, 0), True)
    played.log[-1] = played.log[-1]._replace(offset=played.end)
    played.scan("final reading")


def stranger(played: Played) -> None:
    played.final.strangers.append((0, 17))


def unproven(played: Played) -> None:
    for versions in played.history.versions.values():
        for version in versions:
            version.offset = UNKNOWN


PLANTED: dict[CompactedKind, Callable[[Played], None]] = {
    CompactedKind.LOST: lost,
    CompactedKind.STALE: stale,
    CompactedKind.RESURRECTED: resurrected,
    CompactedKind.REORDERED: reordered,
    CompactedKind.MOVED: moved,
    CompactedKind.STRANGER: stranger,
    CompactedKind.UNPROVEN: unproven,
}


@pytest.mark.parametrize("kind", CompactedKind)
def test_what_is_planted_is_found(kind: CompactedKind) -> None:
    for seed in range(100):
        played = Played(seed)
        PLANTED[kind](played)
        assert kind in played.kinds()


def test_a_slow_reading_may_miss_a_tombstone() -> None:
    history = CompactedHistory(
        RETENTION_MS, RETENTION_MS, {Key(0, 0): [Version(False, 0, 0, 1), Version(True, 2, 1, 3)]}
    )
    scan = Scan(
        "slow", 10, 10 + RETENTION_MS, 10 + RETENTION_MS, {Key(0, 0): LastVersion(0, False)}
    )
    history.scans.append(scan)
    assert judge(history) == []
    scan.ended_ms -= 1
    assert [finding.kind for finding in judge(history)] == [CompactedKind.RESURRECTED]
