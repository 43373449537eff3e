"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from minikafka.server.broker.fetch.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    offsets_before,
)
from tests.support.broker.replicas import TOPIC, Node, ReplicaCluster, error_of

BASE_MS = 1_700_000_000_000


def list_offset(
    node: Node,
    timestamp: int,
    version: int = 7,
    replica_id: int = -1,
    epoch: int = -1,
    isolation_level: int = 0,
    max_num_offsets: int = 1,
    index: int = 0,
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )
    if version == 0:
        wanted.max_num_offsets = max_num_offsets
    request = ListOffsetsRequest(replica_id, isolation_level, [ListOffsetsTopic(TOPIC, [wanted])])
    response: ListOffsetsPartitionResponse = node.ask(request, version)[0].topics[0].partitions[0]
    return response


async def test_the_ends_of_the_log() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], epoch=3)
        node = cluster[1]
        empty = list_offset(node, EARLIEST_TIMESTAMP)
        assert (empty.offset, empty.timestamp, empty.leader_epoch) == (0, -1, 3)
        node.produce("a", "b", "c")
        node.partition().log.increment_log_start_offset(1)
        latest = list_offset(node, LATEST_TIMESTAMP)
        assert (latest.offset, latest.timestamp, latest.leader_epoch) == (3, -1, 3)
        assert list_offset(node, EARLIEST_TIMESTAMP).offset == 1
        assert list_offset(node, EARLIEST_LOCAL_TIMESTAMP, version=8).offset == 1
        assert list_offset(node, LATEST_TIERED_TIMESTAMP, version=9).offset == -1
        pending = list_offset(node, EARLIEST_PENDING_UPLOAD_TIMESTAMP, version=11)
        assert (pending.error_code, pending.offset, pending.timestamp) == (0, -1, -1)


async def test_by_time() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], epoch=3)
        node = cluster[1]
        node.produce("a", "b", "c")  # one millisecond after the other
        found = list_offset(node, BASE_MS + 1)
        assert (found.offset, found.timestamp, found.leader_epoch) == (1, BASE_MS + 1, 3)
        assert list_offset(node, 0).offset == 0
        nothing = list_offset(node, BASE_MS + 9)
        assert (nothing.error_code, nothing.offset, nothing.timestamp) == (0, -1, -1)
        newest = list_offset(node, MAX_TIMESTAMP)
        assert (newest.offset, newest.timestamp) == (2, BASE_MS + 2)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (MAX_TIMESTAMP, 6),
        (EARLIEST_LOCAL_TIMESTAMP, 7),
        (LATEST_TIERED_TIMESTAMP, 8),
        (EARLIEST_PENDING_UPLOAD_TIMESTAMP, 10),
        (-7, 11),
    ],
)
async def test_timestamps_that_a_version_does_not_have(timestamp: int, version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        response = list_offset(cluster[1], timestamp, version)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_consumers_see_up_to_the_high_watermark_and_followers_everything() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        node = cluster[1]
        node.produce("a", "b", acks=1)
        assert list_offset(node, LATEST_TIMESTAMP).offset == 0
        assert list_offset(node, LATEST_TIMESTAMP, isolation_level=1).offset == 0
        assert list_offset(node, LATEST_TIMESTAMP, replica_id=2).offset == 2
        assert list_offset(node, BASE_MS).offset == -1
        assert list_offset(node, BASE_MS, replica_id=2).offset == 0


async def test_offsets_are_not_available_until_the_new_leader_has_committed_its_start() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        node = cluster[1]
        node.produce("a", acks=1)
        await cluster.elect(1, epoch=1, tell=[1])
        late = list_offset(node, LATEST_TIMESTAMP)
        assert late.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert list_offset(node, BASE_MS).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert list_offset(node, LATEST_TIMESTAMP, 4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert list_offset(node, EARLIEST_TIMESTAMP).error_code == ErrorCode.NONE
        assert list_offset(node, LATEST_TIMESTAMP, replica_id=2).offset == 1
        node.fetch(1, replica_id=2)
        node.fetch(1, replica_id=3)
        assert list_offset(node, LATEST_TIMESTAMP).offset == 1


async def test_roles_and_epochs_are_checked() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, epoch=3)
        errors = [
            list_offset(cluster[2], LATEST_TIMESTAMP).error_code,
            list_offset(cluster[1], LATEST_TIMESTAMP, epoch=2).error_code,
            list_offset(cluster[1], LATEST_TIMESTAMP, epoch=4).error_code,
            list_offset(cluster[1], LATEST_TIMESTAMP, index=5).error_code,
            list_offset(cluster[2], LATEST_TIMESTAMP, replica_id=-2).error_code,
        ]
        assert errors == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
        ]


