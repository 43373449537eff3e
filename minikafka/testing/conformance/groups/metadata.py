"""Which brokers, topics, partitions and leaders there are."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.connection import Connection
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import Subject

METADATA = ApiKey.METADATA
OMITTED = -(1 << 31)
FIRST_WITHOUT_CREATION = 4


async def _row(s: Subject, name: str, versions: Any = FIRST_WITHOUT_CREATION, **fields: Any) -> Any:
    """Return the only topic of a response, without its creation."""
    fields = {"allow_auto_topic_creation": False, **fields}
    response = await s.ask(METADATA, versions, topics=[{"name": name}], **fields)
    expect("the number of topics", len(response.topics), 1)
    return response.topics[0]


@check("KIP-4, MetadataRequest")
async def null_asks_for_all_topics(s: Subject) -> None:
    """A consumer that subscribes to a pattern would not find its topics."""
    topic = await s.topic()
    response = await s.ask(METADATA, 1, topics=None)
    expect_true(topic.name in {each.name for each in response.topics}, "the new topic is missing")


@check("KIP-4, MetadataRequest")
async def an_empty_list_asks_for_no_topic(s: Subject) -> None:
    """A client that only wants to know the brokers would get all topics of the cluster."""
    expect("the list of topics", (await s.ask(METADATA, 1, topics=[])).topics, [])


@check("MetadataRequest version 0")
async def an_empty_list_asks_for_all_topics_in_version_0(s: Subject) -> None:
    """An old consumer would not find its topics."""
    topic = await s.topic()
    response = await s.ask(METADATA, (0, 0), topics=[])
    expect_true(topic.name in {each.name for each in response.topics}, "the new topic is missing")


@check("MetadataResponse")
async def the_brokers_can_be_reached(s: Subject) -> None:
    """A client would never connect to a leader."""
    response = await s.ask(METADATA, topics=[])
    expect_true(bool(response.brokers), "there are no brokers")
    for each in response.brokers:
        connection = await Connection.open(each.host, each.port)
        try:
            accepted(await connection.ask(ApiKey.API_VERSIONS, 0))
        finally:
            connection.close()


@check("MetadataResponse")
async def a_broker_id_stands_for_one_address(s: Subject) -> None:
    """A client would send requests to a broker that is not the leader."""
    ids = [each.node_id for each in (await s.ask(METADATA, topics=[])).brokers]
    expect("the number of different ids", len(set(ids)), len(ids))


@check("KIP-4, MetadataResponse")
async def the_controller_is_one_of_the_brokers(s: Subject) -> None:
    """An admin client could not find where to send its requests."""
    response = await s.ask(METADATA, 1, topics=[])
    ids = {each.node_id for each in response.brokers}
    expect_true(response.controller_id in ids, f"{response.controller_id} is no broker")


@check("KIP-78")
async def the_cluster_has_an_id(s: Subject) -> None:
    """A client could not notice that it talks to another cluster."""
    found = {(await s.ask(METADATA, 2, topics=[])).cluster_id for _ in range(2)}
    expect_true(len(found) == 1 and bool(found.pop()), "the cluster id is empty, or changes")


@check("KIP-204, MetadataRequest.allowAutoTopicCreation")
async def an_unknown_topic_is_an_error(s: Subject) -> None:
    """A client would take a topic that was deleted for an empty one."""
    row = await _row(s, s.name())
    expect_error(row.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    expect("its list of partitions", row.partitions, [])


@check("KIP-204, MetadataRequest.allowAutoTopicCreation")
async def a_topic_is_not_created_against_the_wish_of_the_client(s: Subject) -> None:
    """A consumer with a misspelled topic would create it."""
    name = s.will_delete(s.name())
    for _ in range(2):
        row = await _row(s, name)
    expect_error(row.error_code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@check("Topic.validate")
async def a_name_that_no_topic_can_have_is_an_error(s: Subject) -> None:
    """A client would ask again and again for a topic that can never exist."""
    s.version(METADATA, 9)  # Kafka 2.0 looks for the topic
    for name in ("a/b", "ü", "x" * 250):
        expect_error((await _row(s, name)).error_code, ErrorCode.INVALID_TOPIC_EXCEPTION)


@check("MetadataResponse")
async def all_partitions_are_listed_with_leader_and_replicas(s: Subject) -> None:
    """A producer would never write to some partitions."""
    topic = await s.topic(3)
    row = await _row(s, topic.name)
    expect("the partitions", sorted(p.partition_index for p in row.partitions), [0, 1, 2])
    for p in row.partitions:
        expect_true(p.leader_id in p.replica_nodes, "the leader is not a replica")
        expect_true(set(p.isr_nodes) <= set(p.replica_nodes), "the ISR is not of replicas")
        expect_true(p.leader_id in p.isr_nodes, "the leader is not in the ISR")


@check("KafkaApis, MetadataCache")
async def all_versions_list_the_same_partitions(s: Subject) -> None:
    """An older client would see another cluster."""
    topic = await s.topic(2)
    found = set()
    for version in s.all_versions(METADATA):
        (row,) = (await s.ask(METADATA, (version, version), topics=[{"name": topic.name}])).topics
        found.add(
            (row.name, tuple(sorted((p.partition_index, p.leader_id) for p in row.partitions)))
        )
    expect("the number of different responses", len(found), 1)


@check("KafkaApis.handleTopicMetadataRequest")
async def a_topic_that_is_named_twice_is_listed_once(s: Subject) -> None:
    """A client would count its partitions twice."""
    topic = await s.topic()
    response = await s.ask(METADATA, topics=[{"name": topic.name}] * 2)
    expect("the number of topics", len(response.topics), 1)


@check("KIP-320")
async def a_partition_has_a_leader_epoch(s: Subject) -> None:
    """A consumer could not notice that its log was cut off."""
    topic = await s.topic()
    epoch = (await _row(s, topic.name, 7)).partitions[0].leader_epoch
    expect_true(epoch >= 0, f"the leader epoch is {epoch}")


@check("KIP-516")
async def a_topic_has_an_id_that_stays(s: Subject) -> None:
    """A client would take a topic that was made again for the old one, or the old for a new one."""
    topic = await s.topic()
    found = {(await _row(s, topic.name, 10)).topic_id for _ in range(2)}
    expect_true(len(found) == 1 and found.pop().int != 0, "the topic id is zero, or changes")


@check("KIP-516")
async def two_topics_have_two_ids(s: Subject) -> None:
    """A consumer would read the records of another topic."""
    first, second = await s.topic(), await s.topic()
    s.version(METADATA, 10)
    expect_true(first.topic_id != second.topic_id, "both have the same id")


@check("KIP-516")
async def a_topic_can_be_asked_for_by_its_id(s: Subject) -> None:
    """A consumer of a new kind of group, which is told ids, could not find its topics."""
    s.version(METADATA, 12)
    topic = await s.topic()
    asked = [{"topic_id": topic.topic_id, "name": None}]
    (row,) = accepted(await s.ask(METADATA, 12, topics=asked)).topics
    expect("the name", row.name, topic.name)


@check("KIP-516")
async def an_unknown_topic_id_is_an_error(s: Subject) -> None:
    """A client would not notice that the topic of an id was deleted."""
    (row,) = (await s.ask(METADATA, 12, topics=[{"topic_id": uuid4(), "name": None}])).topics
    expect_error(row.error_code, ErrorCode.UNKNOWN_TOPIC_ID)


@check("KIP-430")
async def permitted_operations_are_sent_on_request_only(s: Subject) -> None:
    """An admin tool would show permissions that it has not asked for, or none."""
    topic = await s.topic()
    found = (await _row(s, topic.name, 8)).topic_authorized_operations
    expect("what was not asked for", found, OMITTED)
    asked = {"include_topic_authorized_operations": True}
    found = (await _row(s, topic.name, 8, **asked)).topic_authorized_operations
    expect_true(found > 0, f"what was asked for is {found}")


@check("Topic.isInternal")
async def the_topic_of_offsets_is_internal(s: Subject) -> None:
    """A consumer of a pattern would read the broker's own topic."""
    await s.coordinator(s.name())
    row = await _row(s, "__consumer_offsets")
    if row.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # another broker may store elsewhere
        expect("is_internal", row.is_internal, True)
