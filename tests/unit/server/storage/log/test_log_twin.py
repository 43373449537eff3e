"""The log against a Python list: random appends, rolls, truncations, crashes and recoveries."""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.records.batch import crc_is_valid, parse_batches
from minikafka.protocol.records.builder import build_batch
from minikafka.server.storage.log.invariants import check_log
from minikafka.server.storage.log.loader import Checkpointed, LogLoader, create_log
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import LogConfig, NoHome, UnifiedLog
from minikafka.world.sim.entropy import SimEntropy
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import run_now
from tests.support.storage.searches import run_search
from tests.support.world.recording_log import RecordingLog

TP = TopicPartition("t", 0)
DIRECTORY = "/logs/t-0"
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, index_size_max_bytes=96)


class Home(NoHome):
    """Checkpoints the recovery point of the log in use, as a log directory does."""

    def __init__(self, machine: "LogAgainstList") -> None:
        self.open_segments = machine.open_segments
        self._machine = machine

    def write_lowered_offsets(self, log: UnifiedLog) -> None:
        if log is self._machine.log:
            self._machine.checkpointed = log.recovery_point
            log.recovery_point_lowered = False


class DrawnDice(SimEntropy):
    """What a power loss leaves is drawn by Hypothesis."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__("drawn")
        self._data = data

    def between(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def random(self) -> float:
        return self._data.draw(st.sampled_from([0.0, 1.0]))


class LogAgainstList(RuleBasedStateMachine):
    """``batches`` is the twin: (base offset, last offset, epoch, timestamp, size)."""

    @initialize()
    def start(self) -> None:
        self.files = InstantFiles()
        self.open_segments = self.make_open_segments()
        self.log = create_log(self.files, DIRECTORY, TP, None, CONFIG, Home(self))
        for parent in ("/", "/logs"):  # as the log manager does
            run_now(self.files.flush_directory(parent))
        self.batches: list[tuple[int, int, int, int, int]] = []
        self.end = 0
        self.epoch = 0
        self.now = 1000
        self.flushed = 0  # offset up to which a completed flush reaches
        self.checkpointed = 0  # the recovery point in the checkpoint file
        self.producer = {"sequence": 0, "epoch": 0}

    def make_open_segments(self) -> OpenSegments:
        return OpenSegments()

    def batch(self, count: int, size: int, **fields: Any) -> bytes:
        return build_batch([(self.now, None, bytes(size), []) for _ in range(count)], **fields)

    @rule(count=st.integers(1, 3), size=st.integers(0, 120), step=st.integers(-3, 20))
    def append(self, count: int, size: int, step: int) -> None:
        self.now = max(self.now + step, 0)
        data = self.batch(count, size)
        info = self.log.append_as_leader(data, self.epoch, 0)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + count - 1)
        self.note(count, len(data))

    @rule(count=st.integers(1, 3))
    def append_idempotent(self, count: int) -> None:
        entry = self.log.producers.states.entry(5)
        sequence = 0 if entry is None else entry.last_sequence + 1
        data = self.batch(count, 20, producer_id=5, producer_epoch=0, base_sequence=sequence)
        first = self.log.append_as_leader(data, self.epoch, 0)
        again = self.log.append_as_leader(data, self.epoch, 0)
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
        self.note(count, len(data))

    def note(self, count: int, size: int) -> None:
        self.batches.append((self.end, self.end + count - 1, self.epoch, self.now, size))
        self.end += count

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=3), gap=st.integers(0, 1))
    def append_as_follower(self, counts: list[int], gap: int) -> None:
        data = b""
        for count in counts:
            part = self.batch(count, 30, base_offset=self.end, leader_epoch=self.epoch)
            data += part
            self.note(count, len(part))
        self.log.append_as_follower(data + bytes(gap * 9))

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch_start_offset(self.epoch, self.end)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        bounds = [first for first, *_ in self.batches] + [self.end]
        offset = data.draw(st.sampled_from(bounds))
        self.log.truncate_to(offset)
        self.shorten(offset)
        self.flush_cut()

    def flush_cut(self) -> None:
        """Nothing may be appended before."""
        if self.log.cut_unflushed:
            run_now(self.log.flush())
            self.flushed = self.end

    def shorten(self, offset: int) -> None:
        self.batches = [b for b in self.batches if b[1] < offset]
        self.end = min(self.end, offset)
        self.flushed = min(self.flushed, offset)

    @precondition(lambda self: self.end > 0)
    @rule()
    def truncate_fully(self) -> None:
        self.log.truncate_fully_and_start_at(self.end)
        self.batches.clear()
        self.flushed = 0
        self.flush_cut()

    @rule(all_of_it=st.booleans())
    def flush(self, all_of_it: bool) -> None:
        active = self.log.segments.active
        before = None if all_of_it or active is None else active.base_offset
        asyncio.run(self.log.flush(before))
        reached = self.end if before is None else before
        assert self.log.recovery_point >= reached
        self.flushed = max(self.flushed, reached)

    @rule()
    def write_indexes(self) -> None:
        run_now(self.open_segments.index_writes.write_some())
        assert all(segment.indexes_written for segment in self.log.segments)

    @rule()
    def checkpoint(self) -> None:
        self.checkpointed = self.log.recovery_point
        self.log.recovery_point_lowered = False

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        # The name of its file keeps the offset of an empty log; without it the log begins at 0.
        nameless = [0] if self.log.unflushed_names else []
        self.files.disk.entropy = DrawnDice(data)
        self.files.crash()
        self.restart(clean=False)
        offset = self.log.log_end_offset
        assert self.flushed <= offset <= self.end
        first = self.batches[0][0] if self.batches else self.end
        assert offset in [*nameless, first, self.end, *(last + 1 for _, last, *_ in self.batches)]
        self.shorten(offset)

    @rule()
    def stop_and_start(self) -> None:
        self.log.persist()
        asyncio.run(self.log.flush())
        self.flushed = self.end
        self.checkpointed = self.log.recovery_point
        self.log.close()
        self.restart(clean=True)
        assert self.log.log_end_offset == self.end
        assert self.log.recovery_point == self.end

    def restart(self, clean: bool) -> None:
        self.open_segments = self.make_open_segments()
        log = UnifiedLog(self.files, DIRECTORY, TP, CONFIG, Home(self))
        found = Checkpointed(clean, self.checkpointed)
        run_now(LogLoader(self.files, log, found, RecordingLog()).load())
        if log.cut_unflushed:
            run_now(log.flush())
        self.log = log

    @invariant()
    def is_the_same(self) -> None:
        assert self.log.log_end_offset == self.end
        check_log(self.log)
        found = []
        offset = self.log.log_start_offset
        while offset < self.end:
            read = self.log.read(offset, 250, self.end, True)
            for batch in parse_batches(read.records):
                assert crc_is_valid(batch)
                found.append(batch)
            assert sum(b.size_bytes for b in parse_batches(read.records)) == len(read.records)
            offset = found[-1].next_offset
        seen = [
            (b.base_offset, b.last_offset, b.partition_leader_epoch, b.max_timestamp, b.size_bytes)
            for b in found
        ]
        assert seen == self.batches

    @invariant()
    def indexes_agree_with_a_scan(self) -> None:
        for segment in self.log.segments:
            places = [(f.position, f.batch) for f in segment.batches()]
            for index in range(segment.offset_index.count):
                offset, position = segment.offset_index.entry(index)
                assert (position, segment.base_offset + offset) in [
                    (p, b.last_offset) for p, b in places
                ]
            for index in range(segment.time_index.count):
                timestamp, offset = segment.time_index.entry(index)
                upto = [b for _, b in places if b.last_offset <= segment.base_offset + offset]
                assert max(b.max_timestamp for b in upto) == timestamp == upto[-1].max_timestamp

    @invariant()
    def bounded_reads_stop_in_time(self) -> None:
        for first, last, *_ in self.batches[:3]:
            read = self.log.read(self.log.log_start_offset, 10_000, last, False)
            assert [b.last_offset for b in parse_batches(read.records)] == [
                x for _, x, *_ in self.batches if x < last and self.same_segment(x)
            ]
            assert self.log.read(first, 10_000, last + 1, False).first_offset == first

    def same_segment(self, offset: int) -> bool:
        floor = self.log.segments.floor
        return floor(offset) is floor(self.log.log_start_offset)

    @invariant()
    def times_are_found(self) -> None:
        for timestamp in {self.now, self.now - 5, *(b[3] for b in self.batches[-2:])}:
            expected = next((b[0] for b in self.batches if b[3] >= timestamp), None)
            found = run_search(self.log.offset_by_timestamp(timestamp, self.end))
            assert (None if found is None else found.offset) == expected
        latest = max(self.batches, key=lambda b: b[3], default=None)
        best = run_search(self.log.offset_of_max_timestamp(self.end))
        assert (best and (best.offset, best.timestamp)) == (latest and (latest[0], latest[3]))

    @invariant()
    def epochs_are_those_of_the_batches(self) -> None:
        starts: dict[int, int] = {}
        for first, _, epoch, *_ in self.batches:
            starts.setdefault(epoch, first)
        known = {e.epoch: e.start_offset for e in self.log.epochs.cache.entries}
        assert {e: s for e, s in known.items() if s < self.end} == starts


LogAgainstList.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestLogAgainstList = pytest.mark.mission("FET-15")(LogAgainstList.TestCase)


class LogWithOneOpenColdSegment(LogAgainstList):
    """The same log with a bound: what is read, truncated and recovered does not depend on it."""

    def make_open_segments(self) -> OpenSegments:
        return OpenSegments(1)

    @invariant()
    def only_the_active_and_one_cold_segment_are_open(self) -> None:
        segments = list(self.log.segments)
        assert sum(segment.holds_file for segment in segments) <= 2
        assert all(segment.holds_file for segment in segments[-1:])


LogWithOneOpenColdSegment.TestCase.settings = LogAgainstList.TestCase.settings
TestLogWithOneOpenColdSegment = LogWithOneOpenColdSegment.TestCase
