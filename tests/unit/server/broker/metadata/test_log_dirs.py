"""Log directories under replicas: failures, DescribeLogDirs, moves, forced flushes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from minikafka.core.log.config import LogConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.server.broker.apis.cluster.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from minikafka.server.broker.apis.cluster.describe_log_dirs import DescribeLogDirsHandler
from minikafka.server.broker.metadata.topic_configs import TopicConfig
from minikafka.world.memory.files import VOLUME_BYTES, MemoryFile
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster, batch, error_of

OTHER = TP._replace(partition=1)


def serving(node: Node) -> Node:
    hosted = node.replicas.hosted
    node.handlers[ApiKey.DESCRIBE_LOG_DIRS] = DescribeLogDirsHandler(node.logs, hosted)
    node.handlers[ApiKey.ALTER_REPLICA_LOG_DIRS] = AlterReplicaLogDirsHandler(node.logs, hosted)
    return node


@contextlib.asynccontextmanager
async def moving(node: Node) -> AsyncIterator[None]:
    task = asyncio.create_task(node.logs.moves.run())
    yield
    task.cancel()
    await asyncio.wait([task])


async def alter(node: Node, path: str, *partitions: int, version: int = 2) -> list[ErrorCode]:
    topics = [AlterReplicaLogDirTopic(TOPIC, list(partitions))]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path, topics)])
    answer = await node.command(request, version)
    return [ErrorCode(row.error_code) for row in answer.results[0].partitions]


def breaks(node: Node, path: str) -> None:
    node.files.break_below(path)


# ---------------------------------------------------------------------------------------- failure


async def test_a_failed_directory_is_announced_and_its_partitions_are_offline() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1, 2])
        node = cluster[1]
        cluster.znodes.away = True
        breaks(node, "/data")
        assert error_of(node.produce("a")) is ErrorCode.KAFKA_STORAGE_ERROR
        third = TopicPartition(TOPIC, 2)
        assert error_of(node.produce("a", topic_partition=third)) is ErrorCode.KAFKA_STORAGE_ERROR
        assert error_of(node.produce("a", topic_partition=OTHER)) is ErrorCode.NONE
        await cluster.clock.advance(2_000)
        assert cluster.znodes.log_dir_events == []
        cluster.znodes.away = False
        await cluster.clock.advance(500)
        assert cluster.znodes.log_dir_events == [1]
        answers = await cluster.elect(2, isr=[2], replicas=[1, 2], epoch=1, tell=[1])
        assert error_of(answers[1].topics[0].partition_errors) is ErrorCode.KAFKA_STORAGE_ERROR
        await node.replicas.checkpoint_high_watermarks()
        assert node.logs.read_high_watermarks() == {OTHER: 1}


async def test_a_replica_that_may_be_in_a_failed_directory_is_not_created_again() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = cluster[1]
        await cluster.elect(1, isr=[1], replicas=[1])
        node.replicas.disk_failed(TP, OSError(errno.EIO, "broken"))
        answers = await cluster.elect(1, isr=[1], replicas=[1], partitions=[5])
        assert error_of(answers[1].topics[0].partition_errors) is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.replicas.hosted.is_offline(TopicPartition(TOPIC, 5))


async def test_a_full_disk_refuses_until_there_is_space_again() -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1, 2])
        await cluster.clock.settle()
        leader, follower = cluster[1], cluster[2]
        leader.produce("a", acks=1)
        await cluster.clock.settle()
        leader.files.leave_room(10)
        assert error_of(leader.produce("b")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert leader.held() == ["a"]
        leader.files.leave_room(10**6)
        follower.files.leave_room(10)
        assert error_of(leader.produce("c", acks=1)) is ErrorCode.NONE
        await cluster.clock.advance(3_000)
        assert follower.held() == ["a"]
        follower.files.leave_room(10**6)
        await cluster.clock.advance(3_000)
        assert follower.held() == leader.held() == ["a", "c"]


# ------------------------------------------------------------------------------- DescribeLogDirs


@pytest.mark.parametrize("version", range(5))
async def test_describe_log_dirs_lists_replicas_and_failed_directories(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0, 1])
        node = serving(cluster[1])
        node.produce("a", topic_partition=OTHER)
        answer = await node.command(DescribeLogDirsRequest(topics=None), version)
        assert answer.error_code == 0
        data, more = answer.results
        assert (data.log_dir, more.log_dir) == ("/data", "/more")
        assert [(t.name, [p.partition_index for p in t.partitions]) for t in more.topics] == [
            (TOPIC, [1])
        ]
        (found,) = more.topics[0].partitions
        size = node.partition(OTHER).log.size_bytes
        assert (found.partition_size, found.offset_lag, found.is_future_key) == (size, 0, False)
        assert (data.total_bytes == VOLUME_BYTES) == (version >= 4)
        one = [DescribableLogDirTopic(TOPIC, [0])]
        answer = await node.command(DescribeLogDirsRequest(topics=one), version)
        assert [len(row.topics) for row in answer.results] == [1, 0]
        node.replicas.disk_failed(TP, OSError(errno.EIO, "broken"))
        answer = await node.command(DescribeLogDirsRequest(topics=None), version)
        errors = {row.log_dir: row.error_code for row in answer.results}
        assert errors == {"/data": ErrorCode.KAFKA_STORAGE_ERROR, "/more": ErrorCode.NONE}


# --------------------------------------------------------------------------- AlterReplicaLogDirs


@pytest.mark.parametrize("version", range(3))
async def test_a_replica_moves_and_is_served_all_the_time(version: int) -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        await cluster.clock.settle()
        for broker_id in (1, 2):
            node = serving(cluster[broker_id])
            acknowledged = cluster[1].produce("a", "b")
            await cluster.clock.advance(600)
            assert error_of(acknowledged) is ErrorCode.NONE
            assert await alter(node, "/more", 0, version=version) == [ErrorCode.NONE]
            answer = await node.command(DescribeLogDirsRequest(topics=None), 4)
            (future,) = answer.results[1].topics[0].partitions
            assert future.is_future_key
            assert future.offset_lag == node.partition().log.log_end_offset
            async with moving(node):
                await cluster.clock.settle()
            assert node.partition().log.directory == f"/more/{TOPIC}-0"
            acknowledged = cluster[1].produce("c")
            await cluster.clock.advance(600)
            assert error_of(acknowledged) is ErrorCode.NONE
            assert cluster[1].held() == cluster[2].held()
            assert node.held()[-1] == "c"


async def test_a_replica_to_come_is_made_where_it_was_wanted() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = serving(cluster[1])
        assert await alter(node, "/more", 0) == [ErrorCode.REPLICA_NOT_AVAILABLE]
        assert await alter(node, "/less", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        await cluster.elect(1, isr=[1], replicas=[1])
        assert node.partition().log.directory == f"/more/{TOPIC}-0"
        node.replicas.disk_failed(TP, OSError(errno.EIO, "broken"))
        assert await alter(node, "/data", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]


# --------------------------------------------------------------------------------- flush.messages


class SlowDisk:
    """Flushes of log files wait until ``go``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = asyncio.Event()
        real = MemoryFile.flush
        slow = self

        async def flush(file: Any) -> None:
            if file._path.endswith(".log"):
                await slow.go.wait()
            await real(file)

        monkeypatch.setattr(MemoryFile, "flush", flush)


