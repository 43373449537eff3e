"""The bound on the open files of cold segments."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.core.log.names import LOG_SUFFIX
from minikafka.kernel.ports import File, Files
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.server.node import config_views
from minikafka.server.storage.log.batch_scan import HEADER_CHUNK_BYTES
from minikafka.server.storage.log.loader import create_log
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import LogConfig, NoHome, UnifiedLog
from minikafka.world.real.files import RealFiles
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, NOW, TP, batch, cut, values_of

VALUE_BYTES = 50
SEGMENT_BYTES = len(batch(bytes(VALUE_BYTES)))  # one batch each


class Home(NoHome):
    def __init__(self, open_segments: OpenSegments) -> None:
        self.open_segments = open_segments


class FewDescriptors(InstantFiles):
    """Has only so many descriptors for the files of segments."""

    def __init__(self, descriptors: int = 1_000) -> None:
        super().__init__()
        self.descriptors = descriptors

    @property
    def segment_files(self) -> list[str]:
        """The paths of the open files."""
        return [file._path for file in self.opened if LOG_SUFFIX in file._path]

    def open(self, path: str, create: bool = False) -> File:
        if LOG_SUFFIX in path and len(self.segment_files) >= self.descriptors:
            raise OSError(errno.EMFILE, "too many open files", path)
        return super().open(path, create)


def value(number: int) -> bytes:
    return b"%050d" % number


def log_of(files: Files, count: int, open_segments: OpenSegments, directory: str) -> UnifiedLog:
    """A log with one record in each of ``count`` segments."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES, file_delete_delay_ms=0)
    log = create_log(files, directory, TP, None, config, Home(open_segments))
    for number in range(count):
        log.append_as_leader(batch(value(number)), 0, NOW)
    assert len(log.segments) == count
    return log


def read(log: UnifiedLog, offset: int) -> bytes:
    return bytes(log.read(offset, 1, log.log_end_offset, True).records)[-VALUE_BYTES - 1 : -1]


@pytest.mark.mission("SAFE-29")
@pytest.mark.parametrize("bound", [1, 3])
def test_a_log_of_many_segments_is_read_with_few_open_files(bound: int) -> None:
    files, open_segments = FewDescriptors(), OpenSegments(bound)
    log = log_of(files, 50, open_segments, DIRECTORY)
    dice = random.Random(1)
    for _ in range(300):
        offset = dice.randrange(50)
        assert read(log, offset) == value(offset)
        assert len(files.segment_files) == bound + 1  # and the active segment
        assert len(open_segments) == bound
    assert open_segments.reopened > 200
    log.close()
    assert files.segment_files == []
    assert len(open_segments) == 0


def test_the_least_recently_used_files_are_closed() -> None:
    files, open_segments = FewDescriptors(), OpenSegments(3)
    log = log_of(files, 10, open_segments, DIRECTORY)
    for offset in (1, 2, 3, 1, 4):
        read(log, offset)
    names = sorted(
        int(path.rpartition("/")[2].removesuffix(".log")) for path in files.segment_files
    )
    assert names == [1, 3, 4, 9]
    before = open_segments.reopened
    for offset in (1, 3, 4, 9):
        read(log, offset)
    assert open_segments.reopened == before


@pytest.mark.mission("SAFE-29")
async def test_descriptors_stay_in_bound_while_threads_read(tmp_path: Path) -> None:
    """Each thread has a copy of its descriptor, so that closing the file does not disturb it."""
    bound, at_once = 2, 8
    files = RealFiles(max_threads=2, max_waiting=at_once)
    log = log_of(files, 60, OpenSegments(bound), str(tmp_path / "t-0"))
    dice = random.Random(2)

    def descriptors() -> int:
        found = 0
        for name in os.listdir("/proc/self/fd"):
            try:
                found += os.readlink(f"/proc/self/fd/{name}").startswith(str(tmp_path))
            except OSError:
                continue
        return found

    async def one(offset: int) -> None:
        found = await log.read_cold(offset, 1, log.log_end_offset, True)
        assert bytes(found.records)[-VALUE_BYTES - 1 : -1] == value(offset)

    for _ in range(20):
        await asyncio.gather(*(one(dice.randrange(60)) for _ in range(at_once)))
        assert descriptors() <= bound + 1
    await log.flush()
    assert descriptors() <= bound + 1
    log.close()
    assert descriptors() == 0


