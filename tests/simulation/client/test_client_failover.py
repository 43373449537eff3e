"""How long our clients stand still after a kill -9, in simulated time.

The brokers notice the death by themselves, or the test deletes the registration after a given time.
What a client loses beyond the election is its own doing, and is counted in simulated milliseconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from minikafka.aio import ShareConsumer
from minikafka.client.session import Client
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.batch import NO_SEQUENCE
from minikafka.server.zookeeper import paths
from minikafka.testing.simulated import SimulatedCluster, play
from minikafka.testing.verify.append.history import Written
from minikafka.testing.verify.append.writer import NOBODY, Writer, WriterConfig

T0 = TopicPartition("t", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
TRANSACTIONS = TopicPartition("__transaction_state", 0)
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
# A lookup is at most a quarter of the failover late, plus a fifth of jitter; then some round trips.
ROUND_TRIPS_MS = 60
PAUSE_S = 0.005

Step: TypeAlias = Callable[[], Awaitable[object]]
Ready: TypeAlias = Callable[[Step], Awaitable[None]]
Watched: TypeAlias = Callable[[Client], None]
Work: TypeAlias = Callable[[SimulatedCluster, Watched, Ready], Coroutine[Any, Any, None]]


async def producing(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    async with cluster.producer() as producer:
        watch(producer)
        await repeat(lambda: producer.send_and_wait("t", b"v"))


async def consuming(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    keys = {"auto_offset_reset": "earliest"}
    async with cluster.producer() as producer, cluster.consumer(**keys) as consumer:
        watch(consumer)
        await consumer.assign_topics("t")
        await repeat(lambda: sent_and_read(producer, consumer))


async def sent_and_read(producer: Any, consumer: Any) -> None:
    await producer.send_and_wait("t", b"v")
    while not await consumer.poll(1_000):  # a share group begins at the end of the log
        await producer.send_and_wait("t", b"v")


async def committing(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    async with cluster.consumer(group_id="g", topics=["t"]) as consumer:
        watch(consumer)
        while not consumer.assignment:
            await consumer.poll(100)
        await repeat(lambda: consumer.commit({T0: 0}))


async def transacting(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    async with cluster.producer(transactional_id="x") as producer:
        watch(producer)
        await producer.init_transactions()

        async def transaction() -> None:
            async with producer.transaction():
                await producer.send("t", b"v")

        await repeat(transaction)


async def sharing(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    keys = cluster._of_clients()
    async with (
        cluster.producer() as producer,
        ShareConsumer(**keys, group_id="s", topics=["t"]) as consumer,
    ):
        watch(consumer)
        await repeat(lambda: sent_and_read(producer, consumer))


async def administering(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    names = iter(range(1_000_000))
    async with cluster.admin() as admin:
        watch(admin)

        async def create() -> None:
            create_topic = admin.create_topic(f"new-{next(names)}", 1, 1)
            (error,) = await asyncio.gather(create_topic, return_exceptions=True)
            if isinstance(error, KafkaError):  # the response of the dead controller was lost
                assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS

        await repeat(create)


async def verifying(cluster: SimulatedCluster, watch: Watched, repeat: Ready) -> None:
    numbers = iter(range(1_000_000))
    async with cluster.admin() as admin:
        watch(admin)
        writer = Writer(admin.session, Written(0), WriterConfig(b"run", "t", 100))
        await repeat(lambda: writer._write(0, next(numbers), 1, NOBODY, NO_SEQUENCE))


# What works, the partition whose leader is killed (None: the controller), and how many lookups
# come one after the other: of the leader and of the coordinator, if one broker was both; of the
# producer's leader and the consumer's; of metadata and of a leader by polling.
SCENES: dict[str, tuple[Work, TopicPartition | None, int]] = {
    "producer": (producing, T0, 1),
    "consumer": (consuming, T0, 2),
    "commits": (committing, OFFSETS, 1),
    "transactions": (transacting, TRANSACTIONS, 2),
    "share consumer": (sharing, T0, 2),
    "admin": (administering, None, 2),
    "verify": (verifying, T0, 2),
}


class Watch:
    """When a client's work succeeded, and its requests with their times, in ms."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self.done_ms: list[float] = []
        self.requests: list[tuple[float, str]] = []
        self._now_ms = now_ms

    def watch(self, client: Client) -> None:
        usual = client.session.connections.request

        async def request(node_id: int, message: Any, **keys: Any) -> Any:
            self.requests.append((self._now_ms(), type(message).__name__))
            return await usual(node_id, message, **keys)

        client.session.connections.request = request  # type: ignore[method-assign]

    async def repeat(self, step: Step) -> None:
        while True:
            await step()
            self.done_ms.append(self._now_ms())
            await asyncio.sleep(PAUSE_S)


