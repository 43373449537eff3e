"""Our share consumer on brokers inside the process: acknowledgement, iteration, redelivery."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from minikafka import aio
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.cluster import TopicPartition
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.inside_place import InsidePlace
from minikafka.testing.view import TestView

pytestmark = pytest.mark.mission("SHR-19")

SETTINGS = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "3",
}
COUNT = 60
VALUES = {b"%d" % number for number in range(COUNT)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(3, SETTINGS) as running:
        yield running


async def fail(shares: aio.ShareConsumer) -> None:
    """Fail at the first record."""
    async with shares:
        async for _ in shares:
            raise ZeroDivisionError


async def prepare(cluster: InsideCluster, topic: str) -> None:
    """Write records, and let the group of the topic's name begin before them."""
    async with aio.Admin(cluster.bootstrap) as admin:
        await admin.create_topics([aio.NewTopic(topic, 3, 3, {}, {})])
        early = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs(ResourceType.GROUP, topic, early)
    async with aio.Producer(cluster.bootstrap) as producer:
        for value in VALUES:
            await producer.send(topic, value)
        await producer.flush()


def consumer(cluster: InsideCluster, topic: str, **keys: Any) -> aio.ShareConsumer:
    return aio.ShareConsumer(cluster.bootstrap, group_id=topic, topics=[topic], **keys)


def test_each_record_is_acknowledged_by_its_type(cluster: InsideCluster) -> None:
    async def play() -> Counter[bytes]:
        await prepare(cluster, "explicit")
        delivered: Counter[bytes] = Counter()
        done = 0
        explicit = {"share_acknowledgement_mode": "explicit"}
        async with consumer(cluster, "explicit", **explicit) as shares, asyncio.timeout(30):
            while done < COUNT:
                for record in await shares.poll():
                    delivered[record.value] += 1
                    assert record.delivery_count == delivered[record.value]
                    number, kind = int(record.value), aio.AcknowledgeType.ACCEPT
                    if number % 10 == 0 and record.delivery_count == 1:
                        kind = aio.AcknowledgeType.RELEASE
                    elif number % 10 == 1:
                        kind = aio.AcknowledgeType.REJECT
                    if number == 2:
                        shares.acknowledge(record, aio.AcknowledgeType.RENEW)
                        assert set((await shares.commit()).values()) == {None}
                    shares.acknowledge(record, kind)
                    done += kind is not aio.AcknowledgeType.RELEASE
            with pytest.raises(aio.KafkaError, match="INVALID_RECORD_STATE"):
                shares.acknowledge(record)
            assert set((await shares.commit()).values()) == {None}
        async with consumer(cluster, "explicit") as shares:
            for _ in range(3):
                assert await shares.poll(500) == []
        return delivered

    delivered = asyncio.run(play())
    assert delivered == {value: 2 if int(value) % 10 == 0 else 1 for value in VALUES}


def test_what_a_loop_has_not_reached_is_delivered_to_others(cluster: InsideCluster) -> None:
    async def play() -> tuple[list[bytes], list[bytes]]:
        await prepare(cluster, "implicit")
        first: list[bytes] = []
        second: list[bytes] = []
        async with asyncio.timeout(30):
            async with consumer(cluster, "implicit") as shares:
                async for record in shares:
                    first.append(record.value)
                    if len(first) == 5:
                        break
            async with consumer(cluster, "implicit") as shares:
                while len(second) < COUNT - 5:
                    second += [record.value for record in await shares.poll()]
        return first, second

    first, second = asyncio.run(play())
    assert len(first) == 5
    assert Counter(first + second) == Counter(VALUES)


def test_a_consumer_that_fails_accepts_nothing(cluster: InsideCluster) -> None:
    async def play() -> list[bytes]:
        await prepare(cluster, "failing")
        async with asyncio.timeout(30):
            with pytest.raises(ZeroDivisionError):
                await fail(consumer(cluster, "failing"))
            found: list[bytes] = []
            async with consumer(cluster, "failing") as shares:
                while len(found) < COUNT:
                    found += [record.value for record in await shares.poll()]
            return found

    assert Counter(asyncio.run(play())) == Counter(VALUES)


def test_an_explicit_consumer_must_acknowledge_before_it_polls_again(
    cluster: InsideCluster,
) -> None:
    async def play() -> None:
        await prepare(cluster, "careless")
        explicit = {"share_acknowledgement_mode": "explicit"}
        async with consumer(cluster, "careless", **explicit) as shares, asyncio.timeout(30):
            while not await shares.poll():
                pass
            with pytest.raises(aio.KafkaError, match="is not acknowledged"):
                await shares.poll()

    asyncio.run(play())


@pytest.mark.mission("SHR-22")
def test_a_refused_acknowledgement_is_seen_by_the_consumer_and_the_fixture(
    cluster: InsideCluster,
) -> None:
    view = TestView(InsidePlace(cluster), "t").aio
    error = aio.ErrorCode.INVALID_RECORD_STATE
    explicit = {"share_acknowledgement_mode": "explicit"}

    async def play() -> None:
        await prepare(cluster, "refused")
        group = view.group("refused")
        async with consumer(cluster, "refused", **explicit) as shares, asyncio.timeout(30):
            while not (records := await shares.poll()):
                pass
            first = records[0]
            where = TopicPartition("refused", first.partition)
            refused = view.faults.answer(error, api="ShareAcknowledge", topic="refused", times=1)
            shares.acknowledge(first)
            outcome = (await shares.commit())[where]
            assert outcome is not None
            assert (outcome.code, refused.hits) == (error, 1)
            for record in records[1:]:
                shares.acknowledge(record)
            assert set((await shares.commit()).values()) == {None}
            found = await group.wait(
                state="Stable", members=1, until=lambda group: where in group.committed
            )
            assert (found.type, found.committed[where]) == ("share", 0)
            ends = await view.ends("refused")
            assert found.lag == sum(ends[tp] for tp in found.committed) - len(records) + 1
        assert (await group.wait(members=0)).state == "Empty"

    asyncio.run(play())


@pytest.mark.parametrize("keys", [{"group_id": ""}, {"share_acquire_mode": "x", "group_id": "g"}])
def test_configurations_that_cannot_be(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"group\.id|share\.acquire\.mode"):
        aio.ShareConsumer("host:9", **keys)
