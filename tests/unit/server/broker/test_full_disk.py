"""A disk that is full is no disk that failed: the broker lives, and goes on when there is space."""

from __future__ import annotations

import errno

from minikafka.kernel.errors import ErrorCode
from tests.support.broker.replicas import ReplicaCluster, error_of
from tests.support.storage.instant_files import InstantFiles


class NoRoomForEpochs:
    """Leader epochs cannot be written while this is ``full``; all else can."""

    def __init__(self, files: InstantFiles) -> None:
        self.full = True
        self.refused = 0
        self._write = files.replace_unsynced
        files.replace_unsynced = self._write_or_refuse  # type: ignore[method-assign]

    def _write_or_refuse(self, path: str, data: bytes) -> None:
        if self.full and "leader-epoch" in path:
            self.refused += 1
            raise OSError(errno.ENOSPC, "no space left", path)
        self._write(path, data)


async def test_follower_with_a_full_disk_after_the_append_fetches_from_its_log_end() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        leader, follower = cluster[1], cluster[2]
        for epoch, value in enumerate("abc"):
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2], epoch=epoch)
            leader.produce(value)
            await cluster.clock.advance(600)
        leader.partition().delete_records(2)  # the follower forgets epochs by it, after an append
        disk = NoRoomForEpochs(follower.files)
        leader.produce("d")
        await cluster.clock.advance(5_000)
        assert disk.refused > 0
        disk.full = False
        leader.produce("e")
        await cluster.clock.advance(2_000)
        assert follower.held()[-2:] == ["d", "e"]
        assert follower.partition().high_watermark == 5


async def test_a_cut_that_a_full_disk_stops_half_way_takes_the_high_watermark_along() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        for value in "abc":
            cluster[1].produce(value)
        await cluster.clock.advance(1_000)
        assert cluster[1].partition().high_watermark == 3
        await cluster.stop(2)
        await cluster.start(2)  # with another disk
        await cluster.elect(2, isr=[2], replicas=[1, 2], epoch=1, tell=[2])
        cluster[2].produce("x", acks=1)
        disk = NoRoomForEpochs(cluster[1].files)
        await cluster.elect(2, isr=[2], replicas=[1, 2], epoch=2)
        await cluster.clock.advance(1_000)
        assert disk.refused > 0
        assert cluster[1].partition().high_watermark == 0
        await cluster.clock.advance(6_000)  # a checkpoint of the high watermarks
        disk.full = False
        await cluster.clock.advance(2_000)
        assert cluster[1].held() == cluster[2].held() == ["x"]


async def test_replica_without_disk_space_is_retried_when_there_is_space() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        leader, follower = cluster[1], cluster[2]
        follower.files.leave_room(0)
        told = await cluster.elect(1, isr=[1], replicas=[1, 2])
        assert error_of(told[2].topics[0].partition_errors) is ErrorCode.KAFKA_STORAGE_ERROR
        leader.produce("a")
        await cluster.clock.advance(60_000)
        assert cluster.znodes.log_dir_events == []
        follower.files.leave_room(10**6)
        await cluster.clock.advance(60_000)
        assert cluster.znodes.log_dir_events == [2]
        cluster.znodes.states.clear()
        told = await cluster.elect(1, isr=[1], replicas=[1, 2], tell=[2])  # as the controller does
        assert error_of(told[2].topics[0].partition_errors) is ErrorCode.NONE
        await cluster.clock.advance(1_000)
        assert follower.held() == ["a"]
