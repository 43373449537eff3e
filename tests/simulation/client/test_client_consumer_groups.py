"""Our consumers in groups of the consumer protocol (KIP-848), on simulated brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import (
    Admin,
    CommitFailedError,
    RebalanceListener,
    SubscriptionPattern,
)
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.simulator import faults
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.scenario import PARTITIONS, prepared
from tests.support.simulated.sim_groups import (
    TOPIC,
    Reader,
    simulated,
    until_shared,
    write,
)

TPS = [TopicPartition(TOPIC, number) for number in range(4)]
ALL = "t-0 t-1 t-2 t-3"
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)


def reader(cluster: SimCluster, **keys: Any) -> Reader:
    return Reader(cluster, group_protocol="consumer", **keys)


def test_members_come_and_go_and_each_record_is_read_once() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 40)
        first = reader(cluster).start()
        await cluster.until("all of it", lambda: len(first.records) == 40)
        second = reader(cluster, group_remote_assignor="range").start()
        await until_shared(cluster, first, second)
        await write(cluster, 40, 40)
        await cluster.until("more", lambda: len(first.records + second.records) == 80)
        await first.stop()
        await until_shared(cluster, second)
        await write(cluster, 80, 40)
        await cluster.until("the rest", lambda: len(first.records + second.records) == 120)
        await second.stop()
        values = sorted(int(value or b"") for value in first.values + second.values)
        assert values == list(range(120))
        assigned, revoked, nothing, left = first.rebalances.lines
        assert (assigned, nothing) == (f"+ {ALL}", "+ ")
        assert sorted(f"{revoked} {left}".replace("- ", "").split()) == ALL.split()
        assert len(revoked) == len(left)

    simulated(scenario)


def test_a_vanished_member_is_removed_after_the_session_timeout() -> None:
    async def scenario(cluster: SimCluster) -> None:
        first, second = (reader(cluster).start() for _ in range(2))
        await until_shared(cluster, first, second)
        await first.vanish()
        await until_shared(cluster, second)
        await second.stop()

    simulated(scenario)


def test_a_returning_static_member_keeps_its_assignment() -> None:
    async def scenario(cluster: SimCluster) -> None:
        other = reader(cluster, group_instance_id="other").start()
        static = reader(cluster, group_instance_id="me").start()
        await until_shared(cluster, other, static)
        had, told = static.partitions, list(other.rebalances.lines)
        await static.stop()
        again = reader(cluster, group_instance_id="me").start()
        await cluster.until("back", lambda: again.partitions == had)
        assert other.rebalances.lines == told, "the other one heard nothing of it"
        await again.stop()
        await other.stop()

    simulated(scenario)


def test_the_same_instance_twice_is_refused() -> None:
    async def scenario(cluster: SimCluster) -> None:
        first = reader(cluster, group_instance_id="me").start()
        await until_shared(cluster, first)
        second = reader(cluster, group_instance_id="me")
        async with second.consumer as consumer:
            consumer.subscribe([TOPIC])
            for _ in range(2):
                with pytest.raises(KafkaError) as caught:
                    await second.read_on()
                assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
        assert len(first.partitions) == 4
        await first.stop()

    simulated(scenario)


@pytest.mark.parametrize("pattern", ["t|u.*", SubscriptionPattern("t|u.*")])
def test_a_pattern_follows_topics_and_partitions(pattern: str | SubscriptionPattern) -> None:
    async def scenario(cluster: SimCluster) -> None:
        follower = reader(cluster).start(pattern=pattern)
        await until_shared(cluster, follower)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("u2", 1, 1)
            await admin.create_topic("v", 1, 1)
            await cluster.until("u2 found", lambda: len(follower.partitions) == 5, 600)
            await admin.create_partitions({TOPIC: 6})
            await cluster.until("new partitions", lambda: len(follower.partitions) == 7, 600)
        assert {tp.topic for tp in follower.consumer.assignment} == {"t", "u2"}
        await follower.stop()

    simulated(scenario)


def test_another_subscription_and_none() -> None:
    async def scenario(cluster: SimCluster) -> None:
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("u", 1, 1)
            await admin.wait_for_topic("u", 1)
        one = reader(cluster)
        async with one.consumer as consumer:
            topics: list[list[str]] = [[TOPIC], ["u"], [TOPIC]]
            for names in topics:
                consumer.subscribe(names, listener=one.rebalances)
                while {tp.topic for tp in consumer.assignment} != set(names):
                    await consumer.poll(100)
            moves = [line for line in one.rebalances.lines if line != "+ "]
            assert moves == [f"+ {ALL}", f"- {ALL}", "+ u-0", "- u-0", f"+ {ALL}"]
            generation = consumer.group_metadata.generation
            assert generation > 0
            await consumer.unsubscribe()
            assert consumer.group_metadata.generation == -1
            consumer.subscribe(pattern=SubscriptionPattern("u"), listener=one.rebalances)
            while not consumer.assignment:
                await consumer.poll(100)
            moves = [line for line in one.rebalances.lines if line != "+ "]
            assert moves[-2:] == [f"- {ALL}", "+ u-0"]

    simulated(scenario)


def test_a_topic_that_is_created_again_is_another_one() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 8)
        one = reader(cluster).start()
        await cluster.until("all of it", lambda: len(one.records) == 8)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.delete_topics([TOPIC])
            await cluster.until("revoked", lambda: not one.partitions, 600)
            await admin.create_topic(TOPIC, 4, 1)
            await admin.wait_for_topic(TOPIC, 4)
            await cluster.until("assigned again", lambda: len(one.partitions) == 4, 600)
        assert one.rebalances.lines[:2] == [f"+ {ALL}", f"- {ALL}"]
        await one.stop()

    simulated(scenario)


def test_a_member_that_stops_polling_loses_its_partitions() -> None:
    async def scenario(cluster: SimCluster) -> None:
        slow = reader(cluster, max_poll_interval_ms=20_000, enable_auto_commit=False)
        await write(cluster, 0, 4)
        async with slow.consumer as consumer:
            consumer.subscribe([TOPIC], listener=slow.rebalances)
            while not (await consumer.poll(500)):
                pass
            beats = consumer.metrics()["heartbeat-total"]
            await asyncio.sleep(16)
            assert consumer.metrics()["heartbeat-total"] >= beats + 2, "every 5 s"
            await consumer.commit()
            owner = consumer.group_metadata
            await asyncio.sleep(10)
            assert consumer.group_metadata == owner, "the coordinator does not check nobody"
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            await consumer.poll(100)
            assert slow.rebalances.lines[:2] == [f"+ {ALL}", f"! {ALL}"]
            while not consumer.assignment:
                await consumer.poll(100)
            assert consumer.group_metadata.member_id == owner.member_id

    simulated(scenario)


def test_a_fenced_member_abandons_its_partitions_and_joins_again() -> None:
    async def scenario(cluster: SimCluster) -> None:
        one = reader(cluster)
        async with one.consumer as consumer:
            consumer.subscribe([TOPIC], listener=one.rebalances)
            while not consumer.assignment:
                await consumer.poll(100)
            assert consumer._group is not None
            membership: Any = consumer._group.member.membership
            membership.epoch += 7
            while len(one.rebalances.lines) < 3:
                await consumer.poll(1_000)
            assert one.rebalances.lines == [f"+ {ALL}", f"! {ALL}", f"+ {ALL}"]

    simulated(scenario)


def test_a_commit_with_an_older_epoch_is_repeated_with_the_newer_one() -> None:
    async def scenario(cluster: SimCluster) -> None:
        one = reader(cluster, enable_auto_commit=False)
        async with one.consumer as consumer:
            consumer.subscribe([TOPIC])
            while not consumer.assignment:
                await consumer.poll(100)
            other = reader(cluster).start()
            epochs: list[int] = []
            while not len(consumer.assignment) == len(other.partitions) == 2:
                await consumer.poll(10)
                epochs.append(consumer.group_metadata.generation)
            epoch = epochs[-1]
            assert consumer._group is not None
            membership: Any = consumer._group.member.membership
            # As if the last response was lost.
            membership.epoch = max(before for before in epochs if 0 < before < epoch)
            membership.on_failure()
            await consumer.commit({TPS[0]: 7})
            assert consumer.group_metadata.generation == epoch
            assert (await consumer.committed(TPS[0]))[TPS[0]] == (7, "", -1)
            await other.stop()

    simulated(scenario)


def test_a_listener_may_seek_and_commit_and_fail() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 40)

        class FromTheFifth(RebalanceListener):
            async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                for tp in partitions:
                    consumer.seek(tp, 5)

            async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                await consumer.commit(dict.fromkeys(partitions, 7))
                raise ValueError("as listeners do")

        one = reader(cluster, enable_auto_commit=False)
        async with one.consumer as consumer:
            consumer.subscribe([TOPIC], listener=FromTheFifth())
            records: list[Any] = []
            while len(records) < 20:
                records += await consumer.poll(500)
            assert {record.offset for record in records} == {5, 6, 7, 8, 9}
            other = reader(cluster).start()
            with pytest.raises(ValueError, match="as listeners do"):
                await one.read_on()
            await cluster.until("two of them", lambda: len(other.partitions) == 2)
            found = await consumer.committed(*other.consumer.assignment)
            assert [at and at.offset for at in found.values()] == [7, 7]
            await other.stop()
            with pytest.raises(ValueError, match="as listeners do"):
                await consumer.unsubscribe()

    simulated(scenario)


def test_members_of_both_protocols_share_a_group() -> None:
    async def scenario(cluster: SimCluster) -> None:
        classic = Reader(cluster).start()
        await until_shared(cluster, classic)
        one = reader(cluster).start()
        await until_shared(cluster, classic, one)
        await write(cluster, 0, 40)
        await cluster.until("all of it", lambda: len(classic.records + one.records) == 40)
        await classic.stop()
        await until_shared(cluster, one)
        another = Reader(cluster).start()
        await until_shared(cluster, one, another)
        await one.stop()
        await until_shared(cluster, another)
        await another.stop()

    simulated(scenario)


def test_a_broker_without_the_protocol_is_an_error() -> None:
    async def scenario(cluster: SimCluster) -> None:
        one = reader(cluster)
        async with one.consumer as consumer:
            find = consumer._group.member.call  # type: ignore[union-attr]

            async def refuse(call: Any, timeout_ms: int) -> Any:
                if call.request.SPEC.api_key is ApiKey.CONSUMER_GROUP_HEARTBEAT:
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
                return await find(call, timeout_ms)

            consumer._group.member.call = refuse  # type: ignore[union-attr,method-assign]
            consumer.subscribe([TOPIC])
            with pytest.raises(KafkaError) as caught:
                await one.read_on()
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION

    simulated(scenario)


# -- several brokers

SETTINGS = {"offsets.topic.num.partitions": "1", "min.insync.replicas": "2"}


class Claims(RebalanceListener):
    """The partitions of one reader. No partition is ever claimed by two readers."""

    def __init__(self, owners: dict[TopicPartition, Claims]) -> None:
        self._owners = owners
        self.losses = 0

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            assert self._owners.setdefault(tp, self) is self, f"{tp} has two owners"

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            assert self._owners.pop(tp) is self

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.losses += len(partitions)
        await self.on_partitions_revoked(partitions)


@pytest.mark.mission("G848-2")
@pytest.mark.parametrize("seed", range(3))
def test_the_coordinator_is_killed_while_members_come_and_go(seed: int) -> None:
    """No partition has two owners, no member loses any, and every record is read."""

    async def scenario(cluster: SimCluster) -> None:
        await prepared(cluster)
        topic = PARTITIONS[0].topic
        owners: dict[TopicPartition, Claims] = {}
        readers: list[Reader] = []
        written = 0

        def add() -> None:
            one = reader(cluster)
            one.rebalances = Claims(owners)  # type: ignore[assignment]
            readers.append(one.start(topic))

        def read() -> set[int]:
            return {int(value or b"") for one in readers for value in one.values}

        async def write_more() -> None:
            nonlocal written
            await write(cluster, written, 30, topic)
            written += 30
            await cluster.until("read", lambda: read() == set(range(written)), 300)

        add()
        add()
        await write_more()
        for round_number in range(3):
            await faults.killed(cluster, cluster.leader(OFFSETS), 10)
            add()
            await write_more()
            await readers[round_number].stop()
            await write_more()
        await cluster.until("shared out", lambda: set(owners) == set(PARTITIONS), 300)
        assert not any(one.rebalances.losses for one in readers)  # type: ignore[attr-defined]
        for one in readers[3:]:
            await one.stop()

    SimCluster(seed, settings=SETTINGS).run(scenario)
