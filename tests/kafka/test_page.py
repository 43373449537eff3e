"""The page over official Apache Kafka: everything that the protocol says, and no inside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from signal import SIGKILL
from typing import Any, TypeAlias

import confluent_kafka
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from minikafka import aio
from minikafka.client.config import ClientConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.network.channel import Channel
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from minikafka.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from minikafka.protocol.messages.streams_topology import Subtopology
from minikafka.world.real.network import RealNetwork
from minikafka.world.real.world import RealClock
from scripts.lib.apache_kafka import NEWEST
from tests.kafka.conftest import Mixed
from tests.support.cluster.cluster_state import until
from tests.support.cluster.group_conversation import GroupConversation
from tests.support.cluster.mixed_cluster import MixedCluster
from tests.support.page_server import PageServer, page_server

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.xdist_group("kafka"),
    pytest.mark.mission("GLASS-12"),
]
TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "billing", "payments"
OLDEST = "2.0.1"
COUNT = 10
TIMEOUT_S = 60.0
TWO = {
    "transaction.state.log.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ONE = {"transaction.state.log.replication.factor": 1, "offsets.topic.replication.factor": 1}

Entities: TypeAlias = dict[tuple[Any, str, str], Any]


def fill(cluster: MixedCluster) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(COUNT):
        producer.produce(TOPIC, f"order {number}", partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def member(cluster: MixedCluster) -> confluent_kafka.Consumer:
    """A member of the group that has read one record and committed it."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": GROUP,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    (record,) = consumer.consume(1, TIMEOUT_S)
    consumer.commit(message=record, asynchronous=False)
    return consumer


def state(page: PageServer) -> Entities:
    return {
        (message["broker"], row["kind"], row["name"]): row["facts"]
        for message in page.get("/api/snapshot").json
        if message["type"] == "state"
        for row in message["changed"]
    }


def shows(page: PageServer, condition: Callable[[Entities], object]) -> Entities:
    """Read the page until it shows something, and return everything that it shows then."""

    def shown() -> Entities | None:
        found = state(page)
        return found if condition(found) else None

    return until(shown, "the page shows it", TIMEOUT_S)


def shows_records(entities: Entities) -> bool:
    """Whether the end of the topic and the lag of the group are known: each has its own source."""
    topic = entities.get((None, "topic", TOPIC))
    group = entities.get((None, "consumer_group", GROUP))
    return (
        topic is not None
        and topic["partitions"][0]["high_watermark"] == COUNT
        and group is not None
        and group["lag"] is not None
    )


@pytest.fixture(scope="module")
def cluster(mixed: Mixed) -> Iterator[MixedCluster]:
    with mixed(NEWEST, NEWEST, properties=TWO) as running:
        running.create_topic(TOPIC, [1, 2], [2, 1])
        fill(running)
        yield running


@pytest.fixture(scope="module")
def page(cluster: MixedCluster) -> Iterator[PageServer]:
    with page_server(ClientConfig(bootstrap_servers=cluster.bootstrap)) as page:
        yield page


def test_topics_groups_and_transactions_are_shown(page: PageServer, cluster: MixedCluster) -> None:
    consumer = member(cluster)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": TRANSACTIONAL_ID,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"payment", partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    try:
        txn = (None, "txn", TRANSACTIONAL_ID)
        found = shows(
            page, lambda e: txn in e and e[txn]["state"] == "Ongoing" and shows_records(e)
        )
        assert found[txn]["partitions"] == [f"{TOPIC}-1"]
        topic = found[None, "topic", TOPIC]
        assert [row["replicas"] for row in topic["partitions"]] == [[1, 2], [2, 1]]
        assert [sorted(row["isr"]) for row in topic["partitions"]] == [[1, 2], [1, 2]]
        assert topic["partitions"][1]["last_stable_offset"] == 0  # of the open transaction
        group = found[None, "consumer_group", GROUP]
        assert (group["state"], group["lag"]) == ("Stable", COUNT - 1)
        (one,) = group["members"]
        assert (one["client_id"], one["assignment"]) == ("reader", {TOPIC: [0, 1]})
        assert found[None, "cluster", ""]["errors"] == []
        assert page.get(f"/api/groups/{GROUP}").json["lag"] == COUNT - 1
        metrics = page.get("/metrics").body.decode()
        labels = f'consumergroup="{GROUP}",topic="{TOPIC}",partition="0"'
        assert f"kafka_consumergroup_lag{{{labels}}} {COUNT - 1}\n" in metrics
    finally:
        producer.abort_transaction(TIMEOUT_S)
        consumer.close()
    shows(page, lambda e: e[txn]["state"] == "CompleteAbort")


