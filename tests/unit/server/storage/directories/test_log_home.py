"""What a log directory does for the logs in it, and for logs that it does not use yet."""

from minikafka.core.log.config import LogConfig
from minikafka.core.log.small_files import LOG_START_OFFSET, RECOVERY_POINT
from minikafka.kernel.cluster import TopicPartition
from minikafka.server.storage.directories.delayed_removal import DelayedRemoval
from minikafka.server.storage.directories.log_directory import LogDirectory
from minikafka.server.storage.log.loader import create_log
from minikafka.server.storage.log.open_segments import OpenSegments
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import NOW, batch, cut
from tests.support.world.recording_log import RecordingLog
from tests.support.world.virtual_clock import VirtualClock

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class OneDirectory:
    def __init__(self) -> None:
        self.files = InstantFiles()
        self.files.make_directories("/d")
        self.moved: list[TopicPartition] = []
        events = RecordingLog()
        self.directory = LogDirectory(
            self.files,
            "/d",
            events,
            DelayedRemoval(self.files, VirtualClock(), events),
            lambda _, log: self.moved.append(log.topic_partition),
            high_watermark=lambda _: None,
            open_segments=OpenSegments(),
        )

    def log(self, tp: TopicPartition) -> UnifiedLog:
        log = create_log(self.files, f"/d/{tp}", tp, None, LogConfig(), self.directory)
        for n in range(4):
            log.append_as_leader(batch(bytes([n])), 0, NOW)
        return log


async def test_lowered_offsets_of_a_log_in_use_are_flushed() -> None:
    one = OneDirectory()
    log = one.directory.logs[A] = one.log(A)
    await log.flush()
    assert log.increment_log_start_offset(3)
    assert one.moved == [A]
    cut(log, 2)
    assert one.directory.read_offsets(RECOVERY_POINT) == {A: 2}
    assert one.directory.read_offsets(LOG_START_OFFSET) == {A: 2}


async def test_a_log_that_is_not_in_use_yet_leaves_the_checkpoints_alone() -> None:
    one = OneDirectory()
    one.directory.logs[A] = one.log(A)
    await one.directory.logs[A].flush()
    await one.directory.checkpoint_recovery_points()
    loading = one.log(B)
    await loading.flush()
    cut(loading, 2)
    loading.truncate_fully_and_start_at(7)
    await loading.flush()
    loading.append_as_leader(batch(b"x"), 0, NOW)
    assert loading.log_end_offset == 8
    assert one.directory.read_offsets(RECOVERY_POINT) == {A: 4}
    assert one.moved == []
