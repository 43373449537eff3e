"""Parked requests in rare turns: what wakes one of them changes the ground under the next."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.storage.unified_log import UnifiedLog
from tests.support.replicas import ReplicaCluster, error_of


@pytest.mark.mission("DOP-2", "DOP-4")
async def test_the_disk_fails_under_a_reader_whom_a_follower_wakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The follower's own read went well, and it was about to be parked."""
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        leader = cluster[1]
        leader.produce("a", acks=1)
        consumer = leader.fetch(0)
        assert consumer == []
        reads: list[int] = []
        read: Any = UnifiedLog.read

        def fail_the_second(log: UnifiedLog, offset: int, *limits: Any) -> Any:
            reads.append(offset)
            if len(reads) == 2:
                raise OSError(errno.EIO, "broken")
            return read(log, offset, *limits)

        monkeypatch.setattr(UnifiedLog, "read", fail_the_second)
        follower = leader.fetch(1, replica_id=2)
        assert reads[:2] == [1, 0]
        assert error_of(consumer) is ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of(follower) is ErrorCode.KAFKA_STORAGE_ERROR
        assert leader.replicas.parked.fetch.purgatory.delayed == 0
