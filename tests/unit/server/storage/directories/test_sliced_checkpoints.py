"""The checkpoints of recovery points and of log starts look at some logs in each turn of the loop,
and never write an older offset over a newer one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.core.log import small_files
from minikafka.core.log.config import LogConfig
from minikafka.core.log.small_files import LOG_START_OFFSET, RECOVERY_POINT
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.storage.directories.delayed_removal import DelayedRemoval
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.directories.log_starts import LogStarts
from minikafka.server.storage.log.loader import create_log
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW, batch, cut, run_now
from tests.support.world.recording_log import RecordingLog
from tests.support.world.turns import pause_at_every_element
from tests.support.world.virtual_clock import VirtualClock

PARTITIONS = [TopicPartition("t", index) for index in range(5)]
CHANGED = range(3)
SEGMENTS = LogConfig(segment_bytes=200, index_interval_bytes=100)


class Lab:
    """A directory with logs, as a ``LogManager`` has it."""

    def __init__(self) -> None:
        self.files = InstantFiles()
        self.files.make_directories("/d")
        events, clock = RecordingLog(), VirtualClock()
        self.starts = LogStarts(clock, events)
        self.directory = LogDirectory(
            self.files,
            "/d",
            events,
            DelayedRemoval(self.files, clock, events),
            self.starts.moved,
            high_watermark=lambda _: None,
            open_segments=OpenSegments(),
        )
        self.created = 0

    def create(self, index: int) -> None:
        tp = PARTITIONS[index]
        if tp not in self.directory.logs:
            self.created += 1
            path = f"/d/{self.created}"
            log = create_log(self.files, path, tp, None, SEGMENTS, self.directory)
            log.recovery_point_lowered = bool(self.directory.points.in_file(tp))
            self.directory.add(log)

    def change(self, what: str, index: int) -> None:
        if what == "write starts":
            self.starts.write()
            self.check_starts()
            return
        self.create(index)
        log = self.directory.logs[PARTITIONS[index]]
        if what == "append":
            if log.cut_unflushed:
                run_now(log.flush())
            log.append_as_leader(batch(b"some value"), 0, NOW)
        elif what == "roll":
            log.roll()
            assert not log.recovery_point_lowered  # written before a segment is added
        elif what == "truncate":
            log.truncate_to(max(log.log_start_offset, log.log_end_offset - 3))
        elif what == "move in":
            self.directory.remove(log.topic_partition)
            log.recovery_point_lowered = log.unflushed_names = True
            self.directory.add(log)
        elif what == "flush":
            run_now(log.flush())
        elif what == "move start":
            log.increment_log_start_offset(min(log.log_start_offset + 2, log.log_end_offset))
        elif what == "remove dead":
            self.starts.write()
            log.remove_dead_segment()
        elif what == "cut":
            cut(log, max(log.log_start_offset, log.log_end_offset - 3))
        elif what == "restart lower":
            log.truncate_fully_and_start_at(log.log_start_offset // 2)
            run_now(log.flush())
        elif what == "delete":
            log.close()
            self.directory.remove(log.topic_partition)
            if self.directory.starts.in_file(log.topic_partition) is not None:
                run_now(self.directory.flush_starts())

    def check_points(self) -> None:
        """A recovery point in the file is that of the log, or a lower one, unless the log knows."""
        written = self.directory.read_offsets(RECOVERY_POINT)
        for tp, log in self.directory.logs.items():
            assert written.get(tp, 0) == (self.directory.points.in_file(tp) or 0)
            assert log.recovery_point_lowered or written.get(tp, 0) <= log.recovery_point

    def check_starts(self) -> None:
        """After a kill every log begins where it begins now."""
        written = self.directory.read_offsets(LOG_START_OFFSET)
        for tp, log in self.directory.logs.items():
            first = log.segments.first
            named = 0 if first is None else first.base_offset
            assert max(written.get(tp, 0), named) == log.log_start_offset

    def expected(self) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """What is written when nothing changes meanwhile: recovery points, log starts."""
        logs = self.directory.logs
        return {tp: log.recovery_point for tp, log in logs.items()}, {
            tp: log.log_start_offset for tp, log in logs.items() if _needs_row(log)
        }


def _needs_row(log: UnifiedLog) -> bool:
    first = log.segments.first
    named = 0 if first is None or log.unflushed_names else first.base_offset
    return log.log_start_offset > named


CHANGE = st.tuples(
    st.sampled_from(
        ["append", "append", "append", "flush", "roll", "move start", "remove dead", "truncate",
         "cut", "restart lower", "move in", "delete", "delete", "write starts"]
    ),
    st.sampled_from(CHANGED),
)  # fmt: skip


@pytest.mark.mission("FAST-12")
@given(before=st.lists(CHANGE, max_size=30), turns=st.lists(st.lists(CHANGE, max_size=3)))
def test_a_checkpoint_never_writes_over_a_newer_offset(
    before: list[tuple[str, int]], turns: list[list[tuple[str, int]]]
) -> None:
    async def live() -> None:
        lab = Lab()
        for index in CHANGED:
            for what in ("append", "append", "append", "move start", "append", "flush"):
                lab.change(what, index)
        for what, index in before:
            lab.change(what, index)
        works = [lab.directory.checkpoint_recovery_points, lab.directory.checkpoint_starts]
        checkpoints = [asyncio.ensure_future(work()) for work in works]
        for changes in turns:
            await asyncio.sleep(0)
            lab.check_points()
            for what, index in changes:
                lab.change(what, index)
                lab.check_points()
        await asyncio.gather(*checkpoints)
        lab.check_points()
        lab.starts.write()
        lab.check_starts()
        for work in works:  # of a clean shutdown
            await work()
        points, starts = lab.expected()
        assert lab.directory.read_offsets(RECOVERY_POINT) == points
        assert lab.directory.read_offsets(LOG_START_OFFSET) == starts

    with pytest.MonkeyPatch.context() as patch:
        pause_at_every_element(patch)
        asyncio.run(live())


async def rows_a_turn(lab: Lab, name: str, patch: pytest.MonkeyPatch) -> Sequence[int]:
    """Run a checkpoint, and return how many logs it looked at between two turns of another task."""
    seen, turns = 0, []
    note = LogDirectory._note_point if name == "points" else LogDirectory._note_start

    def counted(self: LogDirectory, log: UnifiedLog) -> None:
        nonlocal seen
        seen += 1
        note(self, log)

    patch.setattr(LogDirectory, note.__name__, counted)
    directory = lab.directory
    work = directory.checkpoint_recovery_points if name == "points" else directory.checkpoint_starts
    running = asyncio.ensure_future(work())
    before = 0
    while not running.done():
        await asyncio.sleep(0)
        turns.append(seen - before)
        before = seen
    return turns


@pytest.mark.mission("FAST-12")
@pytest.mark.parametrize("name", ["points", "starts"])
async def test_a_turn_of_the_loop_looks_at_one_slice_of_the_logs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause_at_every_element(monkeypatch)
    lab = Lab()
    for index in range(len(PARTITIONS)):
        lab.create(index)
    turns = await rows_a_turn(lab, name, monkeypatch)
    assert max(turns) == 1
    assert sum(turns) == len(PARTITIONS)


@pytest.mark.mission("FAST-12")
@pytest.mark.parametrize("what", ["move start", "cut", "delete"])
def test_a_single_change_encodes_the_rows_of_its_log_only(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab()
    for index in range(len(PARTITIONS)):
        for _ in range(4):
            lab.change("append", index)
        lab.change("flush", index)
        lab.change("move start", index)
    run_now(lab.directory.checkpoint_recovery_points())
    lab.starts.write()
    encoded: list[TopicPartition] = []
    encode = small_files.offset_row

    def counted(topic_partition: TopicPartition, offset: int) -> str:
        encoded.append(topic_partition)
        return encode(topic_partition, offset)

    monkeypatch.setattr(small_files, "offset_row", counted)
    lab.change(what, 1)
    lab.starts.write()
    assert set(encoded) <= {PARTITIONS[1]}
    lab.check_points()
    lab.check_starts()
    assert lab.directory.read_offsets(LOG_START_OFFSET) == lab.expected()[1]


@pytest.mark.mission("FAST-12")
async def test_a_point_that_was_lowered_after_its_slice_is_written_before_the_next_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pause_at_every_element(monkeypatch)
    lab = Lab()
    for index in CHANGED:
        for what in ("append", "append", "append", "flush", "move in"):
            lab.change(what, index)
    log = lab.directory.logs[PARTITIONS[0]]
    checkpoint = asyncio.ensure_future(lab.directory.checkpoint_recovery_points())
    for _ in range(2):  # pauses, before the first log and the second
        await asyncio.sleep(0)
    lab.change("truncate", 0)
    await checkpoint
    assert lab.directory.points.in_file(PARTITIONS[0]) == 3
    assert log.recovery_point_lowered
    lab.change("roll", 0)
    assert lab.directory.points.in_file(PARTITIONS[0]) == log.recovery_point == 0
