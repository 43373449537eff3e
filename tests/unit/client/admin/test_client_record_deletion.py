"""The admin client deletes records at the leaders, wherever they are by now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.client import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.records.builder import build_batch
from tests.support.client.failures import code_of
from tests.support.client.fake_cluster import HANG_UP, SILENCE, FakeCluster
from tests.support.client.scenes import administering
from tests.support.world.client_world import jumping

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@asynccontextmanager
async def nine_records_each() -> AsyncIterator[tuple[Admin, FakeCluster]]:
    """An admin client, and its cluster with nine records in each partition of a topic."""
    async with administering() as (admin, cluster):
        cluster.create("t")
        for tp in (A, B):
            cluster.partitions[tp].append(build_batch([(1, None, b"x", [])] * 9))
        yield admin, cluster


@jumping
async def test_each_leader_receives_its_own_partitions() -> None:
    async with nine_records_each() as (admin, cluster):
        assert await admin.delete_records({A: 3, B: -1}) == {A: 3, B: 9}
        asked = {
            (broker, topic.name, row.partition_index, row.offset)
            for broker, request in cluster.seen
            if request.SPEC.api_key == ApiKey.DELETE_RECORDS
            for topic in request.topics
            for row in topic.partitions
        }
        assert asked == {(1, "t", 0, 3), (2, "t", 1, -1)}


@jumping
async def test_a_new_leader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with nine_records_each() as (admin, cluster):
        usual = cluster._delete_records

        def answer(broker: int, *rest: Any) -> None:
            if broker == 1:
                cluster.move_leader(A, 2)
            usual(broker, *rest)

        monkeypatch.setattr(cluster, "_delete_records", answer)
        assert await admin.delete_records({A: 3}) == {A: 3}
        assert [b for b, r in cluster.seen if r.SPEC.api_key == ApiKey.DELETE_RECORDS] == [1, 2]


@jumping
async def test_retriable_errors_are_retried() -> None:
    async with nine_records_each() as (admin, cluster):
        faults = (HANG_UP, SILENCE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
        for fault in faults:
            cluster.fail(ApiKey.DELETE_RECORDS, fault)
        assert await admin.delete_records({A: 3}) == {A: 3}
        assert len(cluster.requests(ApiKey.DELETE_RECORDS)) == len(faults) + 1


@jumping
async def test_final_errors_are_returned_per_partition() -> None:
    async with nine_records_each() as (admin, cluster):
        nowhere, beyond = TopicPartition("nowhere", 0), TopicPartition("t", 7)
        outcomes = await admin.delete_records({A: 10, B: 2, nowhere: 0, beyond: 0})
        assert outcomes[B] == 2
        assert code_of(outcomes[A]) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert code_of(outcomes[nowhere]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of(outcomes[beyond]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(cluster.requests(ApiKey.DELETE_RECORDS)) == 2  # once at each leader


@jumping
async def test_without_a_leader_until_the_deadline() -> None:
    async with nine_records_each() as (admin, cluster):
        cluster.move_leader(A, -1)
        outcomes = await admin.delete_records({A: 3, B: 4}, timeout_ms=2_000)
        assert code_of(outcomes[A]) is ErrorCode.LEADER_NOT_AVAILABLE
        assert outcomes[B] == 4
        assert len(cluster.requests(ApiKey.DELETE_RECORDS)) == 1


@jumping
async def test_nothing_to_delete() -> None:
    async with nine_records_each() as (admin, cluster):
        assert await admin.delete_records({}) == {}
        assert not cluster.requests(ApiKey.DELETE_RECORDS)
