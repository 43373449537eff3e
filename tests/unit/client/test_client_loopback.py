"""The same client on the real clock, network and loop: one conversation over loopback."""

import pytest

from minikafka.client import (
    Admin,
    ClientConfig,
    Consumer,
    ConsumerConfig,
    Producer,
    ProducerConfig,
)
from minikafka.protocol.records.compression import Compression
from minikafka.world.real.loop import run
from minikafka.world.real.world import real_world
from tests.support.client.fake_cluster import FakeCluster


@pytest.mark.mission("PAR-8")
def test_a_topic_is_created_written_and_read() -> None:
    async def scenario() -> None:
        world = real_world()
        cluster = FakeCluster(world, brokers=2, loopback=True)
        await cluster.start()
        config = ClientConfig(bootstrap_servers=cluster.bootstrap)
        async with Admin(world, config) as admin:
            await admin.create_topic("t", 4, 1)
            await admin.wait_for_topic("t", 4)
        compressed = ProducerConfig(compression=Compression.LZ4, linger_ms=1)
        async with Producer(world, config, compressed) as producer:
            for i in range(1_000):
                await producer.send("t", b"%d" % i, b"%d" % (i % 10))
        async with Consumer(world, config, ConsumerConfig(auto_offset_reset="earliest")) as reader:
            await reader.assign_topics("t")
            records = [record async for record in reader.read_to()]
        assert sorted(int(record.value or b"") for record in records) == list(range(1_000))
        # Per key, and therefore per partition, the order is that of sending.
        for key in {record.key for record in records}:
            mine = [int(record.value or b"") for record in records if record.key == key]
            assert mine == sorted(mine)
        for broker in cluster.brokers:
            cluster.stop_broker(broker)

    run(scenario())
