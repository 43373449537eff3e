"""Our consumers in groups, on a simulated broker: who reads what, and from where."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import Admin, CommitFailedError, OffsetAndMetadata, RebalanceListener
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.testing.simulator.cluster import SimCluster
from tests.support.simulated.sim_groups import TOPIC, Reader, simulated, until_shared, write

TPS = [TopicPartition(TOPIC, number) for number in range(4)]
ALL = "t-0 t-1 t-2 t-3"


@pytest.mark.mission("ASG-1", "ASG-2")
@pytest.mark.parametrize(
    "strategy", [("range",), ("roundrobin",), ("sticky",), ("cooperative-sticky",)]
)
def test_members_come_and_go_and_each_record_is_read_once(strategy: tuple[str, ...]) -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 40)
        keys = {"partition_assignment_strategy": strategy}
        first = Reader(cluster, **keys).start()
        await cluster.until("all of it", lambda: len(first.records) == 40)
        second = Reader(cluster, **keys).start()
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
        assert first.rebalances.lines[0] == f"+ {ALL}"
        if strategy == ("cooperative-sticky",):
            assert first.rebalances.lines[1:] == ["- t-2 t-3", "+ ", "+ ", "- t-0 t-1"]
        else:
            assert first.rebalances.lines[1] == f"- {ALL}"

    simulated(scenario)


@pytest.mark.mission("HB-6")
def test_a_vanished_member_is_removed_after_the_session_timeout() -> None:
    async def scenario(cluster: SimCluster) -> None:
        keys = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
        first, second = (Reader(cluster, **keys).start() for _ in range(2))
        await until_shared(cluster, first, second)
        loop = cluster.simulation.loop
        begun = loop.seconds()
        await first.vanish()
        await until_shared(cluster, second)
        assert 3 < loop.seconds() - begun < 12
        await second.stop()

    simulated(scenario)


def test_a_returning_static_member_keeps_its_assignment() -> None:
    async def scenario(cluster: SimCluster) -> None:
        other = Reader(cluster, group_instance_id="other").start()
        static = Reader(cluster, group_instance_id="me").start()
        await until_shared(cluster, other, static)
        had, told = static.partitions, list(other.rebalances.lines)
        await static.stop()
        again = Reader(cluster, group_instance_id="me").start()
        await cluster.until("back", lambda: again.partitions == had)
        assert other.rebalances.lines == told, "the other one heard nothing of it"
        await again.stop()
        await other.stop()

    simulated(scenario)


def test_the_same_instance_twice_fences_the_first() -> None:
    async def scenario(cluster: SimCluster) -> None:
        first = Reader(cluster, group_instance_id="me")
        async with first.consumer as consumer:
            consumer.subscribe([TOPIC])
            while not consumer.assignment:
                await consumer.poll(100)
            second = Reader(cluster, group_instance_id="me").start()
            with pytest.raises(KafkaError) as caught:
                await first.read_on()
            assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
            with pytest.raises(KafkaError):
                await consumer.poll(1_000)
        await cluster.until("the second has all", lambda: len(second.partitions) == 4)
        await second.stop()

    simulated(scenario)


def test_a_pattern_follows_topics_and_partitions() -> None:
    async def scenario(cluster: SimCluster) -> None:
        reader = Reader(cluster).start(pattern="t|u.*")
        await until_shared(cluster, reader)
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            await admin.create_topic("u2", 1, 1)
            await admin.create_topic("v", 1, 1)
            reader.consumer.session.metadata.request_update()
            await cluster.until("u2 found", lambda: len(reader.partitions) == 5)
            await admin.create_partitions({TOPIC: 6})
            await admin.wait_for_topic(TOPIC, 6)
            reader.consumer.session.metadata.request_update()
            await cluster.until("new partitions", lambda: len(reader.partitions) == 7)
        assert {tp.topic for tp in reader.consumer.assignment} == {"t", "u2"}
        await reader.stop()

    simulated(scenario)


@pytest.mark.mission("CFG-4")
def test_a_member_that_stops_polling_loses_its_partitions() -> None:
    async def scenario(cluster: SimCluster) -> None:
        slow = Reader(cluster, max_poll_interval_ms=20_000, enable_auto_commit=False)
        await write(cluster, 0, 4)
        async with slow.consumer as consumer:
            consumer.subscribe([TOPIC], listener=slow.rebalances)
            while not (await consumer.poll(500)):
                pass
            beats = consumer.metrics()["heartbeat-total"]
            await asyncio.sleep(15)
            assert consumer.metrics()["heartbeat-total"] >= beats + 4, "every 3 s"
            await consumer.commit()
            owner = consumer.group_metadata
            await asyncio.sleep(10)
            assert consumer.group_metadata == owner, "the coordinator does not check nobody"
            with pytest.raises(CommitFailedError):
                await consumer.commit()
            await consumer.poll(100)
            assert slow.rebalances.lines == [f"+ {ALL}", f"! {ALL}"]
            while not consumer.assignment:
                await consumer.poll(100)

    simulated(scenario)


def test_commits_by_hand() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 40)
        keys = {"enable_auto_commit": False, "max_poll_records": 4}
        async with Reader(cluster, **keys).consumer as consumer:
            consumer.subscribe([TOPIC])
            seen = []
            async for record in consumer:
                seen.append(record)
                if len(seen) == 6:
                    break
            await consumer.commit()
            found = await consumer.committed(*TPS)
            offsets = [0 if at is None else at.offset for at in found.values()]
            assert sum(offsets) == 6, "what was handed out, and not what was taken with it"
            await consumer.commit({TPS[0]: OffsetAndMetadata(9, "nine"), TPS[1]: 2})
            again = await consumer.committed()
            assert again[TPS[0]] == (9, "nine", -1)
            assert consumer.lag(TPS[0]) is not None
        async with Reader(cluster).consumer as consumer:
            consumer.assign(TPS[:2])
            assert await consumer.position(TPS[0]) == 9
            assert await consumer.position(TPS[1]) == 2
            consumer.seek(TPS[0], 1)
            assert (await consumer.poll(5_000))[0].offset in (1, 2)
        # Closing has committed, without being a member.
        async with Reader(cluster).consumer as consumer:
            assert (await consumer.committed(TPS[0]))[TPS[0]] == (10, "", 0)

    simulated(scenario)


def test_no_committed_offset_and_no_reset_policy_is_an_error() -> None:
    async def scenario(cluster: SimCluster) -> None:
        async with Reader(cluster, auto_offset_reset="none").consumer as consumer:
            consumer.assign(TPS[:1])
            with pytest.raises(KafkaError, match="none"):
                await consumer.position(TPS[0])

    simulated(scenario)


def test_an_exception_leaves_without_a_commit() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 4)
        reader = Reader(cluster)

        async def failing() -> None:
            async with reader.consumer as consumer:
                consumer.subscribe([TOPIC], listener=reader.rebalances)
                async for _ in consumer:
                    raise RuntimeError("cannot be handled")

        with pytest.raises(RuntimeError):
            await failing()
        assert reader.rebalances.lines[-1] == f"! {ALL}"
        after = Reader(cluster).start()
        await cluster.until("all again", lambda: len(after.records) == 4)
        await after.stop()

    simulated(scenario)


def test_unsubscribing_and_misuse() -> None:
    async def scenario(cluster: SimCluster) -> None:
        reader = Reader(cluster)
        async with reader.consumer as consumer:
            for wrong in ((), [TOPIC]):
                with pytest.raises(ValueError, match="topics or"):
                    consumer.subscribe(wrong, pattern=None if not wrong else "t.*")
            with pytest.raises(TypeError):
                consumer.subscribe(TOPIC)
            consumer.subscribe([TOPIC], listener=reader.rebalances)
            while not consumer.assignment:
                await consumer.poll(100)
            with pytest.raises(RuntimeError):
                consumer.assign(TPS)
            await consumer.unsubscribe()
            assert consumer.assignment == []
            assert reader.rebalances.lines == [f"+ {ALL}", f"- {ALL}"]
            consumer.assign(TPS)
            with pytest.raises(RuntimeError):
                consumer.subscribe([TOPIC])
        async with Admin(cluster.client_host.world, cluster.client_config) as admin:
            assert [str(group) for group in await admin.list_groups()]

    simulated(scenario)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_cancelled_at_any_moment_leaves_nothing_behind(protocol: str) -> None:
    """Before, during and after its join; the other members continue."""

    async def scenario(cluster: SimCluster) -> None:
        other = Reader(cluster, group_protocol=protocol).start()
        await until_shared(cluster, other)
        for delay_ms in (0, 1, 3, 20, 120, 700, 1_500, 4_000):
            before = client_tasks()
            reader = Reader(cluster, group_protocol=protocol)

            async def read(reader: Reader = reader) -> None:
                async with reader.consumer:
                    reader.consumer.subscribe([TOPIC], listener=reader.rebalances)
                    await reader.read_on()

            task = cluster.client_host.spawn(read(), "cancelled")
            await asyncio.sleep(delay_ms / 1000)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await asyncio.sleep(0.5)
            left = {each.get_name() for each in client_tasks() - before}
            assert not left & {"heartbeat", "join-group", "metadata", "cancelled"}, delay_ms
        await until_shared(cluster, other)
        await other.stop()

    simulated(scenario)


def client_tasks() -> set[asyncio.Task[object]]:
    return set(asyncio.all_tasks())


def test_a_listener_may_seek_and_commit() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await write(cluster, 0, 40)

        class FromTheFifth(RebalanceListener):
            async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
                for tp in partitions:
                    consumer.seek(tp, 5)

            async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                await consumer.commit(dict.fromkeys(partitions, 7))

        async with Reader(cluster, enable_auto_commit=False).consumer as consumer:
            consumer.subscribe([TOPIC], listener=FromTheFifth())
            records: list[Any] = []
            while len(records) < 20:
                records += await consumer.poll(500)
            assert {record.offset for record in records} == {5, 6, 7, 8, 9}
        async with Reader(cluster).consumer as consumer:
            found = await consumer.committed(*TPS)
            assert [at and at.offset for at in found.values()] == [7, 7, 7, 7]

    simulated(scenario)


def test_cooperative_members_read_on_while_others_join() -> None:
    """Partitions that stay are read throughout; only those that move pause."""

    async def scenario(cluster: SimCluster) -> None:
        keys = {"partition_assignment_strategy": ("cooperative-sticky",)}
        first = Reader(cluster, **keys).start()
        await until_shared(cluster, first)
        second = Reader(cluster, **keys).start()
        number, joining = 0, []
        while len(second.partitions) < 2:
            await write(cluster, number, 4)
            number += 4
            await asyncio.sleep(0.1)
            if second.consumer.group_metadata.generation == -1 or not second.partitions:
                joining.append(len(first.records))
        await cluster.until("all", lambda: len(first.records + second.records) == number)
        assert len(set(joining)) > 3, "records came while the other one joined"
        assert not any(line.startswith("- t-0") for line in first.rebalances.lines)
        await first.stop()
        await second.stop()

    simulated(scenario)
