"""Official Kafka 4 and we offer the same APIs as of 4.2, and answer alike about client metrics,
resources with configurations, and pages of topics."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.config_resources import AlterOperation, ResourceType
from minikafka.kernel.client_metrics_settings import DEFAULT_INTERVAL_MS, INTERVAL_MS, METRICS
from minikafka.kernel.cluster import ZERO_UUID
from minikafka.network.channel import Channel
from minikafka.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
)
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock
from scripts.lib.apache_kafka import NoApacheKafka, class_path, java_with_compiler
from scripts.lib.kraft_broker import KAFKA_4, kraft_broker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

TIMEOUT_MS = 20_000
MAX_BYTES = 1_000
SETTINGS = {"telemetry.max.bytes": MAX_BYTES, "max.request.partition.size.limit": 8}
TOPICS = {"pa": 3, "pb": 6, "pc": 4, "pd": 1}
# Without a receiver, official brokers offer no telemetry.
RECEIVER = """
import java.util.*;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.server.telemetry.*;

public class Receiver implements MetricsReporter, ClientTelemetry {
    public void configure(Map<String, ?> configs) {}
    public void init(List<KafkaMetric> metrics) {}
    public void metricChange(KafkaMetric metric) {}
    public void metricRemoval(KafkaMetric metric) {}
    public void close() {}
    public ClientTelemetryReceiver clientReceiver() { return (context, payload) -> {}; }
}
"""

# Of KRaft's own quorum and brokers.
OF_KRAFT = {55: "DescribeQuorum", 64: "UnregisterBroker", 80: "AddRaftVoter", 81: "RemoveRaftVoter"}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("kraft")
    try:
        classes = compiled(directory / "classes")
        settings = {**SETTINGS, "metric.reporters": "Receiver"}
        with kraft_broker(directory, settings, classes) as address:
            yield address
    except NoApacheKafka as missing:
        pytest.skip(str(missing))


def compiled(directory: Path) -> Path:
    """Compile the receiver. Raises NoApacheKafka."""
    directory.mkdir()
    source = directory / "Receiver.java"
    source.write_text(RECEIVER)
    compiler = (java_with_compiler(), "-m", "jdk.compiler/com.sun.tools.javac.Main")
    jars = os.pathsep.join(map(str, Path(class_path(KAFKA_4)).parent.glob("kafka-*.jar")))
    arguments = ("-cp", jars, "-d", str(directory), str(source))
    done = subprocess.run([*compiler, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with InsideCluster(1, SETTINGS) as cluster:
        cluster.as_version("4.2")
        yield cluster.bootstrap


class Conversation:
    """Requests to one broker, and their answers as texts. A broker of KRaft is told apart neither
    by topic ids nor by the words of its errors."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.answers: list[str] = []

    async def request(self, message: Any, version: int) -> Any:
        return await self._channel.request(message, version, TIMEOUT_MS)

    async def ask(self, label: str, message: Any, version: int = 0) -> None:
        answer = await self.request(message, version)
        _tidy(answer)
        self.answers.append(f"{label}: {answer}")

    async def alter(self, label: str, name: str, **changes: str | None) -> None:
        """Change keys of a client metrics resource; None deletes one."""
        rows = [
            IncrementalAlterableConfig(
                key.replace("_", "."),
                AlterOperation.SET if text is not None else AlterOperation.DELETE,
                text,
            )
            for key, text in changes.items()
        ]
        resource = IncrementalAlterConfigsResource(ResourceType.CLIENT_METRICS, name, rows)
        await self.ask(label, IncrementalAlterConfigsRequest([resource]), 1)

    async def describe(self, label: str, name: str) -> None:
        resource = DescribeConfigsResource(ResourceType.CLIENT_METRICS, name, None)
        await self.ask(label, DescribeConfigsRequest([resource], include_synonyms=True), 4)

    async def subscription(self, client: UUID) -> Any:
        return await self.request(GetTelemetrySubscriptionsRequest(client), 0)

    async def until_pushed(self, *metrics: str, interval_ms: int | None = None) -> None:
        """Wait until new clients shall push these metrics, at this interval if it is given."""
        for number in range(500):
            client = UUID(int=(1 << 100) + len(self.answers) * 500 + number)
            response = await self.subscription(client)
            is_interval = interval_ms in (None, response.push_interval_ms)
            if sorted(response.requested_metrics) == sorted(metrics) and is_interval:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"no client shall push {metrics}: {response}")