async def test_a_partition_named_twice_is_an_invalid_request() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        wanted = [ListOffsetsPartition(timestamp=-1), ListOffsetsPartition(timestamp=-2)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(TOPIC, wanted)])
        answers = cluster[1].ask(request, 5)[0].topics[0].partitions
        assert [a.error_code for a in answers] == [ErrorCode.INVALID_REQUEST] * 2


async def test_version_0_lists_the_starts_of_segments() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        node = cluster[1]
        assert list_offset(node, LATEST_TIMESTAMP, 0, max_num_offsets=5).old_style_offsets == [0]
        node.produce("a", "b")
        latest = list_offset(node, LATEST_TIMESTAMP, 0, max_num_offsets=5)
        assert latest.old_style_offsets == [2, 0]
        assert list_offset(node, LATEST_TIMESTAMP, 0).old_style_offsets == [2]
        assert list_offset(node, EARLIEST_TIMESTAMP, 0).old_style_offsets == [0]
        assert list_offset(node, MAX_TIMESTAMP, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
        node.partition().log.roll()
        node.produce("c")
        now_ms = cluster.clock.wall_ms()
        assert list_offset(node, now_ms, 0, max_num_offsets=9).old_style_offsets == [3, 2, 0]
        unknown = list_offset(node, LATEST_TIMESTAMP, 0, index=4)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("timestamp", "count", "bound", "offsets"),
    [
        (LATEST_TIMESTAMP, 2, 99, [50, 20]),
        (LATEST_TIMESTAMP, 9, 30, [30, 20, 10, 0]),
        (EARLIEST_TIMESTAMP, 9, 99, [0]),
        (999, 9, 99, []),
        (2500, 9, 99, [10, 0]),
        (4000, 1, 99, [50]),
        (4000, -1, 99, []),
        (3999, 9, 15, [15, 10, 0]),
    ],
)
def test_offsets_not_younger_than(
    timestamp: int, count: int, bound: int, offsets: list[int]
) -> None:
    known = [(0, 1000), (10, 2000), (20, 3000), (50, 4000)]
    assert offsets_before(known, timestamp, count, bound) == offsets


async def test_a_failing_disk() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1])
        node = cluster[1]
        node.produce("a")

        def broken() -> int:
            raise OSError("broken")

        with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
            node.replicas.guarded(node.partition().topic_partition, broken)
        assert list_offset(node, LATEST_TIMESTAMP).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# ----------------------------------------------------------------------- OffsetForLeaderEpoch


@pytest.mark.parametrize("version", range(5))
async def test_where_epochs_end(version: int) -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1, isr=[1], epoch=1)
        cluster[1].produce("a", "b", acks=1)
        await cluster.elect(1, isr=[1], epoch=4)
        cluster[1].produce("c", acks=1)

        def end(node: Node, epoch: int, known: int = -1) -> tuple[int, int, int]:
            wanted = OffsetForLeaderPartition(
                leader_epoch=epoch, current_leader_epoch=known if version >= 2 else -1
            )
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(TOPIC, [wanted])])
            response = node.ask(request, version)[0].topics[0].partitions[0]
            epoch_known = version >= 1
            return (
                response.error_code,
                response.leader_epoch if epoch_known else -1,
                response.end_offset,
            )

        shown = 1 if version >= 1 else -1
        latest = 4 if version >= 1 else -1
        assert end(cluster[1], 1) == (0, shown, 2)
        assert end(cluster[1], 3) == (0, shown, 2)
        assert end(cluster[1], 4) == (0, latest, 3)
        assert end(cluster[1], 5) == (0, -1, -1)
        assert end(cluster[2], 1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if version >= 2:
            assert end(cluster[1], 1, known=3)[0] == ErrorCode.FENCED_LEADER_EPOCH
            assert end(cluster[1], 1, known=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_an_unknown_partition_has_no_epochs() -> None:
    async with ReplicaCluster([1]) as cluster:
        wanted = OffsetForLeaderPartition(leader_epoch=1)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(TOPIC, [wanted])])
        answers = cluster[1].ask(request, 4)[0].topics[0].partitions
        assert error_of(answers) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
