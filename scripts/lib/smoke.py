"""A smoke test of an installed wheel: three simulated brokers pass records on, one is killed."""

from __future__ import annotations

from minikafka.testing.simulated import SimulatedCluster, play

SENT = [b"%d" % number for number in range(100)]


async def scenario(cluster: SimulatedCluster) -> list[bytes]:
    """Write a topic, kill a broker, and read the topic from the others."""
    await cluster.create_topic("smoke", partitions=1)
    async with cluster.producer(acks="all") as producer:
        for value in SENT:
            await producer.send_and_wait("smoke", value)
    await cluster.kill_broker(1)
    received: list[bytes] = []
    async with cluster.consumer(auto_offset_reset="earliest") as consumer:
        await consumer.assign_topics("smoke")
        while len(received) < len(SENT):
            for record in await consumer.poll(1000):
                received.append(record.value or b"")
    return received


if __name__ == "__main__":
    assert play(scenario) == SENT, "the records that were read are not those that were sent"
