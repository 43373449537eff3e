"""The verdict on histories: good ones, and those in which one thing is wrong."""

from __future__ import annotations

import random
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.testing.verify.append.history import (
    IN_DOUBT,
    SOMEWHERE,
    History,
    Reading,
    RecordId,
    Written,
)
from minikafka.testing.verify.append.judge import FindingKind, judge
from minikafka.testing.verify.append.load import Append
from minikafka.testing.verify.append.writer import identify, key_of, value_of
from minikafka.testing.verify.report import WorkloadVerdict, verdict

Logs = dict[int, list[RecordId]]


class Stage:
    """Producers that write ``count`` records each to ``partitions``, and what the cluster kept."""

    def __init__(self, producers: int = 2, count: int = 12, partitions: int = 2) -> None:
        self.written = [Written(number) for number in range(producers)]
        self.logs: Logs = {number: [] for number in range(partitions)}
        self.readers: dict[str, Logs] = {}
        self.marks: dict[int, int] = {}
        self.idempotent = True
        for step in range(count):
            for written in self.written:
                partition = (step + written.producer) % partitions
                record = written.begin(partition, step % 3, step * 10)
                self.logs[partition].append(record)
                written.settle(record.number, len(self.logs[partition]) - 1, step * 10 + 5)

    def append(self, partition: int, offset: int) -> RecordId:
        """One more of producer 0, with key 0, whose outcome is ``offset``."""
        record = self.written[0].begin(partition, 0, 900)
        self.written[0].settle(record.number, offset, 950)
        return record

    def history(self) -> History:
        final = self._reading("final reading", self.logs)
        readings = [self._reading(name, logs) for name, logs in self.readers.items()]
        for reading in readings:
            for partition, mark in self.marks.items():
                reading.note_mark(partition, mark)
        ends = {number: len(log) for number, log in self.logs.items()}
        return History(self.written, readings, final, ends, self.idempotent)

    def _reading(self, name: str, logs: Logs) -> Reading:
        reading = Reading(name)
        for partition, log in logs.items():
            for offset, record in enumerate(log):
                reading.see(partition, offset, record, 1000 + offset)
        return reading

    def kinds(self) -> list[Enum]:
        return [finding.kind for finding in judge(self.history())]


