"""Parked requests in rare interleavings: completing one changes the state that another reads."""

from __future__ import annotations

import errno
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.fetch.reader import FetchEntry, FetchParams, Isolation
from minikafka.server.broker.fetch.record_fetches import FetchOperation
from minikafka.server.broker.replication.record_appends import AppendEntry
from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.broker.replicas import TOPIC, TP, ReplicaCluster, batch, error_of


@pytest.mark.mission("DOP-2", "DOP-4")
async def test_disk_fails_during_the_read_of_a_consumer_completed_by_a_follower(
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
        assert leader.replicas.purgatories.fetch.purgatory.delayed == 0


class Reply:
    """Keep the results that it is called with, as the slot of a connection does."""

    def __init__(self, errors: list[ErrorCode]) -> None:
        self.errors = errors
        self.results: Sequence[Any] = ()

    def __call__(self, results: Sequence[Any]) -> None:
        self.results = results
        self.errors.extend(result.error for result in results)


class TestCompletedOperationsReleaseMemory:
    """A completed operation stays in watch lists until a purge, but drops its reply."""

    @pytest.mark.mission("DOP-2", "PUR-5")
    async def test_a_fetch_in_the_list_of_a_quiet_partition(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
            replicas = cluster[1].replicas
            params = FetchParams(-1, 500, 1, 1 << 20, Isolation.HIGH_WATERMARK)
            entries = [FetchEntry(TopicPartition(TOPIC, n), None, 0, 1 << 20) for n in (0, 1)]
            errors: list[ErrorCode] = []
            reply = Reply(errors)
            left = weakref.ref(reply)
            cluster[1].fetches.fetch(FetchOperation(params, entries, reply))
            del reply
            assert left() is not None
            cluster[1].produce("a", acks=1)
            assert errors == [ErrorCode.NONE] * 2
            assert replicas.purgatories.fetch.purgatory.watched == 1
            assert left() is None

    @pytest.mark.mission("DOP-1", "PUR-5")
    async def test_a_produce_whose_time_is_up(self) -> None:
        async with ReplicaCluster([1]) as cluster:
            await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
            replicas = cluster[1].replicas
            errors: list[ErrorCode] = []
            reply = Reply(errors)
            left = weakref.ref(reply)
            replicas.appends.append(
                AppendOrigin.CLIENT, [AppendEntry(TP, bytearray(batch("a")))], -1, 100, reply
            )
            del reply
            assert left() is not None
            await cluster.clock.advance(101)
            assert errors == [ErrorCode.REQUEST_TIMED_OUT]
            assert replicas.purgatories.produce.purgatory.watched == 1
            assert left() is None
