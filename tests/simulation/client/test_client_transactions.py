"""Our producer's transactions on a simulated cluster: all or nothing, offsets with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.core.client.consumer.fetched import ConsumerRecord
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.testing.simulated import SimulatedCluster, play

ONE = {"transaction.state.log.num.partitions": "1"}
# Without features the cluster has transactions of the original version.
ORIGINAL = {"group.coordinator.rebalance.protocols": "classic"}


def settings(brokers: int) -> dict[str, str]:
    factor = str(min(3, brokers))
    return ONE | {
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "1",
    }


async def committed(cluster: SimulatedCluster, topic: str) -> list[bytes | None]:
    keys = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with cluster.consumer(**keys) as consumer:
        await consumer.assign_topics(topic)
        return [record.value async for record in consumer.read_to()]


@pytest.mark.parametrize("own", [ORIGINAL, {}])
def test_committed_records_are_read_and_aborted_ones_are_not(own: dict[str, str]) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 3)
        async with cluster.producer(transactional_id="x") as producer:
            with pytest.raises(KafkaError) as early:
                await producer.send("t", b"no transaction")
            assert early.value.code is ErrorCode.INVALID_TXN_STATE
            await producer.init_transactions()
            async with producer.transaction():
                for number in range(9):
                    await producer.send("t", b"%d" % number, partition=number % 3)
            producer.begin_transaction()
            flushed = await producer.send("t", b"aborted", partition=0)
            await producer.flush()
            await producer.send("t", b"aborted too", partition=1)
            await producer.abort_transaction()
            assert flushed.result().offset > 0
            with pytest.raises(RuntimeError, match="enough"):
                await failing(producer)
            producer.begin_transaction()
            await producer.commit_transaction()  # nothing in it
            async with producer.transaction():
                await producer.send("t", b"9", partition=0)
        values = await committed(cluster, "t")
        assert sorted(value or b"" for value in values) == [b"%d" % number for number in range(10)]

    play(scenario, brokers=1, settings=settings(1) | own)


@pytest.mark.mission("TV2-10")
@pytest.mark.parametrize(("own", "additions", "epoch"), [(ORIGINAL, 7, 0), ({}, 0, 4)])
def test_in_version_2_the_brokers_add_partitions_and_each_transaction_has_its_epoch(
    own: dict[str, str], additions: int, epoch: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        async with cluster.producer(transactional_id="x") as producer:
            await producer.init_transactions()
            connections, sent = producer.session.connections, list[type]()
            usual = connections.request

            async def noted(node_id: int, message: Any, **keys: Any) -> Any:
                sent.append(type(message))
                return await usual(node_id, message, **keys)

            connections.request = noted  # type: ignore[method-assign]
            for number in range(3):
                async with producer.transaction():
                    await producer.send("t", b"%d" % number)
                    position = {TopicPartition("t", 0): number}
                    await producer.send_offsets_to_transaction(position, "group")
            with pytest.raises(RuntimeError, match="enough"):
                await failing(producer, partition=0)
            assert producer._transactions is not None
            assert producer._transactions._producer.epoch == epoch
            added = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)
            assert sum(kind in added for kind in sent) == additions
        assert await committed(cluster, "t") == [b"0", b"1", b"2"]

    play(scenario, brokers=1, settings=settings(1) | own)


def test_a_commit_waits_for_records_whose_senders_were_cancelled() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        async with cluster.producer(transactional_id="x", linger_ms=20) as producer:
            await producer.init_transactions()
            connections = producer.session.connections
            usual = connections.request

            async def slow(node_id: int, message: Any, **keys: Any) -> Any:
                if isinstance(message, ProduceRequest):
                    await asyncio.sleep(1)
                return await usual(node_id, message, **keys)

            connections.request = slow  # type: ignore[method-assign]
            producer.begin_transaction()
            kept = await producer.send("t", b"kept")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send_and_wait("t", b"given up"), 0.1)
            await producer.commit_transaction()
            assert kept.done()
        assert await committed(cluster, "t") == [b"kept", b"given up"]

    play(scenario, brokers=1, settings=settings(1))


async def failing(producer: object, partition: int = 2) -> None:
    async with producer.transaction():  # type: ignore[attr-defined]
        await producer.send("t", b"not this", partition=partition)  # type: ignore[attr-defined]
        raise RuntimeError("enough")


def test_a_second_producer_fences_the_first() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        async with cluster.producer(transactional_id="x") as first:
            await first.init_transactions()
            first.begin_transaction()
            await first.send_and_wait("t", b"of the first", partition=0)
            async with cluster.producer(transactional_id="x") as second:
                await second.init_transactions()
                async with second.transaction():
                    await second.send("t", b"of the second", partition=0)
            fencing = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
            for _ in range(2):
                with pytest.raises(KafkaError) as caught:
                    await first.commit_transaction()
                assert caught.value.code in fencing
        assert await committed(cluster, "t") == [b"of the second"]

    play(scenario, brokers=1, settings=settings(1))


@pytest.mark.parametrize("seed", range(2))
def test_read_process_write_is_exactly_once_while_brokers_die(seed: int) -> None:
    """Each input is copied once, though the leader of everything is killed in between."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("in", 2)
        await cluster.create_topic("out", 2)
        async with cluster.producer() as producer:
            for number in range(200):
                await producer.send("in", b"%d" % number, partition=number % 2)
        stop = asyncio.Event()
        tasks = [
            cluster.simulation.spawn_client(copy(cluster, f"copier-{number}", stop), f"c{number}")
            for number in range(2)
        ]
        for broker_id in (1, 2):
            await asyncio.sleep(3)
            await cluster.kill_broker(broker_id)
            await asyncio.sleep(12)
            await cluster.restart_broker(broker_id)
        for _ in range(300):
            if len(await committed(cluster, "out")) >= 200:
                break
            await asyncio.sleep(1)
        stop.set()
        await asyncio.wait(tasks)
        values = sorted(int(value or b"") for value in await committed(cluster, "out"))
        assert values == list(range(200))

    play(scenario, seed=seed, brokers=3, settings=settings(3))


