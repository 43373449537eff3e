"""A model of a cluster with transactions, which keeps every promise, and makes histories.

Logs are lists, coordinators are exact, and nothing happens at the same time. A commit writes the
markers of its partitions one by one, so that readers see a transaction in one partition before they
see it in the next one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from minikafka.testing.verify.append.history import Reading, RecordId
from minikafka.testing.verify.transactions.history import (
    Incarnation,
    ObservedTransaction,
    TransactionHistory,
)

MARKER = None  # in a log, instead of a record
RECORDS_OF_A_FETCH = 4


@dataclass(slots=True)
class Running:
    """A transaction in the cluster: its first offset in each partition without a marker yet, and
    whether it is to be committed, if that is decided."""

    transaction: ObservedTransaction
    open_from: dict[int, int] = field(default_factory=dict)
    commits: bool | None = None


@dataclass(slots=True)
class Seat:
    """A transactional id: its newest producer, and what that one is about. ``successor`` is a new
    producer that waits for the end of the old one's transaction."""

    name: str
    reading: Reading
    producer: Incarnation | None = None
    running: Running | None = None
    successor: Incarnation | None = None


class TransactionModel:
    """Makes a clean history from a seed: call ``history``."""

    def __init__(self, seed: int, seats: int = 3, partitions: int = 3, steps: int = 120) -> None:
        self._dice = random.Random(seed)
        self._steps = steps
        self._now_ms = 0
        self._logs: list[list[RecordId | None]] = [[] for _ in range(partitions)]
        self._unfinished: list[Running] = []
        self._committed: set[int] = set()
        self._zombies: list[ObservedTransaction] = []
        self._positions: dict[tuple[str, int], int] = {}
        self._made = TransactionHistory(
            committed=[Reading("reader 1"), Reading("reader 2")], uncommitted=[Reading("reader 3")]
        )
        self._seats = [Seat(f"id-{n}", Reading(f"inside {n}")) for n in range(seats)]
        self._made.committed += [seat.reading for seat in self._seats]

    def history(self) -> TransactionHistory:
        for _ in range(self._steps):
            self._step()
        while any(seat.running or seat.producer is None for seat in self._seats):
            self._tick()
            for seat in self._seats:
                self._finish(seat)
                self._succeed(seat)
        for zombie in list(self._zombies):
            self._haunt(zombie)
        made = self._made
        for reading in [*made.committed[:2], *made.uncommitted]:
            for partition in range(len(self._logs)):
                while self._read(reading, partition, reading not in made.uncommitted):
                    pass
        for partition, log in enumerate(self._logs):
            made.ends[partition] = made.stable_ends[partition] = len(log)
            for offset, record in enumerate(log):
                if record is not MARKER:
                    made.final_uncommitted.see(partition, offset, record, self._now_ms)
                    if record.producer in self._committed:
                        made.final_committed.see(partition, offset, record, self._now_ms)
        return made

    def _tick(self) -> None:
        self._now_ms += self._dice.randrange(1, 20)

    def _step(self) -> None:
        self._tick()
        made, dice = self._made, self._dice
        partition = dice.randrange(len(self._logs))
        action = dice.randrange(10)
        if action < 7:
            self._produce(dice.choice(self._seats), partition)
        elif action < 9:
            reading = dice.choice([*made.committed[:2], *made.uncommitted])
            self._read(reading, partition, reading not in made.uncommitted)
        else:
            made.note_stable_offset(partition, self._stable(partition), self._now_ms)
            if self._zombies:
                self._haunt(dice.choice(self._zombies))

    # -- producers

    def _produce(self, seat: Seat, partition: int) -> None:
        """Let the producer of a seat take its next step."""
        dice, running = self._dice, seat.running
        self._succeed(seat)
        if running is not None and running.commits is not None:
            self._finish(seat)
        elif seat.producer is None:
            return
        elif running is None:
            seat.running = Running(self._made.begin(seat.producer, self._now_ms))
            self._unfinished.append(seat.running)
        elif (choice := dice.randrange(12)) < 7:
            self._send(running, partition)
        elif choice < 8:
            self._read(seat.reading, partition, True, running.transaction.reads)
        elif choice < 10:
            running.transaction.commit_ms = self._now_ms
            running.commits = True
        elif choice < 11:
            running.transaction.ended_ms = self._now_ms
            running.commits = False
        else:
            self._hand_over(seat, running)

    def _send(self, running: Running, partition: int) -> None:
        transaction, log = running.transaction, self._logs[partition]
        record = transaction.add(partition)
        running.open_from.setdefault(partition, len(log))
        transaction.offsets[record.number] = len(log)
        log.append(record)

    def _hand_over(self, seat: Seat, running: Running) -> None:
        """Begin a new producer, while the old one is alive, or has lost the response to its commit,
        which was processed or not."""
        transaction = running.transaction
        running.commits = False
        if self._dice.randrange(2):
            transaction.commit_ms = transaction.ended_ms = self._now_ms
            running.commits = self._dice.randrange(2) == 0
        else:
            self._zombies.append(transaction)
        self._tick()
        seat.producer = None
        seat.successor = self._made.incarnate(seat.name, self._now_ms)

    def _haunt(self, zombie: ObservedTransaction) -> None:
        """Let a producer that was taken over request its commit, which fails."""
        self._zombies.remove(zombie)
        zombie.commit_ms = zombie.ended_ms = self._now_ms

    def _finish(self, seat: Seat) -> None:
        """Write a marker of a transaction that ends, or note that all are written."""
        running = seat.running
        if running is None:
            return
        if running.commits is None:
            running.commits = False
            running.transaction.ended_ms = self._now_ms
        if running.commits:
            self._committed.add(running.transaction.number)
        if running.open_from:
            partition = self._dice.choice(sorted(running.open_from))
            del running.open_from[partition]
            self._logs[partition].append(MARKER)
            return
        if running.commits and seat.producer is not None:
            running.transaction.committed_ms = running.transaction.ended_ms = self._now_ms
        self._unfinished.remove(running)
        seat.running = None

    def _succeed(self, seat: Seat) -> None:
        """Make a new producer ready when the transaction of the old one has ended."""
        if seat.producer is None and seat.running is None:
            if seat.successor is None:
                seat.successor = self._made.incarnate(seat.name, self._now_ms)
            self._tick()
            seat.successor.ready_ms = self._now_ms
            seat.producer, seat.successor = seat.successor, None
            self._tick()

    # -- readers

    def _stable(self, partition: int) -> int:
        opened = [each.open_from.get(partition) for each in self._unfinished]
        known = [offset for offset in opened if offset is not None]
        return min(known, default=len(self._logs[partition]))

    def _read(
        self,
        reading: Reading,
        partition: int,
        is_committed: bool,
        reads: list[RecordId] | None = None,
    ) -> bool:
        """Fetch some records; return False at the end."""
        log, key = self._logs[partition], (reading.name, partition)
        first = self._positions.get(key, 0)
        end = self._stable(partition) if is_committed else len(log)
        end = min(end, first + RECORDS_OF_A_FETCH)
        for offset in range(first, end):
            record = log[offset]
            if record is MARKER or (is_committed and record.producer not in self._committed):
                continue
            reading.see(partition, offset, record, self._now_ms)
            if reads is not None:
                reads.append(record)
        self._positions[key] = max(first, end)
        reading.note_mark(partition, len(log))
        return end > first
