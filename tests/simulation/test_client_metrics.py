"""Client metrics in a simulated cluster: resources reach every broker, and values of pushes are
shown until the client is silent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from minikafka.client import Admin
from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import PUSHED
from minikafka.network.channel import Channel
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest
from minikafka.protocol.records.compression import Compression, compress
from minikafka.server.broker.client_telemetry import MAX_DECOMPRESSED_BYTES
from minikafka.testing.simulator.cluster import PORT, SimCluster, host_name
from tests.support.otlp import MetricsData

METRICS = ResourceType.CLIENT_METRICS
INTERVAL_MS = 1_000
NAME = "org.apache.kafka.consumer.poll.total"
SHOWN = "org_apache_kafka_consumer_poll_total"


def pushed(value: int) -> bytes:
    point = {"as_int": value}
    metric = {"name": NAME, "sum": {"data_points": [point], "aggregation_temporality": 1}}
    push = {"scope_metrics": [{"metrics": [metric]}]}
    data: bytes = MetricsData(resource_metrics=[push]).SerializeToString()
    return data


def values(cluster: SimCluster, broker: int) -> Mapping[str, float]:
    """Return what a broker shows of its clients."""
    samples = cluster.nodes()[broker].metrics.samples(PUSHED)
    return {each.name: each.value for each in samples}


class Client:
    """A client of broker 1 with an id."""

    def __init__(self, cluster: SimCluster, channel: Channel, number: int) -> None:
        self._cluster = cluster
        self._channel = channel
        self._id = UUID(int=number)

    @classmethod
    async def open(cls, cluster: SimCluster, number: int, broker: int = 1) -> Client:
        world = cluster.client_host.world
        where = (host_name(broker), PORT)
        channel = await Channel.open(world.network, world.clock, *where, "watched")
        return cls(cluster, channel, number)

    async def subscription(self) -> Any:
        return await self._channel.request(GetTelemetrySubscriptionsRequest(self._id), 0, 10_000)

    async def push(self, data: bytes, codec: Compression = Compression.NONE) -> int:
        """Ask for the subscription, and push after its interval what is compressed already.
        Returns the error."""
        await self._cluster.client_host.world.clock.sleep(INTERVAL_MS)
        number = (await self.subscription()).subscription_id
        request = PushTelemetryRequest(self._id, number, False, codec, data)
        error: int = (await self._channel.request(request, 0, 10_000)).error_code
        return error

    def close(self) -> None:
        self._channel.close()


async def lists_telemetry(cluster: SimCluster, broker: int) -> bool:
    """Return whether ApiVersions lists both APIs; not one without the other."""
    world = cluster.client_host.world
    channel = await Channel.open(world.network, world.clock, host_name(broker), PORT, "any")
    listed = {
        row.api_key for row in (await channel.request(ApiVersionsRequest(), 0, 10_000)).api_keys
    }
    channel.close()
    found = listed & {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert len(found) in (0, 2)
    return bool(found)


async def started(cluster: SimCluster) -> Admin:
    cluster.start()
    await cluster.until("all up", lambda: len(cluster.nodes()) == 3)
    return Admin(cluster.client_host.world, cluster.client_config)


async def until_asked(cluster: SimCluster, broker: int, *metrics: str) -> None:
    """Wait until a broker asks new clients for these metrics."""
    number = 1 << 90
    while True:
        number += 1
        client = await Client.open(cluster, number, broker)
        found = (await client.subscription()).requested_metrics
        client.close()
        if tuple(found) == metrics:
            return
        await cluster.client_host.world.clock.sleep(10)


@pytest.mark.mission("TEL-7")
def test_a_resource_reaches_every_broker_and_ends_with_its_last_key() -> None:
    async def play(cluster: SimCluster) -> None:
        async with await started(cluster) as admin:
            assert not await lists_telemetry(cluster, 1)
            await cluster.stop(3)
            changes = [ConfigAlteration("metrics", "b,a"), ConfigAlteration("interval.ms", "1000")]
            await admin.incremental_alter_configs(METRICS, "some /name", changes)
            await until_asked(cluster, 1, "a", "b")
            await until_asked(cluster, 2, "a", "b")
            cluster.start(3)
            await cluster.until("3 is up", lambda: 3 in cluster.nodes())
            await until_asked(cluster, 3, "a", "b")
            for broker in (1, 2, 3):
                assert await lists_telemetry(cluster, broker)
            (resource,) = await admin.list_config_resources([METRICS])
            assert resource.name == "some /name"
            for key in ("metrics", "interval.ms"):
                gone = ConfigAlteration(key, None, AlterOperation.DELETE)
                await admin.incremental_alter_configs(METRICS, "some /name", [gone])
            assert await admin.list_config_resources([METRICS]) == []
            for broker in (1, 2, 3):
                await until_asked(cluster, broker)
                assert not await lists_telemetry(cluster, broker)
            with pytest.raises(KafkaError) as refused:
                await admin.alter_configs(METRICS, "x", {"match": "a=b"})
            assert refused.value.code is ErrorCode.INVALID_CONFIG

    SimCluster(1).run(play)


@pytest.mark.mission("TEL-6")
def test_pushes_in_every_codec_are_shown_for_three_intervals() -> None:
    async def play(cluster: SimCluster) -> None:
        async with await started(cluster) as admin:
            settings = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
            await admin.alter_configs(METRICS, "all", settings)
            await until_asked(cluster, 1, "*")
            client = await Client.open(cluster, 7)
            for codec in Compression:
                data = compress(codec, pushed(2))
                assert await client.push(data, codec) == ErrorCode.NONE
            ((name, value),) = values(cluster, 1).items()
            assert name.startswith(f"{PUSHED}:type=Pushed,name={SHOWN},client_instance_id=AAAA")
            assert value == 2 * len(Compression)
            assert await client.push(b"\x0b") == ErrorCode.INVALID_RECORD
            assert await client.push(b"none", Compression.GZIP) == ErrorCode.INVALID_RECORD
            zeros = compress(Compression.ZSTD, bytes(MAX_DECOMPRESSED_BYTES + 1))
            assert await client.push(zeros, Compression.ZSTD) == ErrorCode.TELEMETRY_TOO_LARGE
            client.close()
            await cluster.client_host.world.clock.sleep(50_000)
            assert values(cluster, 1)
            await cluster.client_host.world.clock.sleep(15_000)  # at least a minute, as in Kafka
            assert not values(cluster, 1)

    SimCluster(2).run(play)
