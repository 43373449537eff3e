"""Check a history of transactions: find every violated guarantee, with the records concerned.

What Kafka promises: a committed transaction becomes visible whole, an aborted one never; a reader
with ``read_committed`` reads below the last stable offset only, in the order of offsets; a producer
whose transactional id was taken over commits nothing more (KIP-98, KIP-447, KIP-890).

What it does not promise: isolation of writes. Records of transactions that run at the same time
alternate in a partition, and in another order in the next one, so cycles of ``ww`` dependencies,
Adya's G0, and G1c over at least one of these are legal. Jepsen's analyses of Redpanda 21.10.1
(2022) and Bufstream 0.1.0 (2024) discuss this. ``write_cycles`` names them, and they are no
findings. A cycle of ``wr`` dependencies alone is one: each of its transactions read what
another of them committed only later.

The second analysis also shows that with transactions of version 1 a late request of a transaction
that has ended can join the next one of its producer, in official Kafka, too; KIP-890 prevents
this. A run that finds it is right, but the fault is the protocol's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.testing.verify.append.history import SOMEWHERE, Reading, RecordId, Seen
from minikafka.testing.verify.append.judge import Log
from minikafka.testing.verify.finding import Finding
from minikafka.testing.verify.transactions.cycles import (
    Dependency,
    cycles,
    read_dependencies,
    write_dependencies,
)
from minikafka.testing.verify.transactions.history import (
    NEVER,
    Incarnation,
    ObservedTransaction,
    TransactionHistory,
    TransactionOutcome,
)


class Anomaly(Enum):
    """The violations that ``judge`` finds, each with its meaning."""

    LOST = "acknowledged, and not there"
    HALF_VISIBLE = "a part of the transaction is visible, another part is not"
    ABORTED_READ = "a record of an aborted transaction, read with read_committed (G1a)"
    INTERMEDIATE = "read with read_committed before its commit was requested (G1b)"
    CIRCULAR = "transactions that read each other's records (G1c)"
    ZOMBIE = "committed by a producer that another one had fenced before"
    MOVED = "acknowledged at another offset than it is at"
    DOUBLED = "there more than once"
    REORDERED = "behind a later record of its producer"
    PHANTOM = "sent by nobody"
    VANISHED = "read, and not there in the end"
    SKIPPED = "passed over by a reader"
    READ_SKEW = "passed over by a read_committed reader while its transaction was open"
    READ_AGAIN = "read again, below what had been read"
    STOPPED = "not read to its end by a reader that had the time"
    REFUSED = "an error that no reader may get"
    LSO_BACK = "the last stable offset moved back"
    LSO_STUCK = "all transactions have ended, and the last stable offset is below the end"
    UNSETTLED = "no producer could take over the transactional id"
    UNPROVEN = "no promise was made, and none kept"


def judge(history: TransactionHistory) -> list[Finding]:
    """Return all violations, those about single transactions first; empty if there is none."""
    case = _Case(history)
    findings = [found for each in history.transactions for found in case.transaction(each)]
    findings.extend(case.order())
    findings.extend(case.contents())
    findings.extend(case.stuck())
    findings.extend(_read_cycles(history))
    for reader in [
        *(_Reader(reading, case.visible, True) for reading in history.committed),
        *(_Reader(reading, case.logs, False) for reading in history.uncommitted),
        _Reader(history.final_committed, case.logs, True, is_final=True),
        _Reader(history.final_uncommitted, case.logs, False, is_final=True),
    ]:
        findings.extend(case.read_by(reader))
    findings.extend(_stable_offsets(history))
    for name in history.unsettled:
        findings.append(_found(Anomaly.UNSETTLED, name, "init_transactions failed in the end"))
    if not any(
        t.outcome is TransactionOutcome.COMMITTED and t.partitions for t in history.transactions
    ):
        findings.append(_found(Anomaly.UNPROVEN, "", "no transaction was committed"))
    return findings


def write_cycles(history: TransactionHistory) -> list[list[Dependency]]:
    """Return cycles of ``ww`` dependencies between visible transactions, which Kafka allows."""
    final = history.final_committed
    logs = [[seen.id for seen in final.seen(p) if seen.id] for p in final.partitions]
    return cycles(each for log in logs for each in write_dependencies(log))


def _read_cycles(history: TransactionHistory) -> Iterator[Finding]:
    ended = {t.number for t in history.transactions if t.outcome is TransactionOutcome.COMMITTED}
    dependencies = (
        dependency
        for number in sorted(ended)
        for dependency in read_dependencies(number, history.transactions[number].reads)
        if dependency.before in ended
    )
    for cycle in cycles(dependencies):
        text = ", ".join(map(str, cycle))
        yield _found(Anomaly.CIRCULAR, "", text, *(dependency.before for dependency in cycle))


def _stable_offsets(history: TransactionHistory) -> Iterator[Finding]:
    for partition, seen in sorted(history.stable_offsets.items()):
        end = history.stable_ends.get(partition)
        last = [] if end is None else [(seen[-1][0], end)]
        highest = (0, 0)
        for at_ms, offset in [*seen, *last]:
            if offset < highest[1]:
                text = f"from {highest[1]}, seen at {highest[0]} ms, to {offset} at {at_ms} ms"
                yield _found(Anomaly.LSO_BACK, _name(partition), text)
            highest = max(highest, (at_ms, offset), key=lambda place: place[1])


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reading, and the contents that it must agree with, by partition."""

    reading: Reading
    logs: Mapping[int, Log]
    is_committed: bool  # read_committed
    is_final: bool = False


