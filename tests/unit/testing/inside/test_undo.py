"""What a test sets inside the process is taken back at its end, without a start of brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from minikafka.core.client.admin.configs import ConfigAlteration
from minikafka.core.config_resources import ResourceType as ConfigKind
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.testing.inside_place import InsidePlace
from minikafka.testing.view import TestView
from tests.unit.testing.inside.test_reset import (
    ACLS,
    TIMEOUT_S,
    admin,
    broker_processes,
    create_acl,
    member,
    produce,
    seen,
)


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3, ACLS) as cluster:
        yield cluster


def alter(cluster: InsideCluster, kind: ConfigKind, name: str, key: str, value: str) -> None:
    async def work() -> None:
        async with cluster.admin() as client:
            change = ConfigAlteration(key, value)
            await client.incremental_alter_configs(kind, name, [change])

    cluster.call(work())


def settings_of_topic(cluster: InsideCluster, topic: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = admin(cluster)
    entries = client.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {name: entry.value for name, entry in entries.items()}


def users(cluster: InsideCluster) -> list[str]:
    client = admin(cluster)
    described = client.describe_user_scram_credentials()
    assert not isinstance(described, dict)
    return sorted(described.result(TIMEOUT_S))


def set_quota(cluster: InsideCluster, rate: float) -> None:
    async def work() -> None:
        async with cluster.admin() as client:
            await client.alter_client_quotas({"client-id": "shop"}, [("producer_byte_rate", rate)])

    cluster.call(work())


def throttled_ms(cluster: InsideCluster, topic: str) -> list[int]:
    """Return the throttle times that a producer gets from all brokers."""
    events: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": "shop", "throttle_cb": events.append}
    )
    for partition in range(3):
        producer.produce(topic, b"x" * 2000, partition=partition)
        producer.flush(TIMEOUT_S)
    producer.poll(0)
    return [round(event.throttle_time * 1000) for event in events if event.throttle_time]


@pytest.mark.mission("IN-73")
def test_settings_quotas_users_and_acls_are_taken_back(three: InsideCluster) -> None:
    three.create_topic("earlier", 3, settings={"retention.ms": "60000"})
    alter(three, ConfigKind.BROKER, "2", "log.retention.bytes", "777")
    set_quota(three, 1e9)
    before, nodes = seen(three), broker_processes(three)
    view = TestView(InsidePlace(three), "t")
    view.begin()

    made = view.topic()
    alter(three, ConfigKind.BROKER, "1", "log.retention.ms", "5000")
    alter(three, ConfigKind.BROKER, "2", "log.retention.bytes", "888")
    alter(three, ConfigKind.BROKER, "", "log.cleaner.threads", "2")
    alter(three, ConfigKind.TOPIC, "earlier", "retention.ms", "1000")
    alter(three, ConfigKind.TOPIC, "earlier", "cleanup.policy", "compact")
    alter(three, ConfigKind.TOPIC, made, "retention.ms", "1000")
    create_acl(three)
    alice = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret"
    )
    client = admin(three)
    client.alter_user_scram_credentials([alice])["alice"].result(TIMEOUT_S)
    set_quota(three, 10)
    assert throttled_ms(three, "earlier") != []
    assert users(three) == ["alice"]
    assert seen(three) != before

    view.reset()
    assert seen(three) == before
    assert users(three) == []
    found = settings_of_topic(three, "earlier")
    assert (found["retention.ms"], found["cleanup.policy"]) == ("60000", "delete")
    assert throttled_ms(three, "earlier") == []
    assert broker_processes(three) == nodes, "no broker has started again"
    three.reset()


@pytest.mark.mission("IN-73")
def test_earlier_topics_and_busy_groups_stay(three: InsideCluster) -> None:
    three.create_topic("other")
    produce(three, "other")
    member(three, "earlier", "other").close()
    before = seen(three)
    view = TestView(InsidePlace(three), "t")
    view.begin()
    view.topic()
    busy = member(three, "busy", "other")
    member(three, "left", "other").close()
    view.reset()
    assert view.group("left").state == "Dead"
    assert view.group("busy").state == "Stable"
    busy.close()
    view.reset()
    assert seen(three) == before
    three.reset()
