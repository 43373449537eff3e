"""A cluster inside the process that is as good as new after a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from minikafka.testing.inside.cluster import InsideCluster

TIMEOUT_S = 20
ACLS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
ANYTHING: Any = None
EVERY_ACL = AclBindingFilter(
    ResourceType.ANY,
    ANYTHING,
    ResourcePatternType.ANY,
    ANYTHING,
    ANYTHING,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture(scope="module")
def three() -> Iterator[InsideCluster]:
    with InsideCluster(3, ACLS) as cluster:
        yield cluster


def produce(cluster: InsideCluster, topic: str, **settings: str) -> list[int | None]:
    """Produce a record, and return its offset."""
    offsets: list[int | None] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
    producer.produce(topic, b"value", on_delivery=delivered)
    if "transactional.id" in settings:
        producer.commit_transaction(TIMEOUT_S)
    assert producer.flush(TIMEOUT_S) == 0
    return offsets


def member(cluster: InsideCluster, group: str, topic: str) -> Consumer:
    """Return a member of a group, which has read a record and committed."""
    settings = {"group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    consumer.subscribe([topic])
    assert len(consumer.consume(1, TIMEOUT_S)) == 1
    consumer.commit(asynchronous=False)
    return consumer


def admin(cluster: InsideCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def broker_processes(cluster: InsideCluster) -> list[int]:
    """Return what differs after a broker has started again: the epoch of its registration."""

    async def read() -> list[int]:
        client = cluster.client()
        session = await client[0].coordination.open("inside", 6000, 6000)
        stats = [await session.exists(f"/brokers/ids/{number}") for number in (1, 2, 3)]
        cluster_id, _ = await session.get("/cluster/id")
        await session.close()
        return [hash(cluster_id), *(0 if stat is None else stat.czxid for stat in stats)]

    return cluster.call(read())


def seen(cluster: InsideCluster) -> object:
    """Return all that clients and the disks show of a cluster, but for its internal topics."""
    client = admin(cluster)
    metadata = client.list_topics(timeout=TIMEOUT_S)
    groups = client.list_consumer_groups().result(TIMEOUT_S).valid
    brokers = [ConfigResource(ResourceType.BROKER, str(number)) for number in metadata.brokers]
    dynamic = {
        (resource.name, entry.name)
        for resource in brokers
        for entry in client.describe_configs([resource])[resource].result(TIMEOUT_S).values()
        if entry.source in (1, 2, 3)
    }
    acls = client.describe_acls(EVERY_ACL).result(TIMEOUT_S)
    return (
        sorted(metadata.brokers),
        sorted(topic for topic in metadata.topics if not topic.startswith("__")),
        [group.group_id for group in groups],
        dynamic,
        acls,
    )


@pytest.mark.mission("IN-63")
def test_topics_and_groups_of_a_test_are_gone(three: InsideCluster) -> None:
    before = seen(three)
    for _ in range(3):
        three.create_topic("t", 2)
        three.create_topic("other", settings={"cleanup.policy": "compact"})
        produce(three, "t")
        left = member(three, "left", "t")
        left.close()
        nodes = broker_processes(three)
        three.reset()
        assert broker_processes(three) == nodes, "no broker has started again"
        assert seen(three) == before
        assert three.events("topic_created") == []


@pytest.mark.mission("IN-63")
def test_a_group_with_members_is_gone(three: InsideCluster) -> None:
    three.create_topic("t")
    produce(three, "t")
    idle = member(three, "busy", "t")
    three.reset()
    three.create_topic("t")
    (found,) = idle.committed([TopicPartition("t", 0)], TIMEOUT_S)
    idle.close()
    assert found.offset == -1001  # none
    three.reset()


def alter_broker(cluster: InsideCluster) -> None:
    entry = ConfigEntry("log.retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    client = admin(cluster)
    client.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def create_acl(cluster: InsideCluster) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    client = admin(cluster)
    client.create_acls([binding])[binding].result(TIMEOUT_S)


def move_coordinator(cluster: InsideCluster) -> None:
    for broker in (1, 2, 3):
        cluster.move_coordinator("g", broker)


def start_again(cluster: InsideCluster) -> None:
    cluster.kill_broker(3)
    cluster.start_broker(3)


CHANGES: dict[str, Callable[[InsideCluster], object]] = {
    "broker setting": alter_broker,
    "ACL": create_acl,
    "coordinator": move_coordinator,
    "new broker": InsideCluster.add_broker,
    "dead broker": lambda cluster: cluster.kill_broker(1),
    "stopped broker": lambda cluster: cluster.stop_broker(2),
    "started broker": start_again,
    "session": lambda cluster: cluster.expire_session(1),
    "transaction": lambda cluster: produce(cluster, "t", **{"transactional.id": "id"}),
}


@pytest.mark.mission("IN-64")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_other_change_is_undone(
    three: InsideCluster, change: Callable[[InsideCluster], object]
) -> None:
    before, bootstrap = seen(three), three.bootstrap
    three.create_topic("t")
    change(three)
    three.reset()
    assert three.bootstrap == bootstrap
    assert seen(three) == before
    three.create_topic("t")
    assert produce(three, "t") == [0]
    three.reset()


def test_reset_of_an_unused_cluster(three: InsideCluster) -> None:
    three.reset()
    three.reset()
