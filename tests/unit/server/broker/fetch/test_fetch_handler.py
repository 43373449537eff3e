"""Fetch: limits, isolation, epochs, waiting; full requests only."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from minikafka.server.listeners.memory_budget import RESPONSE_BYTES_ANYWAY, MemoryBudget
from tests.support.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    Node,
    ReplicaCluster,
    batch,
    error_of,
    values_in,
)
from tests.support.storage.transactions import TxnProducer


async def alone(cluster: ReplicaCluster, partitions: list[int] | None = None) -> Node:
    """Broker 1 leads, without followers."""
    await cluster.elect(1, isr=[1], replicas=[1], partitions=partitions or [0])
    return cluster[1]


@pytest.mark.mission("DOP-2")
async def test_a_fetch_of_an_empty_partition_ends_at_its_max_wait() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        answers = node.fetch(0, max_wait_ms=500)
        await cluster.clock.advance(499)
        assert answers == []
        await cluster.clock.advance(2)
        assert error_of(answers) is ErrorCode.NONE
        assert answers[0].records == b""


@pytest.mark.mission("DOP-2")
async def test_a_produce_completes_a_parked_fetch() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        answers = node.fetch(0, max_wait_ms=500)
        await cluster.clock.advance(100)
        node.produce("a")
        assert values_in(answers[0].records) == ["a"]
        await cluster.clock.advance(1_000)
        assert len(answers) == 1


async def test_a_zero_max_wait_responds_at_once() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        assert error_of(node.fetch(0, max_wait_ms=0)) is ErrorCode.NONE


@pytest.mark.mission("DOP-2")
async def test_it_waits_for_min_bytes() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        size = len(batch("a"))
        node.produce("a")
        answers = node.fetch(0, min_bytes=2 * size + 1, max_wait_ms=10_000)
        node.produce("b")
        assert answers == []
        node.produce("c")
        assert values_in(answers[0].records) == ["a", "b", "c"]


@pytest.mark.mission("DOP-7")
async def test_a_follower_that_lags_is_never_parked() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        cluster[1].produce("a", "b", acks=1)
        cluster[1].produce("c", acks=1)
        answers = cluster[1].fetch(0, replica_id=2, max_wait_ms=10_000)
        assert values_in(answers[0].records) == ["a", "b", "c"]
        assert cluster[1].replicas.purgatories.fetch.purgatory.delayed == 0


@pytest.mark.mission("DOP-6")
async def test_a_follower_reads_everything_whatever_isolation_it_names() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        cluster[1].produce("a", acks=1)
        for isolation_level in (0, 1):
            answers = cluster[1].fetch(0, replica_id=2, isolation_level=isolation_level)
            assert values_in(answers[0].records) == ["a"]
            assert answers[0].aborted_transactions is None
        consumer = cluster[1].fetch(0, max_wait_ms=0)
        assert consumer[0].records == b""


async def test_read_committed_ends_at_the_last_stable_offset_and_names_aborted_ones() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a")
        answers = node.fetch(0, isolation_level=1)
        assert values_in(answers[0].records) == ["a"]
        assert answers[0].aborted_transactions == []
        assert answers[0].last_stable_offset == 1


@pytest.mark.mission("FET-10")
async def test_read_committed_learns_which_transactions_were_aborted() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        partition = node.replicas.hosted.require(TP)
        one, two, three = TxnProducer(1), TxnProducer(2), TxnProducer(3)
        one.send(partition.log, (None, b"one"))
        two.send(partition.log, (None, b"two"))
        one.end(partition.log, commit=False)
        two.end(partition.log, commit=False)
        three.send(partition.log, (None, b"open"))
        partition.advance_high_watermark(0)
        answer = node.fetch(0, isolation_level=1)[0]
        assert (answer.high_watermark, answer.last_stable_offset) == (5, 4)
        assert answer.aborted_transactions == [AbortedTransaction(1, 0), AbortedTransaction(2, 1)]
        assert values_in(answer.records)[:2] == ["one", "two"]
        assert node.fetch(2, isolation_level=1)[0].aborted_transactions == [
            AbortedTransaction(1, 0),
            AbortedTransaction(2, 1),
        ]
        assert node.fetch(0, isolation_level=0)[0].aborted_transactions is None


async def test_an_offset_inside_a_batch_returns_the_whole_batch() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a", "b", "c")
        assert values_in(node.fetch(2)[0].records) == ["a", "b", "c"]


async def test_offsets_out_of_range() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a")
        assert error_of(node.fetch(2)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert error_of(node.fetch(-1)) is ErrorCode.OFFSET_OUT_OF_RANGE
        node.partition().log.increment_log_start_offset(1)
        assert error_of(node.fetch(0)) is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_epochs_are_checked() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, isr=[1], replicas=[1], epoch=3)
        node = cluster[1]
        node.produce("a")
        assert error_of(node.fetch(0, current_leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
        assert error_of(node.fetch(0, current_leader_epoch=4)) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert error_of(node.fetch(0, current_leader_epoch=3)) is ErrorCode.NONE


async def test_a_parked_fetch_is_fenced_by_a_new_epoch() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        answers = node.fetch(0, max_wait_ms=60_000, current_leader_epoch=0)
        await cluster.elect(1, isr=[1], replicas=[1], epoch=1)
        assert error_of(answers) is ErrorCode.FENCED_LEADER_EPOCH


async def test_a_diverging_epoch_is_named_and_nothing_recorded() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, epoch=1, tell=[1])
        node = cluster[1]
        node.produce("a", "b", acks=1)
        await cluster.elect(1, epoch=4, tell=[1])
        node.produce("c", acks=1)
        answers = node.fetch(3, replica_id=2, last_fetched_epoch=2, current_leader_epoch=4)
        assert error_of(answers) is ErrorCode.NONE
        assert answers[0].diverging_epoch is not None
        assert (answers[0].diverging_epoch.epoch, answers[0].diverging_epoch.end_offset) == (1, 2)
        assert node.partition().followers[2].log_end_offset == -1
        ahead = node.fetch(3, replica_id=2, last_fetched_epoch=5)
        assert error_of(ahead) is ErrorCode.OFFSET_OUT_OF_RANGE
        same = node.fetch(2, replica_id=2, last_fetched_epoch=1)
        assert values_in(same[0].records) == ["c"]


@pytest.mark.mission("FET-1")
async def test_consumers_may_read_from_a_follower_from_version_11_on() -> None:
    async with ReplicaCluster() as cluster:
        await cluster.elect(1)
        cluster[1].produce("a")
        await cluster.clock.advance(1_000)
        follower = cluster[2]
        assert values_in(follower.fetch(0, version=11)[0].records) == ["a"]
        assert error_of(follower.fetch(0, version=10)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        waiting = follower.fetch(1, version=11, max_wait_ms=10_000)
        cluster[1].produce("b")
        await cluster.clock.advance(1_000)
        assert values_in(waiting[0].records) == ["b"]


def wanting(*partitions: int, max_bytes: int = 1 << 20, **fields: Any) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(
                TOPIC,
                TOPIC_ID,
                [FetchPartition(partition=i, partition_max_bytes=max_bytes) for i in partitions],
            )
        ],
        **fields,
    )


async def test_the_first_batch_always_fits_and_later_ones_share_the_limit() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, [0, 1, 2])
        for index in range(3):
            for value in ("x" * 100, "y" * 100):
                node.produce(value, topic_partition=TP._replace(partition=index))
        size = len(batch("x" * 100))

        def sizes(request: FetchRequest) -> list[int]:
            response = node.ask(request, 12)[0]
            return [len(p.records) for p in response.responses[0].partitions]

        assert sizes(wanting(0, 1, 2)) == [2 * size] * 3
        assert sizes(wanting(0, 1, 2, max_bytes=1)) == [size, 0, 0]
        assert sizes(wanting(1, 0, 2, max_bytes=size + 1)) == [size] * 3
        request = wanting(0, 1, 2)
        request.max_bytes = 3 * size + 5
        assert sizes(request) == [2 * size, size, 0]


@pytest.mark.mission("SAFE-34")
@pytest.mark.parametrize("version", [4, 12, 13])
async def test_the_last_entry_counts_for_a_partition_that_is_named_twice(version: int) -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster, [0, 1])
        node.produce("a", acks=1)
        node.produce("b", acks=1)
        request = wanting(0, 1, 0)
        request.topics[0].partitions[0].fetch_offset = 77
        request.topics[0].partitions[2].fetch_offset = 1
        rows = [
            (partition.partition_index, partition.error_code, values_in(partition.records))
            for topic in node.ask(request, version)[0].responses
            for partition in topic.partitions
        ]
        assert rows == [(0, 0, ["b"]), (1, 0, [])]


@pytest.mark.mission("SAFE-42")
async def test_responses_are_cut_to_the_room_in_the_memory_of_clients() -> None:
    memory = MemoryBudget(8 * RESPONSE_BYTES_ANYWAY)
    async with ReplicaCluster([1, 2, 3], memory=memory) as cluster:
        await cluster.elect(1)
        node, large = cluster[1], "x" * (RESPONSE_BYTES_ANYWAY * 3 // 4)
        for first in "abc":
            node.produce(first + large, acks=1)

        async def read(replica_id: int = -1) -> str:
            await cluster.clock.advance(1_000)
            request = wanting(0, max_bytes=1 << 30, replica_id=replica_id)
            found = node.ask(request, 12)[0].responses[0].partitions[0]
            return "".join(value[0] for value in values_in(found.records))

        for taken, consumers, followers in (
            (0, "abc", "abc"),
            (4 * RESPONSE_BYTES_ANYWAY, "a", "abc"),  # half of the limit
            (8 * RESPONSE_BYTES_ANYWAY, "a", "a"),
        ):
            memory.add_responses(taken)
            assert await read() == consumers
            assert await read(replica_id=2) == followers
            memory.add_responses(-taken)


async def test_topics_are_found_by_id_from_version_13_on() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.produce("a")
        response = node.ask(wanting(0), 13)[0]
        assert response.responses[0].topic_id == TOPIC_ID
        assert values_in(response.responses[0].partitions[0].records) == ["a"]
        request = wanting(0)
        request.topics[0].topic_id = UUID(int=99)
        answer = node.ask(request, 13)[0].responses[0]
        assert answer.topic_id == UUID(int=99)
        assert error_of(answer.partitions) is ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_leader_knows_the_ids_of_its_own_topics_before_the_metadata_does() -> None:
    async with ReplicaCluster([1]) as cluster:
        cluster.metadata.topic_ids.clear()
        node = await alone(cluster)
        assert error_of(node.ask(wanting(0), 13)[0].responses[0].partitions) is ErrorCode.NONE


async def test_an_id_of_another_topic_of_the_same_name_is_inconsistent() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        cluster.metadata.topic_ids[UUID(int=99)] = TOPIC
        request = wanting(0)
        request.topics[0].topic_id = UUID(int=99)
        answer = node.ask(request, 13)[0].responses[0].partitions
        assert error_of(answer) is ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.mark.mission("FET-2")
async def test_a_follower_names_itself_in_its_state_from_version_15_on() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(1, tell=[1])
        cluster[1].produce("a", acks=1)
        request = wanting(0)
        request.replica_state = ReplicaState(2, 102)
        response = cluster[1].ask(request, 15)[0]
        assert values_in(response.responses[0].partitions[0].records) == ["a"]
        assert cluster[1].partition().followers[2].log_end_offset == 0


async def test_the_leader_is_named_from_version_16_on() -> None:
    async with ReplicaCluster([1]) as cluster:
        await cluster.elect(2, epoch=4, tell=[1])
        request = wanting(0)
        request.replica_state = ReplicaState(3, 103)
        response = cluster[1].ask(request, 16)[0]
        answer = response.responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 4)
        assert response.node_endpoints[0].host == "host2"


async def test_fetch_without_partitions_gets_an_immediate_response() -> None:
    async with ReplicaCluster([1]) as cluster:
        assert cluster[1].ask(FetchRequest(max_wait_ms=500, min_bytes=1), 12)[0].responses == []


async def test_clients_before_version_6_do_not_know_of_storage_errors() -> None:
    async with ReplicaCluster([1]) as cluster:
        node = await alone(cluster)
        node.replicas.disk_failed(TP, OSError("broken"))
        assert error_of(node.fetch(0, version=5)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error_of(node.fetch(0, version=6)) is ErrorCode.KAFKA_STORAGE_ERROR
