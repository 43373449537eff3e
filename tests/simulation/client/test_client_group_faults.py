"""Our consumers in groups when things go wrong: commits that fail, members that are dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import Admin, Consumer
from minikafka.client.session import Coordinators
from minikafka.core.client.calls import Call, CoordinatorCall
from minikafka.core.client.consumer.group_calls import group_key
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.sim_groups import TOPIC, Reader, simulated, until_shared, write

T0 = TopicPartition(TOPIC, 0)


class LosesCommits:
    """Between a consumer and its coordinator: the next ``count`` commits are lost."""

    def __init__(self, consumer: Consumer, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        assert consumer._group is not None
        self._call = consumer._group.member.call
        self.left = count
        monkeypatch.setattr(consumer._group.member, "call", self)

    async def __call__(self, call: Call[Any], timeout_ms: int) -> Any:
        if isinstance(call.request, OffsetCommitRequest) and self.left:
            self.left -= 1
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "lost")
        return await self._call(call, timeout_ms)


async def committed(consumer: Consumer) -> int:
    at = (await consumer.committed(T0))[T0]
    return -1 if at is None else at.offset


def test_a_failed_automatic_commit_never_comes_after_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 100)
        keys = {"max_poll_records": 10, "auto_commit_interval_ms": 1_000}
        async with Reader(cluster, **keys).consumer as consumer:
            consumer.assign([T0])
            assert len(await consumer.poll(5_000)) == 10
            lossy = LosesCommits(consumer, monkeypatch, 1)
            await asyncio.sleep(1.1)
            count = 10 + len(await consumer.poll(5_000))  # begins the commit of ten
            await asyncio.sleep(0)
            assert lossy.left == 0
            while count < 100:
                count += len(await consumer.poll(5_000))
            await consumer.commit()
            await asyncio.sleep(5)
            assert await committed(consumer) == 100

    simulated(scenario, partitions=1)


def test_a_failed_automatic_commit_is_retried_by_the_next_one_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 10)
        async with Reader(cluster, auto_commit_interval_ms=60_000).consumer as consumer:
            consumer.assign([T0])
            assert len(await consumer.poll(5_000)) == 10
            LosesCommits(consumer, monkeypatch, 3)
            await asyncio.sleep(60)
            await consumer.poll(5_000)
            assert await committed(consumer) == 10, "within seconds, not a minute later"

    simulated(scenario, partitions=1)


def test_iterating_polls_once_a_batch_even_if_commits_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 200)
        async with Reader(cluster, auto_commit_interval_ms=1_000).consumer as consumer:
            consumer.assign([T0])
            count = 0
            async for _ in consumer:
                count += 1
                if count == 1:
                    LosesCommits(consumer, monkeypatch, 1_000)
                if count % 10 == 0:
                    await asyncio.sleep(0.5)
                if count == 200:
                    break
            assert consumer.metrics()["records-consumed-total"] == 200

    simulated(scenario, partitions=1)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_removed_during_its_revocation_rejoins_and_is_assigned_partitions(
    strategy: str,
) -> None:
    """The coordinator removed the member. The member learns it from the response to the commit
    in its revocation, right before it rejoins."""

    async def scenario(cluster: SimCluster) -> None:
        keys = {"partition_assignment_strategy": (strategy,), "group_instance_id": "me"}
        reader = Reader(cluster, **keys)
        async with (
            reader.consumer as consumer,
            Admin(cluster.client_host.world, cluster.client_config) as admin,
        ):
            await admin.create_topic("u", 1, 1)
            await admin.wait_for_topic("u", 1)
            consumer.subscribe([TOPIC, "u"], listener=reader.rebalances)
            await write(cluster, 0, 8)
            while len(reader.records) < 8:
                reader.records += await consumer.poll(500)
            session = admin.session
            leave = LeaveGroupRequest("g", members=[MemberIdentity("", "me")])
            call = CoordinatorCall(leave, lambda _: None, coordinator=group_key("g"))
            await Coordinators(session).call(call, session.deadline_ms())
            consumer.subscribe([TOPIC], listener=reader.rebalances)  # gives "u" up, at least
            await write(cluster, 8, 8)
            for _ in range(60):
                reader.records += await consumer.poll(1_000)
            assert consumer.assignment == [TopicPartition(TOPIC, number) for number in range(4)]
            assert {int(value or b"") for value in reader.values} == set(range(16))

    simulated(scenario, initial_delay_ms=0)


def test_a_member_that_never_polls_after_joining_loses_its_partitions() -> None:
    async def scenario(cluster: SimCluster) -> None:
        keys = {"max_poll_interval_ms": 10_000, "session_timeout_ms": 9_000}
        hanging = Reader(cluster, **keys)
        async with hanging.consumer as consumer:
            consumer.subscribe([TOPIC])
            while not consumer.assignment:
                await consumer.poll(200)
            other = Reader(cluster, **keys).start()
            while consumer.assignment:  # until it has given all up, to join again
                await asyncio.sleep(0.1)
                await consumer.poll(0)
            await cluster.until("the join is over", lambda: len(other.partitions) == 2)
            await until_shared(cluster, other)
            assert not consumer.assignment
        await other.stop()

    simulated(scenario)