def test_the_page_says_that_there_is_no_inside(page: PageServer) -> None:
    hello = page.get("/api/snapshot").json[0]
    assert hello["minikafka"] is False
    found = shows(page, lambda e: all((n, "reachable", "") in e for n in (1, 2)))
    for broker in (1, 2):
        assert found[broker, "reachable", ""]["debug"] is False
        assert "only by a minikafka" in found[broker, "reachable", ""]["reason"]
        assert found[None, "node", str(broker)]["version"] is None
        assert [kind for source, kind, _ in found if source == broker] == ["reachable"]


RULES = (
    ("prefixed", "guard", "allow", "User:ANONYMOUS", "Describe,Alter"),
    ("literal", "*", "allow", "User:*", "Write,AlterConfigs"),
    ("literal", "guarded", "deny", "User:ANONYMOUS", "Write"),
    ("literal", "guarded", "allow", "User:other", "Read"),
)


def act(page: PageServer, act: str, **arguments: Any) -> None:
    reply = page.post(
        f"/api/do/{act}",
        {"arguments": arguments},
        Content_Type="application/json",
        X_Minikafka_Token=page.token,
    )
    assert (reply.status, reply.json["status"]) == (200, 0), reply.json


@pytest.mark.mission("GLASS-131", "GLASS-132")
def test_the_page_decides_by_acls_as_kafka_does(page: PageServer, cluster: MixedCluster) -> None:
    """Kafka's own decision for each operation is in its authorized operations (KIP-430)."""
    cluster.create_topic("guarded", [1], [2])
    rules = [
        {
            "resource": "topic",
            "pattern": pattern,
            "name": name,
            "permission": permission,
            "principal": principal,
            "operation": operations,
        }
        for pattern, name, permission, principal, operations in RULES
    ]
    for rule in rules:
        act(page, "acls-add", **rule)
    try:
        listed = page.get("/api/acls?fresh=1").json
        assert listed["total"] == sum(len(rule["operation"].split(",")) for rule in rules)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        names = TopicCollection(["guarded"])
        futures = admin.describe_topics(names, include_authorized_operations=True)
        described = futures["guarded"].result(TIMEOUT_S)
        theirs = {each.name.replace("_", "").lower() for each in described.authorized_operations}
        query = "principal=User:ANONYMOUS&host=127.0.0.1&resource=topic&name=guarded"
        operations = page.get("/api/acls/operations").json["topic"]
        ours = {
            operation.lower()
            for operation in operations
            if page.get(f"/api/acls/why?{query}&operation={operation}").json["allowed"]
        }
        assert ours == theirs
        assert "describeconfigs" in ours  # implied
        assert "write" not in ours  # denied by the name, allowed by the wildcard
        free = page.get(
            f"/api/acls/why?{query}&operation=ClusterAction".replace("topic", "cluster")
        )
        assert (free.json["allowed"], free.json["rules"]) == (None, [])
        assert "allow.everyone.if.no.acl.found decides" in free.json["why"]
    finally:
        for rule in rules:
            act(page, "acls-remove", **rule)


@pytest.mark.mission("GLASS-131")
def test_quotas_and_users_are_shown(page: PageServer) -> None:
    act(page, "quotas-set", user="bob", client_defaults=True, producer_byte_rate=5e6)
    act(page, "users-create", user="bob", password="s3cret", mechanism="SCRAM-SHA-512")
    (row,) = page.get("/api/quotas?fresh=1").json["quotas"]
    assert (row["user"], row["client_id"], row["limit"]) == ("bob", "<default>", 5e6)
    (user,) = page.get("/api/users?fresh=1").json["users"]
    assert user == {"user": "bob", "mechanisms": {"SCRAM-SHA-512": 4096}}
    assert "has to log in" in page.get("/api/tokens").json["state"]


