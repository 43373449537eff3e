"""Topics, partitions and records as an admin client makes and deletes them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.check import check
from minikafka.testing.conformance.expectations import accepted, expect, expect_error, expect_true
from minikafka.testing.conformance.subject import TIMEOUT_MS, Subject, Topic, pause

CREATE, DELETE = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS
PARTITIONS, RECORDS = ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_RECORDS
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
HIGH_WATERMARK = -1
FIRST_WITH_CHECKS = 4  # Kafka 2.0 looks at less, and names another error


async def _metadata(s: Subject, name: str) -> Any:
    request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    return (await s.ask(ApiKey.METADATA, 4, **request)).topics[0]


async def _until_gone(s: Subject, name: str) -> None:
    while not (await _metadata(s, name)).error_code:
        await pause()


@check("KIP-4, CreateTopics")
async def a_topic_is_created_with_its_partitions(s: Subject) -> None:
    """An admin client would wait for a topic that never comes."""
    name = s.name()
    expect_error((await s.create(name, num_partitions=3)).error_code, ErrorCode.NONE)
    expect("the number of partitions", len((await s.led(name, 3)).leaders), 3)


@check("KIP-4, CreateTopics")
async def a_topic_that_exists_is_an_error(s: Subject) -> None:
    """A program would believe that the topic has the settings that it named."""
    s.version(CREATE)
    topic = await s.topic()
    expect_error((await s.create(topic.name)).error_code, ErrorCode.TOPIC_ALREADY_EXISTS)


@check("Topic.validate")
async def an_invalid_name_is_refused(s: Subject) -> None:
    """A topic could have a name that no directory can have."""
    for name in ("a/b", "..", "x" * 250, ""):
        found = (await s.create(name)).error_code
        expect_error(found, ErrorCode.INVALID_TOPIC_EXCEPTION, of=f"the error of {name[:9]!r}")


@check("Topic.hasCollision")
async def names_that_would_collide_in_metrics_are_refused(s: Subject) -> None:
    """Two topics would share the metrics of one."""
    name = s.name()
    accepted(await s.create(f"{name}.a_b"))
    found = (await s.create(f"{name}_a.b")).error_code
    expect_error(found, ErrorCode.INVALID_TOPIC_EXCEPTION)


@check("CreateTopics")
async def no_partitions_are_refused(s: Subject) -> None:
    """A topic would exist to which nobody can write."""
    for count in (0, -2):
        found = (await s.create(s.name(), num_partitions=count)).error_code
        expect_error(found, ErrorCode.INVALID_PARTITIONS)


@check("CreateTopics")
async def more_replicas_than_brokers_are_refused(s: Subject) -> None:
    """An operator would believe in replicas that do not exist."""
    for count in (1000, 0):
        found = (await s.create(s.name(), replication_factor=count)).error_code
        expect_error(found, ErrorCode.INVALID_REPLICATION_FACTOR)


@check("CreateTopics")
async def an_unknown_setting_is_refused(s: Subject) -> None:
    """An operator would not notice a misspelled setting."""
    s.version(CREATE, FIRST_WITH_CHECKS)
    for row in ({"name": "no.such.key", "value": "1"}, {"name": "retention.ms", "value": "soon"}):
        found = (await s.create(s.name(), configs=[row])).error_code
        expect_error(found, ErrorCode.INVALID_CONFIG, of=f"the error of {row['name']}")


@check("CreateTopics")
async def replicas_can_be_assigned(s: Subject) -> None:
    """A tool could not choose the brokers of a topic."""
    broker = next(iter(s.cluster.brokers))
    rows = [{"partition_index": i, "broker_ids": [broker]} for i in range(2)]
    name = s.name()
    fields = {"num_partitions": -1, "replication_factor": -1}
    accepted(await s.create(name, assignments=rows, **fields))
    expect("the leaders", (await s.led(name, 2)).leaders, (broker, broker))


@check("CreateTopics")
async def a_count_beside_assigned_replicas_is_refused(s: Subject) -> None:
    """One of two contradicting wishes would be dropped."""
    rows = [{"partition_index": 0, "broker_ids": [next(iter(s.cluster.brokers))]}]
    found = (await s.create(s.name(), assignments=rows)).error_code
    expect_error(found, ErrorCode.INVALID_REQUEST)


@check("CreateTopics")
async def a_gap_in_assigned_partitions_is_refused(s: Subject) -> None:
    """A topic would have partitions without replicas."""
    s.version(CREATE, FIRST_WITH_CHECKS)
    broker = next(iter(s.cluster.brokers))
    rows = [{"partition_index": i, "broker_ids": [broker]} for i in (0, 2)]
    fields = {"num_partitions": -1, "replication_factor": -1}
    found = (await s.create(s.name(), assignments=rows, **fields)).error_code
    expect_error(found, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


@check("CreateTopics.validateOnly")
async def a_trial_creates_nothing(s: Subject) -> None:
    """A dry run of a tool would change the cluster."""
    name = s.name()
    accepted(await s.create(name, 1, validate_only=True))
    expect_error((await _metadata(s, name)).error_code, UNKNOWN)


@check("KIP-464")
async def counts_may_be_left_to_the_broker(s: Subject) -> None:
    """A program could not use the defaults of the cluster."""
    fields = {"num_partitions": -1, "replication_factor": -1}
    accepted(await s.create(s.name(), 4, **fields))


@check("KIP-525")
async def the_response_has_the_settings_of_the_topic(s: Subject) -> None:
    """A client would need two more requests to know what it has made."""
    s.version(CREATE, 5)
    row = {"name": "retention.ms", "value": "12345"}
    found = accepted(await s.create(s.name(), 5, num_partitions=2, configs=[row]))
    expect("the counts", (found.num_partitions, found.replication_factor), (2, 1))
    values = {each.name: each.value for each in found.configs or []}
    expect("retention.ms", values.get("retention.ms"), "12345")


@check("KIP-516")
async def the_response_has_the_id_of_the_topic(s: Subject) -> None:
    """A client that creates a topic would not know its id."""
    s.version(CREATE, 7)
    name = s.name()
    found = accepted(await s.create(name, 7)).topic_id
    expect("the id", found, (await s.led(name)).topic_id)


@check("CreateTopics")
async def a_topic_that_is_named_twice_is_refused(s: Subject) -> None:
    """A client would not know which of two settings its topic has."""
    row = {"name": s.will_delete(s.name()), "num_partitions": 1, "replication_factor": 1}
    at = await s.controller()
    response = await s.ask(CREATE, 0, at, topics=[row, row], timeout_ms=TIMEOUT_MS)
    for each in response.topics:
        expect_error(each.error_code, ErrorCode.INVALID_REQUEST)


async def _delete(s: Subject, *topics: str) -> Any:
    version = s.version(DELETE)
    rows = [{"name": name} for name in topics]
    listed: dict[str, Any] = {"topics": rows} if version >= 6 else {"topic_names": list(topics)}
    at = await s.controller()
    return (await s.ask(DELETE, 0, at, **listed, timeout_ms=TIMEOUT_MS)).responses


@check("KIP-4, DeleteTopics")
async def a_deleted_topic_is_gone(s: Subject) -> None:
    """A client would go on with a topic that was deleted."""
    s.version(DELETE)
    topic = await s.topic()
    (found,) = await _delete(s, topic.name)
    expect_error(found.error_code, ErrorCode.NONE)
    await _until_gone(s, topic.name)
    expect_error((await _metadata(s, topic.name)).error_code, UNKNOWN)


@check("KIP-4, DeleteTopics")
async def an_unknown_topic_cannot_be_deleted(s: Subject) -> None:
    """An operator would not notice a misspelled topic."""
    (found,) = await _delete(s, s.name())
    expect_error(found.error_code, UNKNOWN)


@check("KIP-516")
async def a_topic_can_be_deleted_by_its_id(s: Subject) -> None:
    """A tool would delete a new topic instead of the old one by that name."""
    s.version(DELETE, 6)
    topic = await s.topic()
    rows = [{"topic_id": topic.topic_id}, {"topic_id": uuid4()}]
    at = await s.controller()
    response = await s.ask(DELETE, 6, at, topics=rows, timeout_ms=TIMEOUT_MS)
    found = {each.topic_id == topic.topic_id: each.error_code for each in response.responses}
    expect("the errors, by whether it exists", found, {True: 0, False: ErrorCode.UNKNOWN_TOPIC_ID})


@check("KIP-516")
async def a_topic_that_is_made_again_is_another_one(s: Subject) -> None:
    """A consumer would go on in the new topic at the offsets of the old one."""
    s.version(ApiKey.METADATA, 10)
    topic = await s.topic()
    await s.produce(topic, b"old")
    await _delete(s, topic.name)
    await _until_gone(s, topic.name)
    while (await s.create(topic.name)).error_code:
        await pause()
    again = await s.led(topic.name)
    expect_true(again.topic_id != topic.topic_id, "it has the old id")
    expect("the log end", await s.end_offset(again), 0)


async def _more(s: Subject, name: str, count: int, **fields: Any) -> int:
    rows = [{"name": name, "count": count, "assignments": None}]
    at = await s.controller()
    request = {"topics": rows, "timeout_ms": TIMEOUT_MS, "validate_only": False, **fields}
    return int((await s.ask(PARTITIONS, 0, at, **request)).results[0].error_code)


@check("KIP-195")
async def partitions_can_be_added(s: Subject) -> None:
    """A topic could not grow."""
    s.version(PARTITIONS)
    topic = await s.topic()
    expect_error(await _more(s, topic.name, 3), ErrorCode.NONE)
    expect("the number of partitions", len((await s.led(topic.name, 3)).leaders), 3)


@check("KIP-195")
async def partitions_cannot_be_taken_away(s: Subject) -> None:
    """Records would be lost."""
    topic = await s.topic(2)
    for count in (1, 2, 0):
        expect_error(await _more(s, topic.name, count), ErrorCode.INVALID_PARTITIONS)


@check("KIP-195")
async def partitions_of_an_unknown_topic_are_refused(s: Subject) -> None:
    """An operator would not notice a misspelled topic."""
    expect_error(await _more(s, s.name(), 2), UNKNOWN)


@check("CreatePartitions.validateOnly")
async def a_trial_adds_no_partitions(s: Subject) -> None:
    """A dry run of a tool would change the cluster."""
    s.version(PARTITIONS)
    topic = await s.topic()
    expect_error(await _more(s, topic.name, 3, validate_only=True), ErrorCode.NONE)
    expect("the number of partitions", len((await s.led(topic.name)).leaders), 1)


async def _delete_records(s: Subject, topic: Topic, offset: int, partition: int = 0) -> Any:
    row = {"partition_index": partition, "offset": offset}
    rows = [{"name": topic.name, "partitions": [row]}]
    at = await s.leader(topic)
    response = await s.ask(RECORDS, 0, at, topics=rows, timeout_ms=TIMEOUT_MS)
    return response.topics[0].partitions[0]


@check("KIP-107")
async def records_are_deleted_up_to_an_offset(s: Subject) -> None:
    """Kafka Streams could not drop what it has processed."""
    s.version(RECORDS)
    topic = await s.topic()
    await s.produce(topic, b"0", b"1", b"2")
    expect("the low watermark", accepted(await _delete_records(s, topic, 2)).low_watermark, 2)
    expect("earliest", (await s.list_offset(topic, -2)).offset, 2)
    expect("latest", await s.end_offset(topic), 3)


@check("KIP-107")
async def all_records_can_be_deleted(s: Subject) -> None:
    """A topic could not be emptied without its deletion."""
    topic = await s.topic()
    await s.produce(topic, b"0", b"1")
    found = accepted(await _delete_records(s, topic, HIGH_WATERMARK))
    expect("the low watermark", found.low_watermark, 2)


@check("KIP-107")
async def deletion_does_not_go_back(s: Subject) -> None:
    """Deleted records would come back."""
    topic = await s.topic()
    await s.produce(topic, b"0", b"1", b"2")
    await _delete_records(s, topic, 2)
    expect("the low watermark", accepted(await _delete_records(s, topic, 1)).low_watermark, 2)


@check("KIP-107")
async def records_that_do_not_exist_cannot_be_deleted(s: Subject) -> None:
    """Later records would be deleted before anybody has read them."""
    topic = await s.topic()
    await s.produce(topic, b"0")
    found = await _delete_records(s, topic, 9)
    expect_error(found.error_code, ErrorCode.OFFSET_OUT_OF_RANGE)


@check("KIP-700")
async def the_cluster_can_be_described(s: Subject) -> None:
    """An admin client would see other brokers than a producer."""
    response = accepted(await s.ask(ApiKey.DESCRIBE_CLUSTER))
    found = await s.ask(ApiKey.METADATA, 2, topics=[])
    expect("the cluster id", response.cluster_id, found.cluster_id)
    brokers = {(each.broker_id, each.host, each.port) for each in response.brokers}
    expect("the brokers", brokers, {(each.node_id, each.host, each.port) for each in found.brokers})


@check("KIP-460")
async def an_election_that_is_not_needed_says_so(s: Subject) -> None:
    """A tool would report an election that did not happen."""
    s.version(ApiKey.ELECT_LEADERS)
    topic = await s.topic()
    rows = [{"topic": topic.name, "partitions": [0]}]
    at = await s.controller()
    response = await s.ask(
        ApiKey.ELECT_LEADERS, 0, at, topic_partitions=rows, timeout_ms=TIMEOUT_MS
    )
    found = response.replica_election_results[0].partition_result[0].error_code
    expect_error(found, ErrorCode.ELECTION_NOT_NEEDED)


@check("KIP-455")
async def a_topic_at_rest_is_not_being_reassigned(s: Subject) -> None:
    """A tool would wait for the end of a reassignment for ever."""
    key = ApiKey.LIST_PARTITION_REASSIGNMENTS
    s.version(key)
    topic = await s.topic()
    rows = [{"name": topic.name, "partition_indexes": [0]}]
    response = accepted(await s.ask(key, 0, await s.controller(), topics=rows))
    expect("the reassignments", response.topics, [])


@check("KIP-455")
async def what_is_not_being_reassigned_cannot_be_cancelled(s: Subject) -> None:
    """A tool would report that it has cancelled something."""
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    s.version(key)
    topic = await s.topic()
    row = {"partition_index": 0, "replicas": None}
    rows = [{"name": topic.name, "partitions": [row]}]
    response = await s.ask(key, 0, await s.controller(), topics=rows, timeout_ms=TIMEOUT_MS)
    found = response.responses[0].partitions[0].error_code
    expect_error(found, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


@check("KIP-113")
async def the_size_of_a_log_can_be_described(s: Subject) -> None:
    """An operator could not see what fills a disk."""
    key = ApiKey.DESCRIBE_LOG_DIRS
    s.version(key)
    topic = await s.topic()
    await s.produce(topic, bytes(1000))
    rows = [{"topic": topic.name, "partitions": [0]}]
    response = accepted(await s.ask(key, 0, await s.leader(topic), topics=rows))
    sizes = [
        p.partition_size for each in response.results for t in each.topics for p in t.partitions
    ]
    expect_true(len(sizes) == 1 and sizes[0] > 1000, f"the sizes are {sizes}")


@check("KIP-966")
async def partitions_are_described_in_pages(s: Subject) -> None:
    """An admin client of a huge topic would get a response that is too large."""
    key = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    s.version(key)
    topic = await s.topic(3)
    rows = [{"name": topic.name}]
    response = accepted(await s.ask(key, 0, topics=rows, response_partition_limit=2))
    found = [p.partition_index for p in response.topics[0].partitions]
    expect("the first page", found, [0, 1])
    cursor = response.next_cursor
    expect_true(cursor is not None, "there is no cursor")
    expect("the cursor", (cursor.topic_name, cursor.partition_index), (topic.name, 2))
    next_page = {"topic_name": cursor.topic_name, "partition_index": cursor.partition_index}
    response = accepted(await s.ask(key, 0, topics=rows, cursor=next_page))
    expect("the second page", [p.partition_index for p in response.topics[0].partitions], [2])
    expect("the cursor after it", response.next_cursor, None)