class Ended(Append):
    """A workload that has this history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.topics = ["t"]


def told(history: History) -> WorkloadVerdict:
    return verdict(Ended(history))


def test_a_good_history() -> None:
    stage = Stage()
    stage.readers = {"reader 1": stage.logs, "reader 2": {0: stage.logs[0][:3]}}
    stage.marks = {0: len(stage.logs[0])}
    assert stage.kinds() == []
    good = told(stage.history())
    assert good.headline().startswith("ok: nothing lost")
    assert good.counts == {
        "records_acknowledged": 24,
        "in_doubt": 0,
        "read": 27,
        "longest_wait_ms": 5,
    }


def test_records_in_doubt_may_be_present_or_missing() -> None:
    stage = Stage()
    stage.append(0, IN_DOUBT)
    stage.logs[0].append(stage.append(0, IN_DOUBT))
    assert stage.kinds() == []
    assert told(stage.history()).counts["in_doubt"] == 2


def test_an_acknowledgement_without_an_offset() -> None:
    stage = Stage()
    stage.logs[0].append(stage.append(0, SOMEWHERE))
    assert stage.kinds() == []
    stage.append(0, SOMEWHERE)
    assert stage.kinds() == [FindingKind.LOST]


def test_a_record_that_is_lost() -> None:
    stage = Stage()
    lost = stage.logs[1].pop()
    (finding,) = judge(stage.history())
    assert finding.kind is FindingKind.LOST
    assert (finding.where, finding.about) == ("partition 1", (lost,))
    bad = told(stage.history())
    lines = [bad.headline(), *bad.finding_lines()]
    assert lines[0].startswith("FAILED: 1 lost; 24 records acknowledged")
    assert "acknowledged at offset 11 at 0.115 s" in lines[2]
    assert lines[3] == "      final reading: did not see it"
    assert bad.as_json()["found"] == {"lost": 1}


def test_a_record_that_was_lost_in_the_middle_moves_the_others() -> None:
    stage = Stage()
    del stage.logs[0][4]
    kinds = stage.kinds()
    assert kinds.count(FindingKind.LOST) == 1
    assert set(kinds) == {FindingKind.LOST, FindingKind.MOVED}


def test_a_record_that_is_there_twice() -> None:
    stage = Stage()
    stage.logs[0].append(stage.logs[0][2])
    assert stage.kinds() == [FindingKind.DOUBLED]
    stage.idempotent = False
    assert stage.kinds() == []


def test_a_doubled_record_in_doubt_is_doubled_too() -> None:
    stage = Stage()
    record = stage.append(0, IN_DOUBT)
    stage.logs[0] += [record, record]
    assert stage.kinds() == [FindingKind.DOUBLED]


def test_records_in_the_wrong_order() -> None:
    stage = Stage(producers=1, partitions=1)
    log = stage.logs[0]
    log[1], log[2] = log[2], log[1]
    kinds = stage.kinds()
    assert kinds.count(FindingKind.REORDERED) == 1
    assert kinds.count(FindingKind.MOVED) == 2


def test_order_is_checked_without_known_offsets() -> None:
    stage = Stage(producers=1, partitions=1)
    written = Written(0)
    for number in range(len(stage.logs[0])):
        written.begin(0, 0, 0)
        written.settle(number, SOMEWHERE, 1)
    stage.written = [written]
    assert stage.kinds() == []
    stage.logs[0].reverse()
    assert set(stage.kinds()) == {FindingKind.REORDERED}


def test_producers_have_no_order_among_them() -> None:
    stage = Stage(producers=2, partitions=1)
    log = stage.logs[0]
    for written in stage.written:
        again = Written(written.producer)
        for sent in written:
            again.begin(0, 0, 0)
            again.settle(sent.id.number, SOMEWHERE, 1)
        stage.written[written.producer] = again
    log.sort()
    assert stage.kinds() == []


def test_records_that_were_never_sent_are_strangers() -> None:
    stage = Stage()
    stage.logs[0].append(RecordId(7, 1))
    stage.logs[1].append(RecordId(0, 99))
    assert stage.kinds() == [FindingKind.STRANGER, FindingKind.STRANGER]


def test_a_record_in_another_partition_is_a_stranger() -> None:
    stage = Stage()
    stage.logs[1].append(stage.append(0, IN_DOUBT))
    assert stage.kinds() == [FindingKind.STRANGER]


def test_a_reader_that_saw_a_vanished_record_is_reported() -> None:
    stage = Stage()
    ghost = stage.append(0, IN_DOUBT)
    stage.readers = {"reader 1": {0: [*stage.logs[0], ghost]}}
    (finding,) = judge(stage.history())
    assert finding.kind is FindingKind.BEYOND
    assert finding.about == (ghost,)
    assert finding.text == "reader 1 read offset 12, where nothing is now"


def test_a_reader_that_saw_another_record_there() -> None:
    stage = Stage()
    ghost = stage.append(0, IN_DOUBT)
    stage.readers = {"reader 1": {0: [*stage.logs[0][:5], ghost]}}
    (finding,) = judge(stage.history())
    assert finding.kind is FindingKind.BEYOND
    assert finding.about == (ghost, stage.logs[0][5])


def test_a_high_watermark_that_was_too_high() -> None:
    stage = Stage()
    stage.readers = {"reader 1": {}}
    stage.marks = {0: 12, 1: 13}
    assert stage.kinds() == [FindingKind.BEYOND]


def test_a_reader_that_goes_back_and_one_that_leaves_out() -> None:
    stage = Stage()
    history = stage.history()
    reader = Reading("reader 1")
    for offset in (0, 1, 2, 1, 2, 5):
        reader.see(0, offset, stage.logs[0][offset], 0)
    history.readings.append(reader)
    findings = judge(history)
    assert [f.kind for f in findings] == [FindingKind.BELOW, FindingKind.SKIPPED]
    assert findings[1].text == "reader 1 went from offset 2 to 5, over 2"


def test_a_reader_that_was_refused() -> None:
    history = Stage().history()
    reader = Reading("reader 1")
    reader.complaints.append("OFFSET_OUT_OF_RANGE")
    history.readings.append(reader)
    assert [f.kind for f in judge(history)] == [FindingKind.REFUSED]


def test_a_reader_that_never_came_to_the_end() -> None:
    stage = Stage()
    history = stage.history()
    reader = Reading("reader 1")
    for offset in (0, 1, 2):
        reader.see(0, offset, stage.logs[0][offset], 0)
    reader.short_of = {0: 12, 1: 15}
    history.readings.append(reader)
    history.final.short_of = {1: 14}
    findings = judge(history)
    assert [f.kind for f in findings] == [FindingKind.STOPPED] * 3
    assert findings[0].text == "reader 1 stopped after offset 2, and the end is 12"
    assert findings[1].text == "reader 1 stopped after offset -1, and the end is 15"
    assert findings[2].text == "final reading stopped after offset 11, and the end is 14"


def test_an_unreadable_record_is_lost_and_does_not_blame_the_reader() -> None:
    stage = Stage()
    lost = stage.append(0, len(stage.logs[0]))
    stage.readers = {"reader 1": stage.logs}
    history = stage.history()
    history.readings[0].short_of = {0: 13}
    assert [(f.kind, f.about) for f in judge(history)] == [(FindingKind.LOST, (lost,))]


def test_nothing_acknowledged_proves_nothing() -> None:
    stage = Stage(count=0)
    assert stage.kinds() == [FindingKind.UNPROVEN]
    stage.append(0, IN_DOUBT)
    history = stage.history()
    assert (
        told(history)
        .headline()
        .startswith("FAILED: 1 unproven; 0 records acknowledged, 1 in doubt")
    )


PLANTED = {
    "lost": lambda log, dice: log.pop(dice.randrange(len(log))),
    "doubled": lambda log, dice: log.insert(
        dice.randrange(len(log)), log[dice.randrange(len(log))]
    ),
    "swapped": lambda log, dice: log.reverse(),
    "foreign": lambda log, dice: log.insert(dice.randrange(len(log)), RecordId(99, 0)),
}


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(3, 30),
    partitions=st.integers(1, 3),
    what=st.sampled_from(sorted(PLANTED)),
)
def test_one_wrong_thing_is_never_overlooked(
    seed: int, count: int, partitions: int, what: str
) -> None:
    stage = Stage(3, count, partitions)
    stage.readers = {"reader 1": {p: list(log) for p, log in stage.logs.items()}}
    assert stage.kinds() == []
    dice = random.Random(seed)
    PLANTED[what](stage.logs[dice.randrange(partitions)], dice)
    assert stage.kinds() != []


@pytest.mark.parametrize("size_bytes", [0, 10, 100])
def test_a_value_carries_its_identity(size_bytes: int) -> None:
    value = value_of(b"abcd", RecordId(3, 77), size_bytes)
    assert len(value) == max(size_bytes, len(b"abcd 3 77 "))
    assert identify(b"abcd", value) == RecordId(3, 77)
    assert identify(b"other", value) is None
    assert identify(b"abcd", value[:-1] + b"!") is None
    assert identify(b"abcd", b"abcd x 77 ") is None
    assert identify(b"abcd", None) is None
    assert key_of(1, 2, 3) == b"1-2-3"
