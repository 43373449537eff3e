"""Check a history: find every violated guarantee, with the records concerned."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import Enum

from minikafka.testing.verify.append.history import SOMEWHERE, History, Reading, RecordId
from minikafka.testing.verify.finding import Finding


class FindingKind(Enum):
    """What ``judge`` finds, each with its meaning."""

    LOST = "acknowledged, and not there"
    MOVED = "acknowledged at another offset than it is at"
    DOUBLED = "there more than once"
    REORDERED = "behind a later record of its producer"
    STRANGER = "sent by nobody"
    BEYOND = "read, or promised to be readable, beyond what was committed"
    BELOW = "read again, below what had been read"
    SKIPPED = "passed over by a reader"
    STOPPED = "not read to its end by a reader that had the time"
    UNPROVEN = "no promise was made, and none kept"
    REFUSED = "an error that no reader may get"


class Log:
    """The contents of a partition in the final reading."""

    def __init__(self, final: Reading, partition: int, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.offsets: list[int] = []
        self.ids: dict[int, RecordId | None] = {}
        self.places: dict[RecordId, list[int]] = {}
        for seen in final.seen(partition):
            self.offsets.append(seen.offset)
            self.ids[seen.offset] = seen.id
            if seen.id is not None:
                self.places.setdefault(seen.id, []).append(seen.offset)

    def count_between(self, first: int, last: int) -> int:
        """Return the number of records at offsets above ``first`` and below ``last``."""
        return max(0, bisect_left(self.offsets, last) - bisect_right(self.offsets, first))


def judge(history: History) -> list[Finding]:
    """Return all violations, those about single records first; empty if there is none."""
    partitions = {*history.ends, *history.final.partitions}
    for reading in history.readings:
        partitions.update(reading.partitions)
    starts, ends = history.starts, history.ends
    logs = {p: Log(history.final, p, starts.get(p, 0), ends.get(p, 0)) for p in sorted(partitions)}
    findings = [*_promises(history, logs), *_order(history, logs)]
    if not any(written.acknowledged for written in history.written):
        findings.append(Finding(FindingKind.UNPROVEN, "", "no record was acknowledged"))
    for partition, log in logs.items():
        findings.extend(_contents(history, partition, log))
    for reading in [*history.readings, history.final]:
        findings.extend(_reader(reading, logs, reading is history.final))
    return findings


def _promises(history: History, logs: dict[int, Log]) -> Iterator[Finding]:
    """Check that every acknowledged record is in the log, at its acknowledged offset."""
    for written in history.written:
        for sent in written:
            if not sent.is_acknowledged:
                continue
            log = logs.get(sent.partition)
            places = [] if log is None else log.places.get(sent.id, [])
            where = "" if sent.offset == SOMEWHERE else f" at offset {sent.offset}"
            if not places and history.starts.get(sent.partition, 0) > max(sent.offset, 0):
                continue
            if not places:
                text = f"acknowledged{where}, and not there"
                yield _in_partition(FindingKind.LOST, sent.partition, text, (sent.id,))
            elif where and sent.offset not in places:
                text = f"acknowledged{where}, and there at {_list(places)}"
                yield _in_partition(FindingKind.MOVED, sent.partition, text, (sent.id,))


def _order(history: History, logs: dict[int, Log]) -> Iterator[Finding]:
    """Check that acknowledged records of a producer are in send order in each partition.

    Records in doubt are not checked: a batch may arrive late after a broker was given up.
    """
    for written in history.written:
        last: dict[int, tuple[int, RecordId]] = {}
        for sent in written:
            log = logs.get(sent.partition)
            places = [] if log is None else log.places.get(sent.id, [])
            if not sent.is_acknowledged or not places:
                continue
            offset, before = last.get(sent.partition, (-1, sent.id))
            if places[0] < offset:
                text = f"at offset {places[0]}, and the one sent before it at {offset}"
                yield _in_partition(FindingKind.REORDERED, sent.partition, text, (before, sent.id))
            last[sent.partition] = (places[0], sent.id)


def _contents(history: History, partition: int, log: Log) -> Iterator[Finding]:
    """Check that each record in the log was sent to this partition, and is there only once."""
    for offset, known in log.ids.items():
        sent = None if known is None else history.sent(known)
        if sent is None or sent.partition != partition:
            text = f"offset {offset} holds what nobody sent there"
            yield _in_partition(
                FindingKind.STRANGER, partition, text, () if sent is None else (sent.id,)
            )
    if history.idempotent:
        for record, places in log.places.items():
            if len(places) > 1:
                yield _in_partition(
                    FindingKind.DOUBLED, partition, f"at offsets {_list(places)}", (record,)
                )


def _reader(reading: Reading, logs: dict[int, Log], is_final: bool) -> Iterator[Finding]:
    for text in reading.complaints:
        yield Finding(FindingKind.REFUSED, "", f"{reading.name}: {text}")
    for partition, mark in sorted(reading.marks.items()):
        end = logs[partition].end if partition in logs else 0
        if mark > end:
            text = f"{reading.name} received the high watermark {mark}, and the end is {end}"
            yield _in_partition(FindingKind.BEYOND, partition, text)
    for partition in reading.partitions:
        yield from _steps(reading, partition, logs[partition], is_final)
    for partition, end in sorted(reading.short_of.items()):
        last = max((seen.offset for seen in reading.seen(partition)), default=-1)
        # Records that no reader could read are reported as lost, not here.
        if is_final or (partition in logs and logs[partition].count_between(last, end)):
            text = f"{reading.name} stopped after offset {last}, and the end is {end}"
            yield _in_partition(FindingKind.STOPPED, partition, text)


def _steps(reading: Reading, partition: int, log: Log, is_final: bool) -> Iterator[Finding]:
    """Check that offsets only increase, and that no record was skipped or read uncommitted."""
    position = -1
    for seen in reading.seen(partition):
        records = () if seen.id is None else (seen.id,)
        if seen.offset <= position:
            text = f"{reading.name} read offset {seen.offset} after offset {position}"
            yield _in_partition(FindingKind.BELOW, partition, text, records)
        elif not is_final and (left_out := log.count_between(position, seen.offset)):
            text = f"{reading.name} went from offset {position} to {seen.offset}, over {left_out}"
            yield _in_partition(FindingKind.SKIPPED, partition, text, records)
        position = seen.offset
        if seen.offset < log.start:
            continue
        if not is_final and log.ids.get(seen.offset, seen) != seen.id:
            now = log.ids.get(seen.offset)
            there = "nothing" if now is None else f"{now.producer}/{now.number}"
            text = f"{reading.name} read offset {seen.offset}, where {there} is now"
            found = records if now is None else (*records, now)
            yield _in_partition(FindingKind.BEYOND, partition, text, found)


def _in_partition(
    kind: FindingKind, partition: int, text: str, about: tuple[RecordId, ...] = ()
) -> Finding:
    return Finding(kind, f"partition {partition}", text, about)


def _list(offsets: list[int]) -> str:
    return ", ".join(map(str, offsets))