async def copy(cluster: SimulatedCluster, name: str, stop: asyncio.Event) -> None:
    """Start again after every error, as a supervisor would."""
    while not stop.is_set():
        try:
            await copy_once(cluster, name, stop)
        except KafkaError:
            await asyncio.sleep(1)


async def copy_once(cluster: SimulatedCluster, name: str, stop: asyncio.Event) -> None:
    keys = {
        "group_id": "copiers",
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "max_poll_records": 20,
    }
    async with (
        cluster.producer(transactional_id=name) as producer,
        cluster.consumer(**keys) as consumer,
    ):
        await producer.init_transactions()
        consumer.subscribe(["in"])
        while not stop.is_set():
            records: list[ConsumerRecord] = await consumer.poll(500)
            if not records:
                continue
            async with producer.transaction():
                for record in records:
                    await producer.send("out", record.value, partition=record.partition)
                await producer.send_offsets_to_transaction(
                    consumer.consumed(), consumer.group_metadata
                )
                await asyncio.sleep(0.2)


@pytest.mark.mission("JUDGE-14")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_removed_commits_no_offsets(protocol: str) -> None:
    """Another member may have consumed the same records. Brokers would take offsets without a
    generation."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("in")
        keys = {
            "group_id": "copiers",
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "max_poll_interval_ms": 10_000,
        }
        async with (
            cluster.producer(transactional_id="x") as producer,
            cluster.consumer(**keys) as consumer,
        ):
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send("in", b"1")
            consumer.subscribe(["in"])
            while not await consumer.poll(500):
                pass
            await asyncio.sleep(15)
            producer.begin_transaction()
            with pytest.raises(KafkaError):
                await producer.send_offsets_to_transaction(
                    consumer.consumed(), consumer.group_metadata
                )
            await producer.abort_transaction()
            offsets = await consumer.committed(TopicPartition("in", 0))
            assert set(offsets.values()) == {None}

    play(scenario, settings=settings(3))