@pytest.mark.mission("SAFE-29")
def test_without_a_descriptor_cold_segments_give_theirs() -> None:
    files, open_segments = FewDescriptors(descriptors=5), OpenSegments()
    log = log_of(files, 20, open_segments, DIRECTORY)  # each roll needs one more
    assert [read(log, offset) for offset in range(20)] == [value(n) for n in range(20)]
    files.descriptors = 0
    with pytest.raises(OSError, match="too many open files"):
        read(log, 0)  # nothing is left to close
    assert len(open_segments) == 0
    files.descriptors = 5
    assert read(log, 0) == value(0)


def test_a_segment_that_becomes_active_again_keeps_its_file_open() -> None:
    files, open_segments = FewDescriptors(), OpenSegments(1)
    log = log_of(files, 10, open_segments, DIRECTORY)
    cut(log, 5)
    active = log.segments.active
    assert active is not None
    for offset in range(4):
        read(log, offset)
    assert active.path in files.segment_files
    assert len(files.segment_files) == 2
    log.append_as_leader(batch(value(5)), 0, NOW)
    log.append_as_leader(batch(value(6)), 0, NOW)
    assert values_of(log) == [value(n) for n in range(7)]


def test_an_iteration_over_headers_goes_on_after_its_file_was_closed() -> None:
    files, count = FewDescriptors(), 3 * HEADER_CHUNK_BYTES // SEGMENT_BYTES
    config = LogConfig(segment_bytes=count * SEGMENT_BYTES)
    log = create_log(files, DIRECTORY, TP, None, config, Home(OpenSegments(1)))
    for number in range(2 * count + 1):
        log.append_as_leader(batch(value(number)), 0, NOW)
    segment = log.segments.first
    assert segment is not None
    headers = segment.batches()
    assert next(headers).batch.base_offset == 0
    read(log, count)
    assert not segment.holds_file
    assert [found.batch.base_offset for found in headers] == list(range(1, count))


def test_a_closed_file_is_found_after_its_directory_was_renamed() -> None:
    files = FewDescriptors()
    log = log_of(files, 10, OpenSegments(1), DIRECTORY)
    files.rename(DIRECTORY, "/logs/renamed")
    log.moved_to("/logs/renamed")
    assert values_of(log) == [value(n) for n in range(10)]


@pytest.mark.parametrize(
    "rename",
    [
        lambda segment: segment.put_aside(),
        lambda segment: segment.change_suffix("", ".deleted"),
    ],
)
def test_a_deleted_segment_can_be_read_until_its_files_are_removed(
    rename: Callable[[object], None],
) -> None:
    files, open_segments = FewDescriptors(), OpenSegments(1)
    log = log_of(files, 10, open_segments, DIRECTORY)
    segment = log.segments.pop_first()
    rename(segment)
    read(log, 5)
    assert not segment.holds_file
    assert value(0) in segment.read(SEGMENT_BYTES, 0)
    segment.remove()
    assert len(open_segments) == 0
    with pytest.raises(AssertionError, match="not open"):
        segment.read(1, 0)


def test_a_file_that_has_vanished_is_an_error_of_the_disk() -> None:
    files = FewDescriptors()
    log = log_of(files, 10, OpenSegments(1), DIRECTORY)
    files.remove(f"{DIRECTORY}/{0:020}.log")
    with pytest.raises(OSError, match="No such file"):
        read(log, 0)
    assert read(log, 1) == value(1)


def test_a_segment_is_cold_no_longer_than_it_is_open() -> None:
    class Segment:
        closed = 0

        def let_go(self) -> None:
            self.closed += 1

    first, second, third = Segment(), Segment(), Segment()
    open_segments = OpenSegments(2)
    for segment in (first, second, first):
        open_segments.use(segment)
    open_segments.forget(first)
    open_segments.use(third)
    assert [first.closed, second.closed, third.closed] == [0, 0, 0]
    open_segments.use(first)
    assert [first.closed, second.closed, third.closed] == [0, 1, 0]


def test_an_error_other_than_a_lack_of_descriptors_closes_nothing() -> None:
    class Broken(InstantFiles):
        def open(self, path: str, create: bool = False) -> File:
            raise OSError(errno.EIO, "broken disk", path)

    class Segment:
        def let_go(self) -> None:
            raise AssertionError("closed")

    open_segments = OpenSegments()
    open_segments.use(Segment())
    with pytest.raises(OSError, match="broken disk"):
        open_segments.open(Broken(), "/a")
    assert len(open_segments) == 1


@pytest.mark.mission("SAFE-29")
@pytest.mark.parametrize(("descriptors", "bound"), [(400, 50), (1024, 128), (1 << 20, 1 << 17)])
def test_an_eighth_of_the_descriptors_is_for_cold_segments(descriptors: int, bound: int) -> None:
    config = BROKER_CONFIG.parse({"zookeeper.connect": "z:1"})
    assert config_views.log_manager(config, descriptors).max_open_cold_segments == bound
