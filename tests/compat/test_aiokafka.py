"""aiokafka against three brokers."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.clients.places import Cluster, in_both_places
from tests.support.cluster.leaders import wait_for_leaders

pytestmark = pytest.mark.compat
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


async def create(cluster: Cluster, topic: str, partitions: int = 3) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, partitions, 3)])
    wait_for_leaders(cluster.bootstrap, topic, partitions)
    while topic not in await admin.list_topics():  # another broker may know of it later
        pass
    await admin.close()


async def read_all(
    cluster: Cluster, topic: str, partitions: int, count: int
) -> list[tuple[int, bytes]]:
    """Everything, once so many records are replicated: acks 0 and 1 do not wait for that."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap)
    await consumer.start()
    assigned = [TopicPartition(topic, p) for p in range(partitions)]
    consumer.assign(assigned)
    await consumer.seek_to_beginning(*assigned)
    while sum((ends := await consumer.end_offsets(assigned)).values()) < count:
        pass
    found: list[tuple[int, bytes]] = []
    while any([await consumer.position(p) < ends[p] for p in assigned]):
        for records in (await consumer.getmany(timeout_ms=500)).values():
            found += [(r.partition, r.value) for r in records]
    await consumer.stop()
    return found


@pytest.mark.mission("CRD-1")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_produce_and_read_back(
    cluster: Cluster, topic: str, codec: str | None, acks: int | str
) -> None:
    await create(cluster, topic)
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        acks=acks,
        compression_type=codec,
        enable_idempotence=acks == "all",
    )
    await producer.start()
    sent = [f"value-{n}".encode() * 20 for n in range(300)]
    for n, value in enumerate(sent):
        await producer.send(topic, value, partition=n % 3)
    await producer.stop()
    found = await read_all(cluster, topic, 3, len(sent))
    for partition in range(3):
        expected = [v for n, v in enumerate(sent) if n % 3 == partition]
        assert [v for p, v in found if p == partition] == expected


@in_both_places
async def test_offsets_by_time(cluster: Cluster, topic: str) -> None:
    await create(cluster, topic, 1)
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    await producer.start()
    for n in range(10):
        await producer.send_and_wait(
            topic, b"x", partition=0, timestamp_ms=1_700_000_000_000 + n * 1000
        )
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap)
    await consumer.start()
    partition = TopicPartition(topic, 0)
    assert await consumer.beginning_offsets([partition]) == {partition: 0}
    assert await consumer.end_offsets([partition]) == {partition: 10}
    found = await consumer.offsets_for_times({partition: 1_700_000_004_500})
    assert found[partition].offset == 5
    await consumer.stop()
