"""The history of compacted keys: each version that was written, and what full readings ended with.

A version is a number that counts the records of one key from 0. Times are milliseconds into the
run.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, NamedTuple

from minikafka.kernel.lazy_dataclass import dataclass

UNKNOWN: Final = -1  # an offset: the record may be there or not


class Key(NamedTuple):
    """A key, which one producer writes to one partition."""

    partition: int
    number: int


@dataclass(slots=True)
class Version:
    """A record of a key; ``offset`` is UNKNOWN until it is acknowledged at ``settled_ms``."""

    is_tombstone: bool
    sent_ms: int
    offset: int = UNKNOWN
    settled_ms: int = -1


class LastVersion(NamedTuple):
    """The last record of a key in a reading."""

    version: int
    is_tombstone: bool


class Swapped(NamedTuple):
    """Two versions of a key of which the later one was read first, or one that was read twice."""

    key: Key
    version: int
    after: int


@dataclass(slots=True)
class Scan:
    """A reading of all partitions from their starts to their ends.

    When all is read that was there at ``began_ms``, the ends are looked up again, at ``again_ms``:
    what replaces a record that was compacted away meanwhile is before those. ``offsets`` are kept
    of the final scan."""

    name: str
    began_ms: int
    again_ms: int = -1
    ended_ms: int = -1
    last: dict[Key, LastVersion] = field(default_factory=dict)
    swapped: list[Swapped] = field(default_factory=list)
    strangers: list[tuple[int, int]] = field(default_factory=list)  # partition, offset
    offsets: dict[tuple[Key, int], int] = field(default_factory=dict)  # by key and version
    records: int = 0

    def is_proof(self, retention_ms: int, lag_ms: int) -> bool:
        """Return whether its last versions are as new as those before it."""
        ended_ms = self.ended_ms
        return ended_ms - self.began_ms < retention_ms and ended_ms - self.again_ms < lag_ms

    def see(self, key: Key, version: int, is_tombstone: bool, offset: int | None = None) -> None:
        """Add a record; its offset is kept if it is given."""
        before = self.last.get(key)
        if before is not None and before.version >= version:
            self.swapped.append(Swapped(key, version, before.version))
        self.last[key] = LastVersion(version, is_tombstone)
        self.records += 1
        if offset is not None:
            self.offsets[key, version] = offset


@dataclass(slots=True)
class CompactedHistory:
    """All versions by key, in send order, and all scans that came to their end, the final one last.

    ``retention_ms`` is ``delete.retention.ms``: a scan that takes longer may miss tombstones.
    ``lag_ms`` is ``min.compaction.lag.ms``: one that takes longer from ``again_ms`` on may miss
    what replaces a record."""

    retention_ms: int
    lag_ms: int
    versions: dict[Key, list[Version]] = field(default_factory=dict)
    scans: list[Scan] = field(default_factory=list)
