"""The file of a history: a small SQLite database, in which each step of a ring has one row.

A step's row replaces the row that had its slot before, so the file does not grow beyond a day. A
transaction is a row or two, so a process that is killed leaves a file that can be read.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.page.dashboard.history.end_times import EndTimes
from minikafka.page.dashboard.history.ring import (
    COARSE_MS,
    FINE_MS,
    HistorySeries,
    PageHistory,
    Ring,
)

APPLICATION_ID: Final = 0x6D6B6873  # "mkhs"
_HEADER: Final = b"SQLite format 3\0"
_ID_AT: Final = 68  # of the application id in a database's header
_STEPS: Final = """CREATE TABLE IF NOT EXISTS steps (
    step_ms INTEGER, slot INTEGER, number INTEGER, value BLOB, PRIMARY KEY (step_ms, slot)
) WITHOUT ROWID"""
_ENDS: Final = """CREATE TABLE IF NOT EXISTS ends (
    topic TEXT, number INTEGER, points BLOB, PRIMARY KEY (topic, number)
) WITHOUT ROWID"""


class HistoryStore:
    """``open`` it, ``load`` it once, then ``save`` steps. Its methods block; only one of them runs
    at a time, in any thread."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path) -> HistoryStore:
        """Open a file, or begin one. A damaged history is put aside as ``NAME.damaged``. Raises
        ConfigError for a file that is no history, OSError for one that cannot be used."""
        if path.is_file() and path.stat().st_size and not _is_history(path):
            raise ConfigError(f"--history {path}: this file is no history of a page")
        try:
            return cls(_connected(path))
        except sqlite3.OperationalError as error:
            raise OSError(f"--history {path}: {error}") from None
        except sqlite3.DatabaseError:
            _put_aside(path)
            return cls(_connected(path))

    def load(self, history: PageHistory, end_times: dict[TopicPartition, EndTimes]) -> None:
        """Put all steps of the file into a history, and what it knows of log ends into
        ``end_times``. Raises OSError."""
        rows = "SELECT number, value FROM steps WHERE step_ms = ? ORDER BY number"
        try:
            for ring in (history.fine, history.coarse):
                for number, value in self._database.execute(rows, (ring.step_ms,)):
                    with suppress(ValueError, TypeError, zlib.error):  # of another release
                        ring.put(number * ring.step_ms, _values(value))
            for topic, number, points in self._database.execute("SELECT * FROM ends"):
                with suppress(ValueError, TypeError, zlib.error):
                    end_times[TopicPartition(topic, number)] = EndTimes.of(_unpacked(points))
        except sqlite3.Error as error:
            raise OSError(f"the history cannot be read: {error}") from None

    def save(self, rows: Iterable[tuple[int, int, int, bytes]]) -> None:
        """Write rows of ``row``. Raises OSError."""
        try:
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise OSError(f"the history cannot be written: {error}") from None

    def save_ends(self, points: Mapping[TopicPartition, Sequence[tuple[int, int]]]) -> None:
        """Replace what the file knows of log ends by ``EndTimes.points``. Raises OSError."""
        rows = [(*tp, _packed(known)) for tp, known in points.items()]
        try:
            with self._database:
                self._database.execute("DELETE FROM ends")
                self._database.executemany("INSERT INTO ends VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise OSError(f"the history cannot be written: {error}") from None

    def close(self) -> None:
        self._database.close()


def row(ring: Ring, at_ms: int) -> tuple[int, int, int, bytes]:
    """Return the row of the step at a time."""
    number = at_ms // ring.step_ms
    values = [[*series, round(value, 3)] for series, value in ring.values(at_ms).items()]
    return ring.step_ms, number % ring.steps, number, _packed(values)


def _values(value: bytes) -> dict[HistorySeries, float]:
    return {
        HistorySeries(str(kind), str(name), str(what)): float(number)
        for kind, name, what, number in _unpacked(value)
    }


def _packed(rows: object) -> bytes:
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)


def _unpacked(value: bytes) -> Any:
    return json.loads(zlib.decompress(value))


def _is_history(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(_ID_AT + 4)
    return header.startswith(_HEADER) and header[_ID_AT:] == APPLICATION_ID.to_bytes(4, "big")


def _connected(path: Path) -> sqlite3.Connection:
    """Raises sqlite3.DatabaseError for a damaged file, its OperationalError for one that cannot be
    opened."""
    database = sqlite3.connect(path, timeout=1, check_same_thread=False)
    try:
        # The system keeps what was written when this process is killed. When the host is, the last
        # seconds may be lost.
        database.execute(f"PRAGMA application_id={APPLICATION_ID}")  # in the file, not in its log
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        database.execute(_STEPS)
        database.execute(_ENDS)
        steps = (FINE_MS, COARSE_MS)
        database.execute("DELETE FROM steps WHERE step_ms NOT IN (?, ?)", steps)
        database.commit()
    except BaseException:
        database.close()
        raise
    return database


def _put_aside(path: Path) -> None:
    path.replace(path.with_name(f"{path.name}.damaged"))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
