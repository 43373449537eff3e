"""Readers of committed records stop before transactions that are open or not yet replicated."""

from __future__ import annotations

import pytest

from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)
from minikafka.server.broker.replication.record_appends import AppendEntry
from tests.support.broker.deletions import delete_records
from tests.support.broker.replicas import TOPIC, TP, Node, ReplicaCluster, error_of, values_in

pytestmark = pytest.mark.mission("DOP-5")
COMMITTED = 1
AT_MS = 1_700_000_000_000


def append(node: Node, records: bytes, origin: AppendOrigin, acks: int = -1) -> None:
    """As a produce request that has passed the door, which refuses transactions yet."""
    refused: list[ErrorCode] = []
    node.replicas.appends.append(
        origin,
        [AppendEntry(TP, bytearray(records))],
        acks,
        1_000,
        lambda results: refused.extend(r.error for r in results if r.error),
    )
    assert not refused


def transactional(node: Node, *values: str, producer_id: int = 7, sequence: int = 0) -> None:
    data = build_batch(
        [(AT_MS, None, value.encode(), []) for value in values],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    append(node, data, AppendOrigin.CLIENT)


def end(node: Node, producer_id: int = 7) -> None:
    key, value = encode_end_txn_marker(EndTxnMarker(ControlRecordType.COMMIT, 0))
    data = build_batch(
        [(AT_MS, key, value, [])],
        producer_id=producer_id,
        producer_epoch=0,
        control=True,
        transactional=True,
    )
    append(node, data, AppendOrigin.COORDINATOR)


async def alone(cluster: ReplicaCluster) -> Node:
    await cluster.elect(1, isr=[1], replicas=[1])
    return cluster[1]


def latest(node: Node, isolation_level: int) -> int:
    question = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(TOPIC, [question])],
    )
    offset: int = node.ask(request, 5)[0].topics[0].partitions[0].offset
    return offset


async def test_last_stable_offset_is_the_high_watermark_without_transactions() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        assert node.partition().last_stable_offset == 0
        node.produce("a")
        assert node.partition().last_stable_offset == 1


async def test_open_transaction_holds_back_later_records() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a")
        transactional(node, "b", "c")
        node.produce("d")
        (committed,) = node.fetch(0, isolation_level=COMMITTED)
        assert values_in(committed.records) == ["a"]
        assert (committed.last_stable_offset, committed.high_watermark) == (1, 4)
        (uncommitted,) = node.fetch(0)
        assert values_in(uncommitted.records) == ["a", "b", "c", "d"]
        assert uncommitted.last_stable_offset == 1
        assert (latest(node, COMMITTED), latest(node, 0)) == (1, 4)
        end(node)
        assert node.partition().last_stable_offset == 5
        assert latest(node, COMMITTED) == 5


async def test_the_end_of_the_transaction_completes_a_parked_fetch() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        transactional(node, "a")
        answers = node.fetch(0, isolation_level=COMMITTED, max_wait_ms=60_000)
        node.produce("b")
        await cluster.clock.advance(1_000)
        assert answers == []
        end(node)
        assert values_in(answers[0].records)[:2] == ["a", "b"]
        assert answers[0].last_stable_offset == 3


async def test_of_several_transactions_the_first_counts() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        transactional(node, "a", producer_id=7)
        transactional(node, "b", producer_id=8)
        end(node, 7)
        assert node.partition().last_stable_offset == 1
        transactional(node, "c", producer_id=7, sequence=1)
        end(node, 8)
        assert node.partition().last_stable_offset == 3
        end(node, 7)
        assert node.partition().last_stable_offset == 6


async def test_a_marker_counts_when_it_is_committed() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        node = cluster[1]
        transactional(node, "a")
        await cluster.clock.advance(1_000)
        cluster.freeze(3)
        answers = node.fetch(0, isolation_level=COMMITTED, max_wait_ms=60_000)
        end(node)
        await cluster.clock.advance(1_000)
        assert node.partition().high_watermark == 1
        assert node.partition().last_stable_offset == 0
        assert answers == []
        cluster.thaw(3)
        await cluster.clock.advance(3_000)
        assert node.partition().last_stable_offset == 2
        assert error_of(answers) is ErrorCode.NONE
        assert values_in(answers[0].records)[:1] == ["a"]


async def test_followers_have_the_last_stable_offset_and_keep_it_as_leaders() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        transactional(cluster[1], "b")
        await cluster.clock.advance(1_000)
        assert [cluster[i].partition().last_stable_offset for i in (1, 2, 3)] == [1, 1, 1]
        await cluster.elect(2, epoch=1)
        await cluster.clock.advance(1_000)
        assert cluster[2].partition().last_stable_offset == 1
        end(cluster[2])
        await cluster.clock.advance(1_000)
        assert [cluster[i].partition().last_stable_offset for i in (1, 2, 3)] == [3, 3, 3]
        # No consumer reads from a follower, yet nothing accumulates there.
        assert not cluster[3].partition().log.transactions.unreplicated


async def test_a_marker_that_is_cut_off_opens_the_transaction_again() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        transactional(cluster[1], "a")
        await cluster.clock.advance(1_000)
        cluster.freeze(1)
        end(cluster[1])  # no other replica gets it
        await cluster.elect(2, isr=[2, 3], epoch=1)
        cluster.thaw(1)
        await cluster.clock.advance(5_000)
        cluster[2].produce("b")
        await cluster.clock.advance(1_000)
        assert cluster[1].held() == ["a", "b"]
        for broker_id in (1, 2, 3):
            assert cluster[broker_id].partition().high_watermark == 2
            assert cluster[broker_id].partition().last_stable_offset == 0


async def test_an_open_transaction_survives_a_restart() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a")
        transactional(node, "b")
        node.produce("c")
        node = await cluster.start(1, await cluster.stop(1))
        await cluster.elect(1, isr=[1], replicas=[1], epoch=1)
        assert node.partition().last_stable_offset == 1
        end(node)
        assert node.partition().last_stable_offset == 4


async def test_never_before_the_log_start() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        transactional(node, "a")
        node.produce("b")
        node.produce("c")
        answers = node.fetch(0, isolation_level=COMMITTED, max_wait_ms=60_000)
        delete_records(node, 2)
        assert node.partition().last_stable_offset == 2
        assert error_of(answers) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("isolation_level", [0, COMMITTED])
async def test_fetch_above_the_high_watermark_waits_at_both_isolation_levels(
    isolation_level: int,
) -> None:
    """The client would repeat the fetch at once after an immediate empty response."""
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        await cluster.clock.settle()
        cluster.freeze(2, 3)
        cluster[1].produce("a", acks=1)
        cluster[1].produce("b", acks=1)
        answers = cluster[1].fetch(1, isolation_level=isolation_level, max_wait_ms=500)
        assert answers == []
        await cluster.clock.advance(501)
        assert error_of(answers) is ErrorCode.NONE