@pytest.mark.parametrize("acks", [1, -1])
async def test_nothing_is_acknowledged_before_it_is_on_disk(
    monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster.configs.by_topic[TOPIC] = TopicConfig(log=LogConfig(flush_messages=2))
        await cluster.elect(1, isr=[1], replicas=[1])
        disk = SlowDisk(monkeypatch)
        node = cluster[1]
        assert error_of(node.produce("a", acks=acks)) is ErrorCode.NONE
        answers = node.produce("b", acks=acks)
        await cluster.clock.settle()
        assert answers == []
        disk.go.set()
        await cluster.clock.settle()
        assert error_of(answers) is ErrorCode.NONE
        assert node.partition().log.recovery_point == 2


async def test_follower_fetches_again_only_after_the_forced_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ReplicaCluster([1, 2]) as cluster:
        cluster.configs.by_topic[TOPIC] = TopicConfig(log=LogConfig())
        await cluster.elect(1, isr=[1, 2], replicas=[1, 2])
        follower = cluster[2].partition().log
        follower.config = replace(follower.config, flush_messages=1)
        disk = SlowDisk(monkeypatch)
        answers = cluster[1].produce("a")
        await cluster.clock.advance(600)
        assert cluster[2].held() == ["a"]
        assert answers == []
        disk.go.set()
        await cluster.clock.advance(300)
        assert error_of(answers) is ErrorCode.NONE
        assert follower.recovery_point == 1


async def test_failed_flush_gives_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster.configs.by_topic[TOPIC] = TopicConfig(log=LogConfig(flush_messages=1))
        await cluster.elect(1, isr=[1], replicas=[1])

        async def failing(file: Any) -> None:
            raise OSError(errno.EIO, "broken")

        monkeypatch.setattr(MemoryFile, "flush", failing)
        answers = cluster[1].produce("a", acks=1)
        await cluster.clock.settle()
        assert error_of(answers) is ErrorCode.KAFKA_STORAGE_ERROR
        assert cluster[1].replicas.hosted.is_offline(TP)


async def test_acks_0_may_fail_in_one_partition_while_another_is_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reply, which closes the connection, comes after the flush; the broker goes on."""
    async with ReplicaCluster([1]) as cluster:
        cluster.configs.by_topic[TOPIC] = TopicConfig(log=LogConfig(flush_messages=1))
        await cluster.elect(1, isr=[1], replicas=[1])
        disk = SlowDisk(monkeypatch)
        data = [PartitionProduceData(0, batch("a")), PartitionProduceData(9, batch("b"))]
        request = ProduceRequest(None, 0, 1000, [TopicProduceData(TOPIC, partition_data=data)])
        replies: list[Any] = []
        cluster[1].serve(request, 9, replies.append)
        await cluster.clock.settle()
        assert replies == []
        disk.go.set()
        await cluster.clock.settle()
        (reply,) = replies
        assert isinstance(reply, KafkaError)
        assert reply.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answers = cluster[1].produce("c", acks=1)
        await cluster.clock.settle()
        assert error_of(answers) is ErrorCode.NONE


@pytest.mark.mission("SAFE-33")
async def test_the_last_directory_counts_for_a_replica_that_is_named_twice() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], partitions=[0])
        node = serving(cluster[1])
        home = node.partition(TP).log.directory
        dirs = [
            AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(TOPIC, [0])])
            for path in ("/nowhere", "/data")
        ]
        answer = await node.command(AlterReplicaLogDirsRequest(dirs=dirs), 2)
        (row,) = answer.results[0].partitions
        assert row.error_code == ErrorCode.NONE
        answer = await node.command(AlterReplicaLogDirsRequest(dirs=dirs[::-1]), 2)
        (row,) = answer.results[0].partitions
        assert row.error_code == ErrorCode.LOG_DIR_NOT_FOUND
        assert node.partition(TP).log.directory == home