class _Case:
    """A history with the contents of its partitions: ``visible`` with ``read_committed``, ``logs``
    with ``read_uncommitted``."""

    def __init__(self, history: TransactionHistory) -> None:
        self.history = history
        partitions = {*history.ends, *(p for r in history.readings for p in r.partitions)}
        partitions.update(p for each in history.transactions for p in each.partitions)
        stable, ends = history.stable_ends, history.ends
        self.visible = {
            p: Log(history.final_committed, p, 0, stable.get(p, 0)) for p in sorted(partitions)
        }
        self.logs = {
            p: Log(history.final_uncommitted, p, 0, ends.get(p, 0)) for p in sorted(partitions)
        }
        self._fencing: dict[str, list[Incarnation]] = defaultdict(list)
        for incarnation in history.incarnations:
            if incarnation.ready_ms != NEVER:
                self._fencing[incarnation.transactional_id].append(incarnation)

    # -- transactions

    def transaction(self, transaction: ObservedTransaction) -> Iterator[Finding]:
        """Check that a transaction is there whole, or not at all, as its outcome says."""
        number, outcome, where = transaction.number, transaction.outcome, _of(transaction)
        there, missing, gone = self._visibility(transaction)
        total = len(transaction.partitions)
        if outcome is TransactionOutcome.COMMITTED and missing:
            text = f"committed, and read_committed does not read {_list(missing)} of {total}"
            yield _found(Anomaly.LOST, where, text, number)
        elif gone:
            yield _found(
                Anomaly.LOST, where, f"{outcome.value}, and not in the log: {_list(gone)}", number
            )
        if outcome is TransactionOutcome.ABORTED and there:
            text = f"aborted, and in the end read_committed reads {_list(there)} of {total}"
            yield _found(Anomaly.ABORTED_READ, where, text, number)
        elif there and missing:
            text = f"{outcome.value}; read_committed reads {_list(there)}, but not {_list(missing)}"
            yield _found(Anomaly.HALF_VISIBLE, where, text, number)
        fenced_by = self._fenced_by(transaction)
        # The cluster does not know transactions without records, so that anybody may commit them.
        is_committed = outcome is TransactionOutcome.COMMITTED and total > 0
        if fenced_by is not None and (there or is_committed):
            text = (
                f"its commit was requested at {transaction.commit_ms} ms by producer "
                f"{transaction.incarnation.number}, and producer {fenced_by.number} was ready at "
                f"{fenced_by.ready_ms} ms"
            )
            yield _found(Anomaly.ZOMBIE, where, text, number)

    def _visibility(
        self, transaction: ObservedTransaction
    ) -> tuple[list[str], list[str], list[str]]:
        """Return the records that are visible, those that are not, and those acknowledged ones that
        are not in the log. One above a last stable offset that is stuck is none of these."""
        there, missing, gone = [], [], []
        for record, partition, offset in transaction.records:
            name = f"{record.number} ({_place(partition, offset)})"
            if record in self.visible[partition].places:
                there.append(name)
            elif record in self.logs[partition].places:
                if self.logs[partition].places[record][0] < self.visible[partition].end:
                    missing.append(name)
            else:
                missing.append(name)
                if offset >= SOMEWHERE:
                    gone.append(name)
        return there, missing, gone

    def _fenced_by(self, transaction: ObservedTransaction) -> Incarnation | None:
        """Return a producer that was ready before this transaction's commit was requested by an
        older one."""
        for other in self._fencing[transaction.incarnation.transactional_id]:
            if other.fences(transaction.incarnation) and other.ready_ms < transaction.commit_ms:
                return other
        return None

    def order(self) -> Iterator[Finding]:
        """Check that the acknowledged records of a producer are in each partition in send order,
        and at their offsets."""
        last: dict[tuple[int, int], tuple[int, int]] = {}  # (producer, partition): place, sender
        for transaction in self.history.transactions:
            for record, partition, offset in transaction.records:
                places = self.logs[partition].places.get(record)
                if offset < SOMEWHERE or not places:
                    continue
                if offset != SOMEWHERE and offset not in places:
                    text = f"{_id(record)} was acknowledged at offset {offset}, and is at {places}"
                    yield _found(Anomaly.MOVED, _name(partition), text, record.producer)
                key = (transaction.incarnation.number, partition)
                before, sender = last.get(key, (-1, -1))
                if places[0] < before:
                    text = f"{_id(record)} is at offset {places[0]}, one sent before it at {before}"
                    about = (sender, record.producer)
                    yield _found(Anomaly.REORDERED, _name(partition), text, *dict.fromkeys(about))
                last[key] = (places[0], record.producer)

    def contents(self) -> Iterator[Finding]:
        """Check that no record is in the log more than once."""
        for partition, log in self.logs.items():
            for record, places in log.places.items():
                if len(places) > 1:
                    text = f"{_id(record)} is at offsets {places}"
                    yield _found(Anomaly.DOUBLED, _name(partition), text, record.producer)

    def stuck(self) -> Iterator[Finding]:
        """Check that the last stable offsets reach the high watermarks; what stands there if not is
        a record of the transaction that is still open."""
        for partition, log in self.logs.items():
            stable = self.visible[partition].end
            if stable < log.end:
                text = f"the last stable offset is {stable}, and the high watermark {log.end}"
                about = _numbers([log.ids.get(stable)])
                yield _found(Anomaly.LSO_STUCK, _name(partition), text, *about)

    # -- readers

    def read_by(self, reader: _Reader) -> Iterator[Finding]:
        """Check what a reader saw, passed over, was promised, and did not come to."""
        reading = reader.reading
        for text in reading.complaints:
            yield _found(Anomaly.REFUSED, "", f"{reading.name}: {text}")
        for partition, mark in sorted(reading.marks.items()):
            if mark > (end := self.logs[partition].end):
                text = f"{reading.name} received the high watermark {mark}, and the end is {end}"
                yield _found(Anomaly.VANISHED, _name(partition), text)
        for partition in reading.partitions:
            position = -1
            for seen in reading.seen(partition):
                if seen.offset <= position:
                    text = f"{reading.name} read offset {seen.offset} after offset {position}"
                    yield _found(Anomaly.READ_AGAIN, _name(partition), text, *_numbers([seen.id]))
                elif not reader.is_final:
                    yield from self._left_out(reader, partition, position, seen)
                yield from self._sighting(reader, partition, seen)
                position = seen.offset
        for partition, end in sorted(reading.short_of.items()):
            last = max((seen.offset for seen in reading.seen(partition)), default=-1)
            if reader.is_final or _between(reader.logs[partition], last, end):
                text = f"{reading.name} stopped after offset {last}, and the end is {end}"
                yield _found(Anomaly.STOPPED, _name(partition), text)

    def _sighting(self, reader: _Reader, partition: int, seen: Seen) -> Iterator[Finding]:
        """Check that a record that a reader saw was sent, could be read then, and is still there.
        An aborted one in the final reading is found with its transaction."""
        sent, where = self.history.transaction_of(seen.id, partition), _name(partition)
        place = f"{reader.reading.name} read offset {seen.offset} at {seen.at_ms} ms"
        now = reader.logs[partition].ids.get(seen.offset)
        if sent is None:
            yield _found(Anomaly.PHANTOM, where, f"{place}: nobody sent that there")
        elif reader.is_committed and sent.outcome is TransactionOutcome.ABORTED:
            if not reader.is_final:
                yield _found(Anomaly.ABORTED_READ, where, f"{place}, aborted", sent.number)
        elif reader.is_committed and seen.at_ms < sent.commit_ms:
            text = f"{place}, and its commit was requested at {sent.commit_ms} ms"
            yield _found(Anomaly.INTERMEDIATE, where, text, sent.number)
        elif now != seen.id:
            text = f"{place}, where {_id(now) if now else 'nothing'} is in the end"
            yield _found(Anomaly.VANISHED, where, text, sent.number)

    def _left_out(
        self, reader: _Reader, partition: int, position: int, seen: Seen
    ) -> Iterator[Finding]:
        """Check that a reader left out nothing between two records. What it left out while its
        transaction was open, as far as its producer knew, is skewed."""
        log = reader.logs[partition]
        left_out: dict[Anomaly, list[int]] = {Anomaly.READ_SKEW: [], Anomaly.SKIPPED: []}
        for offset in _between(log, position, seen.offset):
            sent = self.history.transaction_of(log.ids[offset], partition)
            was_open = sent is not None and not 0 <= sent.committed_ms < seen.at_ms
            is_skewed = reader.is_committed and was_open
            left_out[Anomaly.READ_SKEW if is_skewed else Anomaly.SKIPPED].append(offset)
        for kind, offsets in left_out.items():
            if offsets:
                text = f"{reader.reading.name} went from offset {position} to {seen.offset} at "
                text += f"{seen.at_ms} ms, over {_list(map(str, offsets))}"
                about = _numbers(log.ids[offset] for offset in offsets)
                yield _found(kind, _name(partition), text, *about)


def _found(kind: Anomaly, where: str, text: str, *about: int) -> Finding:
    return Finding(kind, where, text, about)


def _between(log: Log, first: int, last: int) -> list[int]:
    """Return the offsets of records above ``first`` and below ``last``."""
    return log.offsets[bisect_right(log.offsets, first) : bisect_left(log.offsets, last)]


def _name(partition: int) -> str:
    return f"partition {partition}"


def _of(transaction: ObservedTransaction) -> str:
    return f"transaction {transaction.number}"


def _id(record: RecordId) -> str:
    return f"record {record.number} of transaction {record.producer}"


def _place(partition: int, offset: int) -> str:
    return f"partition {partition}" + (f" offset {offset}" if offset >= 0 else "")


def _numbers(records: Iterable[RecordId | None]) -> list[int]:
    """Return the numbers of the records' transactions, each once."""
    return list(dict.fromkeys(record.producer for record in records if record is not None))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