def test_a_dead_broker_is_shown_and_its_partitions_too(
    page: PageServer, cluster: MixedCluster
) -> None:
    with page.stream() as events:  # the sources run from now on
        next(events)
        cluster.end_broker(2, SIGKILL)
        node = (None, "node", "2")
        topic, whole = (None, "topic", TOPIC), (None, "cluster", "")
        shows(
            page,
            lambda e: (
                not e[node]["online"]
                and e[whole]["controller"]
                and e[whole]["under_replicated"] >= 2
                and [row["isr"] for row in e[topic]["partitions"]] == [[1], [1]]
            ),
        )
        cluster.restart_broker(2)
        shows(
            page,
            lambda e: e[node]["online"] and e[whole]["under_replicated"] == 0,
        )


def test_an_old_kafka_is_shown_without_the_apis_that_it_lacks(mixed: Mixed) -> None:
    """It has no APIs for transactions and reassignments, and groups without their states."""
    with mixed(OLDEST, properties=ONE) as cluster:
        cluster.create_topic(TOPIC, [1], [1])
        fill(cluster)
        consumer = member(cluster)
        config = ClientConfig(bootstrap_servers=cluster.bootstrap)
        with page_server(config) as page:
            key = (None, "consumer_group", GROUP)
            found = shows(page, shows_records)
            assert (found[key]["state"], found[key]["lag"]) == ("Stable", COUNT - 1)
            assert found[None, "cluster", ""]["errors"] == []
            assert page.get(f"/api/topics/{TOPIC}").json["configs"]
            assert "too old" in page.get("/api/quotas").json["state"]
            assert "no authorizer" in page.get("/api/acls").json["state"]
        consumer.close()


async def make_groups_of_kafka_4(address: str) -> None:
    """Make a share group and a streams group with a member each, on a topic."""
    host, _, port = address.rpartition(":")
    channel = await Channel.open(RealNetwork(), RealClock(), host, int(port), "reader")
    try:
        talk = GroupConversation(channel, "shown-sharers", {"shown": 1})
        await talk.begin()
        async with aio.Admin(address) as admin:
            starts = {TopicPartition("shown", 0): 0}
            outcomes = await admin.alter_share_group_offsets(talk.group, starts)
            assert set(outcomes.values()) == {None}
        await talk.request(ShareGroupHeartbeatRequest(talk.group, "m1", 0, None, ["shown"]), 1)
        beat = StreamsGroupHeartbeatRequest(
            *("shown-streams", "m1", 0),
            rebalance_timeout_ms=60_000,
            topology=Topology(3, [Subtopology("0", ["shown"])]),
            process_id="process",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        await talk.request(beat, 0)
    finally:
        channel.close()


@pytest.mark.mission("STR-11", "SHR-21")
def test_groups_of_kafka_4_are_shown(theirs: str) -> None:
    asyncio.run(make_groups_of_kafka_4(theirs))
    sharers, streams = ((None, "consumer_group", f"shown-{n}") for n in ("sharers", "streams"))
    with page_server(ClientConfig(bootstrap_servers=theirs)) as page:
        found = shows(
            page,
            lambda e: (
                sharers in e and streams in e and e[sharers]["members"] and e[streams]["members"]
            ),
        )
        facts = found[sharers]
        (row,) = facts["share_partitions"]
        assert (facts["type"], facts["state"], row["start_offset"]) == ("share", "Stable", 0)
        assert (row["lag"], row["leader"]) == (None, 1)  # unknown until a member has fetched
        assert [m["assignment"] for m in facts["members"]] == [{"shown": [0]}]
        facts = found[streams]
        assert (facts["type"], facts["topology_epoch"]) == ("streams", 3)
        assert facts["subtopologies"] == {"0": ["shown"]}
        assert [member["process_id"] for member in facts["members"]] == ["process"]
        assert found[None, "cluster", ""]["errors"] == []


@pytest.mark.mission("GLASS-131")
def test_a_user_of_kafka_4_has_every_mechanism(theirs: str) -> None:
    """KRaft refuses a request that has two credentials of one user."""
    with page_server(ClientConfig(bootstrap_servers=theirs)) as page:
        act(page, "users-create", user="of-kafka-4", password="s3cret")
        found = {one["user"]: one for one in page.get("/api/users?fresh=1").json["users"]}
        both = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
        assert found["of-kafka-4"]["mechanisms"] == both
        act(page, "users-delete", user="of-kafka-4")
        left = page.get("/api/users?fresh=1").json["users"]
        assert "of-kafka-4" not in {one["user"] for one in left}
