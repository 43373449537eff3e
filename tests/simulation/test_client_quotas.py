"""Quotas throttle the clients of simulated brokers, and follow ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.ports import SetOp
from minikafka.network.channel import Channel, ChannelConfig
from minikafka.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotas,
    QuotaAlteration,
    QuotaEntity,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.records.batch import parse_batches
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.storage.logs import batch

TOPIC = "t"
PARTITION = TopicPartition(TOPIC, 0)
TIMEOUT_MS = 600_000
ZOOKEEPER = "zookeeper:2181"
THROTTLED = 89


class Client:
    """A connection of a client id. It does not wait for throttle times by itself."""

    def __init__(self, cluster: SimCluster, channel: Channel) -> None:
        self._clock = cluster.client_host.world.clock
        self.channel = channel

    @classmethod
    async def of(cls, cluster: SimCluster, broker_id: int, client_id: str) -> Client:
        world = cluster.client_host.world
        channel = await Channel.open(
            world.network,
            world.clock,
            host_name(broker_id),
            PORT,
            client_id,
            ChannelConfig(max_in_flight=50),
        )
        return cls(cluster, channel)

    async def request(self, message: Any, version: int) -> Any:
        return await self.channel.request(message, version, TIMEOUT_MS)

    async def timed(self, message: Any, version: int) -> tuple[Any, int]:
        """The response, and how many ms it took."""
        before = self._clock.monotonic_ms()
        response = await self.request(message, version)
        return response, self._clock.monotonic_ms() - before


def produce(size: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(0, batch(bytes(size)))
    return ProduceRequest(None, acks, 10_000, [TopicProduceData(TOPIC, partition_data=[data])])


def fetch(offset: int, max_bytes: int, **fields: Any) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(topics=[FetchTopic(TOPIC, partitions=[partition])], **fields)


def create(name: str, partitions: int, replicas: int = 1, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, replicas)], 10_000, **fields)


async def up(cluster: SimCluster) -> None:
    cluster.start()
    await cluster.until("up", lambda: len(cluster.nodes()) == len(cluster.broker_ids))
    await cluster.until("a controller", lambda: cluster.controller_id() is not None)


async def with_topic(cluster: SimCluster, replicas: int = 1) -> int:
    """Start the cluster and make the topic; return its leader."""
    await up(cluster)
    controller = cluster.controller_id()
    assert controller is not None
    client = await Client.of(cluster, controller, "setup")
    response = await client.request(create(TOPIC, 1, replicas), 5)
    assert [topic.error_code for topic in response.topics] == [0]
    return cluster.leader(PARTITION)


async def limit(cluster: SimCluster, key: str, value: float | None, **entity: str | None) -> None:
    """Set or remove a quota on a new connection, as ``limit_by`` does."""
    client = await Client.of(cluster, cluster.broker_ids[0], "setup")
    await limit_by(client, cluster, key, value, **entity)


async def limit_by(
    client: Client, cluster: SimCluster, key: str, value: float | None, **entity: str | None
) -> None:
    """Set or remove a quota, and wait until every broker has read the notification."""
    parts = [QuotaEntity(kind.replace("_", "-"), name) for kind, name in entity.items()]
    row = AlteredQuotas(parts, [QuotaAlteration(key, value or 0.0, value is None)])
    response = await client.request(AlterClientQuotasRequest([row]), 1)
    assert [entry.error_code for entry in response.entries] == [0]
    await cluster.client_host.world.clock.sleep(1_000)


@pytest.mark.mission("SEC-144")
def test_a_producer_above_its_rate_is_throttled_alone() -> None:
    async def scenario(cluster: SimCluster) -> None:
        leader = await with_topic(cluster)
        await limit(cluster, "producer_byte_rate", 100, client_id="slow")
        slow, again, fast = [
            await Client.of(cluster, leader, name) for name in ("slow", "slow", "fast")
        ]
        response, took_ms = await slow.timed(produce(3_000), 9)
        assert response.responses[0].partition_responses[0].error_code == 0
        size = len(batch(bytes(3_000)))
        throttle_ms = response.throttle_time_ms
        assert throttle_ms == pytest.approx((size / 10 - 100) / 100 * 10_000, rel=0.05)
        assert took_ms < 100
        # Its next request waits, on this connection; others are served.
        waiting = asyncio.ensure_future(slow.timed(MetadataRequest([]), 9))
        other, took_ms = await fast.timed(produce(3_000), 9)
        assert (other.throttle_time_ms, took_ms < 100) == (0, True)
        _, took_ms = await again.timed(MetadataRequest([]), 9)
        assert took_ms < 100
        _, took_ms = await waiting
        assert took_ms == pytest.approx(throttle_ms, abs=300)

    SimCluster(1, (1, 2)).run(scenario)


@pytest.mark.mission("SEC-146")
def test_requests_in_flight_and_without_acks_wait_for_the_throttle_time() -> None:
    """Without a limit they are served together. The bytes that a broker takes in are bounded by the
    limit, however many requests a client sends at once."""

    async def scenario(cluster: SimCluster) -> None:
        leader = await with_topic(cluster, replicas=2)
        await limit(cluster, "producer_byte_rate", 1_000, client_id="slow")
        clock = cluster.client_host.world.clock
        for acks in (0, 1, -1):
            log = cluster.replicas(PARTITION)[leader].log
            before, start_ms = log.log_end_offset, clock.monotonic_ms()
            slow = await Client.of(cluster, leader, "slow")
            sent = []
            for _ in range(20):
                if acks:
                    request = slow.channel.request(produce(2_000, acks), 9, TIMEOUT_MS)
                    sent.append(asyncio.ensure_future(request))
                else:
                    await slow.channel.send(produce(2_000, acks), 9, TIMEOUT_MS)
            await clock.sleep(100)
            # 11 seconds' worth are free, and one request may exceed them.
            assert 5 <= log.log_end_offset - before <= 6
            await cluster.until("all", lambda: log.log_end_offset == before + 20)  # noqa: B023
            assert clock.monotonic_ms() - start_ms > 15_000
            await clock.sleep(60_000)
            slow.channel.close()

    SimCluster(2, (1, 2)).run(scenario)


@pytest.mark.mission("SEC-145")
@pytest.mark.parametrize("with_session", [False, True])
def test_a_consumer_above_its_rate_gets_empty_responses_and_then_all_records(
    with_session: bool,
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        leader = await with_topic(cluster)
        fast = await Client.of(cluster, leader, "fast")
        for _ in range(40):
            await fast.request(produce(1_000), 9)
        await limit(cluster, "consumer_byte_rate", 1_000, user=None)
        # Never more than the whole window may have.
        other = await Client.of(cluster, leader, "other")
        response = await other.request(fetch(0, 1 << 20), 12)
        assert 9_000 < len(response.responses[0].partitions[0].records) <= 10_000
        await limit(cluster, "consumer_byte_rate", 1_000, user=None, client_id=None)
        slow = await Client.of(cluster, leader, "slow")
        clock = cluster.client_host.world.clock
        start_ms = clock.monotonic_ms()
        offset = throttled = size = session_id = session_epoch = 0
        while offset < 40:
            session = {"session_id": session_id, "session_epoch": session_epoch}
            request = fetch(offset, 2_000, **session if with_session else {})
            response = await slow.request(request, 12)
            assert response.error_code == 0
            if response.throttle_time_ms:
                assert response.responses == []
                throttled += 1
            else:
                data = response.responses[0].partitions[0]
                assert data.error_code == 0
                size += len(data.records)
                offset = parse_batches(bytes(data.records))[-1].last_offset + 1
            if with_session and response.session_id:
                session_id, session_epoch = response.session_id, session_epoch + 1
        assert throttled > 0
        assert bool(session_id) is with_session
        # At most its rate, besides the 11 seconds' worth of the start, and at least half of it.
        seconds = (clock.monotonic_ms() - start_ms) / 1000
        assert size / 1_000 - 11 <= seconds <= 2 * size / 1_000

    SimCluster(3, (1,), {"log.retention.ms": "-1"}).run(scenario)


@pytest.mark.mission("SEC-145")
def test_followers_are_not_throttled_by_quotas_of_clients() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        await limit(cluster, "consumer_byte_rate", 1, user=None, client_id=None)
        await limit(cluster, "request_percentage", 0.01, user=None, client_id=None)
        controller = cluster.controller_id()
        assert controller is not None
        client = await Client.of(cluster, controller, "c")
        request = CreateTopicsRequest([CreatableTopic(TOPIC, 1, 2)], 10_000)
        assert (await client.request(request, 5)).topics[0].error_code == 0
        producer = await Client.of(cluster, cluster.leader(PARTITION), "c")
        _, took_ms = await producer.timed(produce(50_000, acks=-1), 9)
        assert took_ms < 1_000
        await cluster.until_whole(PARTITION)

    SimCluster(4, (1, 2)).run(scenario)


def codes(rows: Sequence[Any]) -> list[int]:
    return [row.error_code for row in rows]


@pytest.mark.mission("SEC-147")
def test_mutations_above_the_rate_are_refused_or_throttled_by_version() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        await limit(cluster, "controller_mutation_rate", 1, client_id="slow")
        fresh = (await Client.of(cluster, 1, "slow") for _ in range(99))

        async def sent(message: Any, version: int) -> Any:
            client = await anext(fresh)  # the one before may be muted
            return await client.request(message, version)

        valid = await sent(create("v", 90, validate_only=True), 6)
        assert (codes(valid.topics), valid.throttle_time_ms) == ([0], 0)
        first = await sent(create("a", 20), 6)  # more than the 11 tokens
        assert (codes(first.topics), first.throttle_time_ms) == ([0], 0)
        two = [CreatableTopic("b", 1, 1), CreatableTopic("a", 1, 1)]
        refused = await sent(CreateTopicsRequest(two, 10_000), 6)
        assert codes(refused.topics) == [THROTTLED, 36]
        assert refused.topics[0].error_message == "The throttling quota has been exceeded."
        assert 7_000 < refused.throttle_time_ms <= 9_000
        grown = CreatePartitionsRequest([CreatePartitionsTopic("a", 22, None)], 10_000)
        refused = await sent(grown, 3)
        assert codes(refused.results) == [THROTTLED]
        assert refused.throttle_time_ms > 0
        refused = await sent(DeleteTopicsRequest(topic_names=["a"], timeout_ms=10_000), 5)
        assert codes(refused.responses) == [THROTTLED]
        allowed = await sent(create("old", 2), 5)
        assert codes(allowed.topics) == [0]
        assert allowed.throttle_time_ms > 0
        auto = await sent(MetadataRequest([MetadataRequestTopic(name="auto")]), 9)
        assert auto.throttle_time_ms == 0
        other = await Client.of(cluster, 1, "fast")
        assert codes((await other.request(create("c", 5), 7)).topics) == [0]
        await cluster.client_host.world.clock.sleep(13_000)
        later = await sent(DeleteTopicsRequest(topic_names=["old"], timeout_ms=10_000), 5)
        assert codes(later.responses) == [0]

    SimCluster(5, (1,), {"auto.create.topics.enable": "true"}).run(scenario)


LEVELS: tuple[dict[str, str | None], ...] = (
    {"user": "ANONYMOUS", "client_id": "c/ä"},
    {"user": "ANONYMOUS", "client_id": None},
    {"user": "ANONYMOUS"},
    {"user": None, "client_id": "c/ä"},
    {"user": None, "client_id": None},
    {"user": None},
    {"client_id": "c/ä"},
    {"client_id": None},
)


@pytest.mark.mission("SEC-143")
def test_every_broker_follows_the_eight_levels_before_and_after_a_restart() -> None:
    """Level n has a rate of n + 1; a large request shows it by its throttle time."""

    async def scenario(cluster: SimCluster) -> None:
        leader = await with_topic(cluster)
        clock = cluster.client_host.world.clock
        for number, level in enumerate(LEVELS):
            await limit(cluster, "producer_byte_rate", number + 1, **level)

        async def rate() -> float:
            """The rate that counts now: the size by the throttle time and the window."""
            client = await Client.of(cluster, leader, "c/ä")
            response = await client.request(produce(1_000), 9)
            client.channel.close()
            await clock.sleep(15_000)  # until the bytes no longer count
            found: float = response.throttle_time_ms
            return found

        before = 10**9
        for number, level in enumerate(LEVELS):
            throttle_ms = await rate()
            size = len(batch(bytes(1_000))) + 40
            assert throttle_ms / 1_000 == pytest.approx(size / (number + 1) - 10, rel=0.1)
            assert 0 < throttle_ms < before
            before = int(throttle_ms)
            await limit(cluster, "producer_byte_rate", None, **level)
            if number == 3:
                await cluster.stop(leader)
                await cluster.bring_up(leader)
                await cluster.until("leads", lambda: cluster.leader(PARTITION) == leader)
        assert await rate() == 0

    SimCluster(6, (1, 2)).run(scenario)


@pytest.mark.mission("SEC-148")
def test_the_rate_of_an_address_follows_zookeeper() -> None:
    async def scenario(cluster: SimCluster) -> None:
        await up(cluster)
        probe = await Client.of(cluster, 1, "c")
        address = cluster.client_host.name  # a host of the simulator has no other
        await limit_by(probe, cluster, "connection_creation_rate", 1, ip=address)

        async def opened(count: int) -> int:
            """How many of so many new connections are served."""
            found = [await Client.of(cluster, 1, "c") for _ in range(count)]
            asked = [client.request(MetadataRequest([]), 9) for client in found]
            results = await asyncio.gather(*asked, return_exceptions=True)
            for client in found:
                client.channel.close()
            return sum(not isinstance(result, BaseException) for result in results)

        assert await opened(30) < 30
        await limit_by(probe, cluster, "connection_creation_rate", None, ip=address)
        assert await opened(30) == 30
        probe.channel.close()

    SimCluster(7, (1,)).run(scenario)


@pytest.mark.mission("SEC-143")
def test_malformed_znodes_leave_other_quotas_in_effect() -> None:
    async def scenario(cluster: SimCluster) -> None:
        leader = await with_topic(cluster)
        await limit(cluster, "producer_byte_rate", 100, client_id="slow")
        await limit(cluster, "producer_byte_rate", 100, client_id="broken")
        await limit(cluster, "producer_byte_rate", 100, client_id="text")
        session = await cluster.client_host.world.coordination.open(ZOOKEEPER, 10_000, 10_000)
        text = b'{"version":1,"config":{"producer_byte_rate":"x"}}'
        for name, data in (("broken", b"not JSON"), ("text", text)):
            await session.multi([SetOp(f"/config/clients/{name}", data)])
        await session.close()
        await cluster.stop(leader)
        await cluster.bring_up(leader)
        await cluster.until("leads", lambda: cluster.leader(PARTITION) == leader)
        throttled = []
        for name in ("slow", "broken", "text"):
            client = await Client.of(cluster, leader, name)
            response = await client.request(produce(5_000), 9)
            throttled.append(response.throttle_time_ms > 0)
        assert throttled == [True, False, False]

    SimCluster(8, (1,)).run(scenario)
