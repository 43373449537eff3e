"""The ledger of a soak: what became of each record, by its number, so that a loss shows exactly."""

from __future__ import annotations

import struct
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

HEAD: Final = struct.Struct(">Qd")  # a record's number, and when it was due
MOST_SEEN: Final = 255


class Fate(IntEnum):
    """What its producer knows of a record."""

    SENT = 0  # no response yet
    ACKNOWLEDGED = 1
    REFUSED = 2  # an error: the record may be in the log nevertheless
    ABORTED = 3


@dataclass
class Verdict:
    """Numbers of records, over all topics and groups."""

    acknowledged: int = 0
    unanswered: int = 0
    refused: int = 0
    lost: int = 0  # acknowledged, and not seen
    doubled: int = 0  # seen more than once
    aborted_seen: int = 0  # of a transaction that was aborted
    stale_keys: int = 0  # whose last record a reader of the compacted topic does not find

    @property
    def is_clean(self) -> bool:
        wrong = self.lost, self.doubled, self.aborted_seen, self.stale_keys, self.unanswered
        return not any(wrong)


@dataclass
class _Topic:
    fates: bytearray = field(default_factory=bytearray)
    seen: dict[str, bytearray] = field(default_factory=dict)  # by group


class Ledger:
    """Fates and sightings, a byte a record. Threads of producers and consumers share it."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self._groups = groups
        self._topics: dict[str, _Topic] = defaultdict(self._new_topic)
        self._last: dict[bytes, int] = {}  # acknowledged, of each key of the compacted topic
        self._found: dict[bytes, int] = {}
        self._mutex = threading.Lock()  # of threads, which count at the same time

    def _new_topic(self) -> _Topic:
        return _Topic(seen={group: bytearray() for group in self._groups})

    def next_number(self, topic: str) -> int:
        """Return the number of the topic's next record."""
        with self._mutex:
            fates = self._topics[topic].fates
            fates.append(Fate.SENT)
            return len(fates) - 1

    def settle(self, topic: str, number: int, fate: Fate) -> None:
        self._topics[topic].fates[number] = fate

    def see(self, group: str, topic: str, number: int) -> None:
        with self._mutex:
            seen = self._topics[topic].seen[group]
            if number >= len(seen):
                seen.extend(bytes(number + 1 - len(seen)))
            seen[number] = min(seen[number] + 1, MOST_SEEN)

    def keep_last(self, key: bytes, number: int) -> None:
        """Note the last acknowledged record of a key of the compacted topic."""
        self._last[key] = max(self._last.get(key, -1), number)

    def find_last(self, key: bytes, number: int) -> None:
        """Note what a reader of the compacted topic finds, in the order of the log."""
        self._found[key] = number

    def verdict(self) -> Verdict:
        verdict = Verdict()
        with self._mutex:
            for topic in self._topics.values():
                _judge(topic, verdict)
        verdict.stale_keys = sum(
            1 for key, number in self._last.items() if self._found.get(key, -1) < number
        )
        return verdict


def _judge(topic: _Topic, verdict: Verdict) -> None:
    verdict.acknowledged += topic.fates.count(Fate.ACKNOWLEDGED)
    verdict.unanswered += topic.fates.count(Fate.SENT)
    verdict.refused += topic.fates.count(Fate.REFUSED)
    for seen in topic.seen.values():
        sightings = seen + bytes(len(topic.fates) - len(seen))
        for fate, times in zip(topic.fates, sightings, strict=True):
            verdict.lost += fate == Fate.ACKNOWLEDGED and not times
            verdict.aborted_seen += fate == Fate.ABORTED and times > 0
            verdict.doubled += max(0, times - 1)