def _tidy(value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            _tidy(each)
    elif is_dataclass(value):
        for each in fields(value):
            found = getattr(value, each.name)
            if each.name in ("error_message", "topic_id", "documentation"):
                setattr(value, each.name, None)
            elif each.name in ("configs", "config_resources"):
                setattr(value, each.name, sorted(found, key=str))
            _tidy(getattr(value, each.name))


async def resources(talk: Conversation) -> None:
    """Client metrics resources, valid and invalid."""
    await talk.describe("describes nothing", "none")
    await talk.describe("describes no name", "")
    await talk.alter("no name", "", metrics="*")
    await talk.alter("an unknown key", "some", metric="*")
    await talk.alter("too short", "some", interval_ms="99")
    await talk.alter("too long", "some", interval_ms="3600001")
    await talk.alter("no number", "some", interval_ms="often")
    await talk.alter("an empty match", "some", match="")
    await talk.alter("deletes it", "some", match=None)
    for match in ("client_id", "client_id=", "client=a", "client_id=a=b", "client_id=("):
        await talk.alter(match, "some", match=match)
    await talk.ask("lists none", ListConfigResourcesRequest([ResourceType.CLIENT_METRICS]), 1)
    await talk.alter("a resource", "some /name", metrics="a.,b.", match="client_id=x.*")
    await talk.until_pushed()
    await talk.describe("describes it", "some /name")
    await talk.alter("another", "all", metrics="*", interval_ms="100")
    await talk.until_pushed("*")
    await talk.ask("lists two", ListConfigResourcesRequest(), 0)
    await talk.ask("lists both kinds", ListConfigResourcesRequest([16, 4, 8]), 1)
    await talk.ask("lists an unknown kind", ListConfigResourcesRequest([3]), 1)
    replaced = AlterConfigsResource(16, "some /name", [AlterableConfig(INTERVAL_MS, "2000")])
    await talk.ask("replaces", AlterConfigsRequest([replaced]), 2)
    await talk.alter("deletes a missing key", "some /name", match=None)
    await talk.alter("deletes", "all", **dict.fromkeys((METRICS, "interval_ms")))
    await talk.until_pushed()
    await talk.describe("describes what is left", "some /name")
    await talk.alter("deletes the rest", "some /name", interval_ms=None)
    await talk.alter("deletes it again", "some /name", interval_ms=None)
    await talk.until_pushed(interval_ms=DEFAULT_INTERVAL_MS)


async def pushes(talk: Conversation) -> None:
    """Requests of a client, in and out of turn."""
    client = UUID("12345678-9abc-4def-8123-456789abcdef")
    await talk.ask("nothing to push", GetTelemetrySubscriptionsRequest(UUID(int=7)))
    await talk.ask("too early", GetTelemetrySubscriptionsRequest(UUID(int=7)))
    await talk.alter("a subscription", "mine", metrics="org.apache.kafka.", interval_ms="60000")
    await talk.until_pushed("org.apache.kafka.")
    await talk.ask("changed since", GetTelemetrySubscriptionsRequest(UUID(int=7)))
    await talk.ask("my subscription", GetTelemetrySubscriptionsRequest(client))
    mine = (await talk.subscription(UUID(int=9))).subscription_id
    push = PushTelemetryRequest(UUID(int=9), mine)
    await talk.ask("no id", replace(push, client_instance_id=ZERO_UUID))
    await talk.ask("a reserved id", replace(push, client_instance_id=UUID(int=1)))
    await talk.ask("a push", push)
    await talk.ask("a push too early", push)
    await talk.ask("the last one", replace(push, terminating=True))
    await talk.ask("behind the last one", push)
    for label, wrong in (
        ("another subscription", {"subscription_id": 1}),
        ("an unknown codec", {"compression_type": 9}),
        ("too large", {"metrics": bytes(MAX_BYTES + 1)}),
    ):
        other = UUID(int=100 + len(talk.answers))
        number = (await talk.subscription(other)).subscription_id
        right = replace(push, client_instance_id=other, subscription_id=number)
        await talk.ask(label, replace(right, **wrong))
        await talk.ask(f"{label}, asks", GetTelemetrySubscriptionsRequest(other))
        await talk.ask(f"{label}, asks again", GetTelemetrySubscriptionsRequest(other))
    new = await talk.request(GetTelemetrySubscriptionsRequest(), 0)
    talk.answers.append(f"a new id: {new.client_instance_id.version}")
    await talk.alter("for no client", "mine", match="client_software_name=other")
    await talk.until_pushed()


async def pages(talk: Conversation) -> None:
    """Topics, page by page."""
    topics = [CreatableTopic(name, count, 1) for name, count in TOPICS.items()]
    await talk.request(CreateTopicsRequest(topics, timeout_ms=TIMEOUT_MS), 5)
    every = [DescribedTopicName(name) for name in reversed(TOPICS)]
    for _ in range(500):
        found = await talk.request(DescribeTopicPartitionsRequest(every, 2000), 0)
        if not any(topic.error_code for topic in found.topics):
            break
        await asyncio.sleep(0.02)
    for limit in (1, 4, 2000, 0, -1):
        cursor: Cursor | None = None
        for page in range(20):
            request = DescribeTopicPartitionsRequest(every, limit, cursor)
            response = await talk.request(request, 0)
            cursor = response.next_cursor
            _tidy(response)
            talk.answers.append(f"page {page} of {limit}: {response}")
            if cursor is None:
                break
    some = [*every[1:3], DescribedTopicName("missing"), DescribedTopicName("pb")]
    for cursor in (
        Cursor("pb", 2),
        Cursor("pb", 6),
        Cursor("pb", 17),
        Cursor("pa1", 0),
        Cursor("pa1", 3),
        Cursor("zz", 0),
        Cursor("pb", -1),
    ):
        await talk.ask(f"from {cursor}", DescribeTopicPartitionsRequest(some, 3, cursor))
    await talk.ask("without names", DescribeTopicPartitionsRequest([], 5, Cursor("pb", 1)))


async def converse(address: str) -> list[str]:
    host, _, port = address.partition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "talk")
    try:
        talk = Conversation(channel)
        for scene in (resources, pushes, pages):
            await scene(talk)
        return talk.answers
    finally:
        channel.close()


@pytest.mark.mission("TEL-1")
def test_answers_are_those_of_kafka_4(theirs: str, ours: str) -> None:
    expected, answered = (asyncio.run(converse(each)) for each in (theirs, ours))
    assert answered == expected


async def versions(address: str) -> dict[int, tuple[int, int]]:
    host, _, port = address.partition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "talk")
    try:
        response = await channel.request(ApiVersionsRequest("test", "1"), 4, TIMEOUT_MS)
    finally:
        channel.close()
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


@pytest.mark.mission("IN-70")
def test_as_of_4_2_the_apis_of_kafka_4_are_offered(theirs: str, ours: str) -> None:
    expected, listed = (asyncio.run(versions(each)) for each in (theirs, ours))
    for key in OF_KRAFT:
        del expected[key]
    assert listed == expected