async def failover(
    cluster: SimulatedCluster, scene: str, after_ms: int | None
) -> tuple[float, float, Counter[str]]:
    """Kill the broker that the scene's client needs, and have it replaced ``after_ms`` later, or as
    the brokers do it for None.
    Return the duration until the election, how much later the client worked again, in ms, and its
    requests until then."""
    simulation = cluster.simulation
    loop, zookeeper = simulation.simulation.loop, simulation.simulation.zookeeper
    work, partition, _ = SCENES[scene]

    def now_ms() -> float:
        return loop.seconds() * 1_000

    found = Watch(now_ms)
    await cluster.create_topic("t")

    def needed() -> int | None:
        return simulation.controller_id() if partition is None else simulation.leader(partition)

    running = simulation.spawn_client(work(cluster, found.watch, found.repeat), scene)
    await simulation.until("work", lambda: len(found.done_ms) > 20)
    victim = needed()
    assert victim is not None
    killed_ms = now_ms()
    await cluster.kill_broker(victim)
    if after_ms is not None:
        await asyncio.sleep(after_ms / 1_000)
        zookeeper.delete(paths.broker_id(victim))
        if simulation.controller_id() == victim:
            zookeeper.delete(paths.CONTROLLER)
    while needed() in (victim, -1, None):  # noqa: ASYNC110 - simulated time
        await asyncio.sleep(0.001)
    elected_ms = now_ms()
    await simulation.until("work again", lambda: found.done_ms[-1] > elected_ms, 30)
    running.cancel()
    await asyncio.wait([running])
    again_ms = next(done for done in found.done_ms if done > elected_ms)
    requests = Counter(name for at, name in found.requests if killed_ms <= at <= again_ms)
    return elected_ms - killed_ms, again_ms - elected_ms, requests


@pytest.mark.mission("CFAST-1", "CFAST-2", "CFAST-3")
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(("seed", "after_ms"), [(0, 100), (1, 300), (2, None)])
def test_a_client_loses_little_beyond_the_election(
    scene: str, seed: int, after_ms: int | None
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        took_ms, late_ms, requests = await failover(cluster, scene, after_ms)
        lookups = SCENES[scene][2]
        assert late_ms <= lookups * (0.3 * took_ms + ROUND_TRIPS_MS), requests
        assert max(requests.values()) <= 12, requests

    fast = {"minikafka.fast.failover": str(after_ms is None).lower()}
    play(scenario, seed=seed, settings=SETTINGS | fast)


@pytest.mark.mission("SHR-19")
def test_a_share_consumer_goes_on_after_its_coordinator_was_away_for_longer_than_a_call() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        keys = cluster._of_clients() | {"default_api_timeout_ms": 5_000}
        async with (
            cluster.producer() as producer,
            ShareConsumer(**keys, group_id="s", topics=["t"]) as consumer,
        ):
            await sent_and_read(producer, consumer)
            await cluster.kill_broker(1)
            await asyncio.sleep(30)
            await cluster.restart_broker(1)
            await sent_and_read(producer, consumer)

    single = {"share.coordinator.state.topic.replication.factor": "1"}
    play(scenario, brokers=1, settings=SETTINGS | single)
