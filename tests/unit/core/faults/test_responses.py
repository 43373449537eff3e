"""Rows of the requests of every API, and responses that refuse some of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikafka.core.faults.requests import (
    Leaf,
    Tree,
    facts,
    only,
    places,
    rows_of,
    without,
)
from minikafka.core.faults.requests import leaves as leaves_of_request
from minikafka.core.faults.responses import (
    is_done_all_the_same,
    joined,
    metadata_with_error,
    refusal,
    with_wrong_crc,
)
from minikafka.core.faults.rules import Row
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minikafka.protocol.messages.registry import REQUESTS, RESPONSES
from minikafka.protocol.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from minikafka.protocol.messages.share_fetch import FetchPartition as ShareFetchPartition
from minikafka.protocol.messages.share_fetch import FetchTopic as ShareFetchTopic
from tests.support.protocol.messages import messages

VERSIONS = [
    pytest.param(key, version, id=f"{key.api_name}-{version}")
    for key in ApiKey
    if key in REQUESTS
    for version in range(key.first_version, key.max_version + 1)
]
ERROR = ErrorCode.POLICY_VIOLATION  # an error of no special meaning anywhere
# Kafka cannot say the error either: it closes the connection, or the response is empty.
WITHOUT_PLACE = {(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)}
ID = UUID(int=7)


def names(topic_id: UUID) -> str | None:
    return {ID: "by-id"}.get(topic_id)


def leaves_of(key: ApiKey, version: int, request: Any, response: Any) -> list[Leaf]:
    found = Tree(key, version, request, places(key, version).response, names)
    return list(found.leaves(response))


def errors_of(element: Any) -> int:
    code = getattr(element, "error_code", None)
    return int(element.partition_error_code if code is None else code)


def through_the_wire(response: Any, version: int) -> Any:
    frame = b"".join(bytes(part) for part in [encode(response, version)])
    return decode(type(response), version, frame)


@pytest.mark.mission("IN-31")
@pytest.mark.parametrize(("key", "version"), VERSIONS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_error_is_in_the_chosen_rows_and_nowhere_else(
    key: ApiKey, version: int, data: st.DataObject
) -> None:
    request = data.draw(messages(REQUESTS[key], version))
    rows = list(rows_of(key, version, request, names))
    assert rows
    chosen = frozenset(data.draw(st.sets(st.sampled_from(rows), min_size=1)))
    part = only(key, version, request, chosen, names)
    rest = without(key, version, request, chosen, names)
    assert set(rows_of(key, version, part, names)) == chosen
    if rest is not None and (key is not ApiKey.METADATA or rest.topics):
        assert chosen == set(rows) or rest is not request
        assert rest is request or not chosen & set(rows_of(key, version, rest, names))

    refused = refusal(key, version, part, ERROR)
    if refused is None:
        has_rows = any(leaf.path for leaf in leaves_of_request(key, version, request))
        assert not has_rows or key is ApiKey.ALTER_REPLICA_LOG_DIRS
        return
    assert type(refused) is RESPONSES[key]
    found = through_the_wire(refused, version)
    leaves = leaves_of(key, version, request, found)
    full = len(places(key, version).response)
    for leaf in leaves:
        if leaf.path and len(leaf.path) == full:
            assert errors_of(leaf.path[-1]) == ERROR
        elif not leaf.path:
            assert errors_of(found) == ERROR
    # A topic without partitions has no error, and may be named twice.
    innermost = len(places(key, version).request)
    expected = {
        leaf.row
        for leaf in leaves_of_request(key, version, part, names)
        if len(leaf.path) == innermost
    }
    assert {leaf.row for leaf in leaves if leaf.path and len(leaf.path) == full} == (
        expected if full else set()
    )


@pytest.mark.mission("IN-31")
@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_api_can_be_refused_as_a_whole(key: ApiKey, version: int) -> None:
    request = REQUESTS[key]()
    rows = list(rows_of(key, version, request, names))
    assert without(key, version, request, rows, names) is None or key is ApiKey.METADATA
    refused = refusal(key, version, request, ERROR, is_whole=True)
    if refused is not None:
        assert errors_of(through_the_wire(refused, version)) == ERROR
    elif (key, version) not in WITHOUT_PLACE:
        assert places(key, version).response, "the error is in rows, and the request has none"


def produce(*partitions: tuple[str, int]) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for topic, index in partitions:
        entry = topics.setdefault(topic, TopicProduceData(topic))
        entry.partition_data.append(PartitionProduceData(index, b""))
    return ProduceRequest(topic_data=list(topics.values()))


@pytest.mark.mission("IN-31")
def test_rows_of_one_topic_share_its_entry() -> None:
    request = produce(("a", 0), ("a", 1), ("b", 0))
    part = only(ApiKey.PRODUCE, 9, request, [Row("a", 1)])
    refused = refusal(ApiKey.PRODUCE, 9, part, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    served = ProduceResponse(
        [
            TopicProduceResponse(
                "a", partition_responses=[PartitionProduceResponse(0, base_offset=5)]
            ),
            TopicProduceResponse(
                "b", partition_responses=[PartitionProduceResponse(0, base_offset=6)]
            ),
        ]
    )
    both = joined(ApiKey.PRODUCE, 9, served, refused)
    shown = [
        (topic.name, [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses])
        for topic in both.responses
    ]
    assert shown == [("a", [(0, 0, 5), (1, 6, -1)]), ("b", [(0, 0, 6)])]
    assert len(served.responses[0].partition_responses) == 1, "the response itself is unchanged"
    # After the work, the error is put in place of the row.
    after = joined(ApiKey.PRODUCE, 9, both, refused)
    assert [p.index for p in after.responses[0].partition_responses] == [0, 1]


@pytest.mark.mission("IN-31")
def test_topic_ids_are_looked_up() -> None:
    topics = [FetchTopic(topic_id=ID, partitions=[FetchPartition(3)])]
    request = FetchRequest(topics=topics)
    assert list(rows_of(ApiKey.FETCH, 16, request, names)) == [Row("by-id", 3)]
    assert without(ApiKey.FETCH, 16, request, [Row("by-id", 3)], names) is None
    refused = refusal(ApiKey.FETCH, 16, request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert refused.responses[0].topic_id == ID
    assert refused.responses[0].partitions[0].high_watermark == -1
    session = refusal(ApiKey.FETCH, 16, request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (session.error_code, session.responses) == (70, [])


@pytest.mark.mission("SHR-22")
def test_share_partitions_are_refused_with_their_acknowledgements() -> None:
    """A consumer would take records for accepted of whose acknowledgement nothing is said."""
    partitions = [
        ShareFetchPartition(0, acknowledgement_batches=[AcknowledgementBatch(3, 4, [1])]),
        ShareFetchPartition(1),
    ]
    request = ShareFetchRequest("g", topics=[ShareFetchTopic(ID, partitions)])
    key, error = ApiKey.SHARE_FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER
    chosen = [Row("by-id", 0, "g"), Row("by-id", 1, "g")]
    assert list(rows_of(key, 2, request, names)) == chosen
    assert without(key, 2, request, chosen[:1], names).topics[0].partitions == partitions[1:]
    refused = refusal(key, 2, request, error, is_whole=True)
    assert refused.error_code == 0
    (topic,) = refused.responses
    found = [(p.partition_index, p.error_code, p.acknowledge_error_code) for p in topic.partitions]
    assert (topic.topic_id, found) == (ID, [(0, error, error), (1, error, 0)])
    lost = refusal(key, 2, request, ErrorCode.SHARE_SESSION_NOT_FOUND, is_whole=True)
    assert (lost.error_code, lost.responses) == (ErrorCode.SHARE_SESSION_NOT_FOUND, [])


@pytest.mark.mission("IN-31")
@pytest.mark.parametrize(
    ("key_type", "row"), [(0, Row(group="x")), (1, Row(None, None, None, "x"))]
)
def test_keys_of_find_coordinator_are_groups_or_transactional_ids(key_type: int, row: Row) -> None:
    old = FindCoordinatorRequest(key="x", key_type=key_type)
    new = FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type)
    assert list(rows_of(ApiKey.FIND_COORDINATOR, 3, old)) == [row]
    assert list(rows_of(ApiKey.FIND_COORDINATOR, 6, new)) == [row]
    refused = refusal(ApiKey.FIND_COORDINATOR, 3, old, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (refused.error_code, refused.node_id, refused.port) == (15, -1, -1)
    refused = refusal(ApiKey.FIND_COORDINATOR, 6, new, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = refused.coordinators[0]
    assert (found.key, found.error_code, found.node_id, found.port) == ("x", 15, -1, -1)


@pytest.mark.mission("IN-31")
def test_a_group_in_offset_fetch_has_one_error_for_all_of_its_offsets() -> None:
    """Clients know NOT_COORDINATOR only there, and UNSTABLE_OFFSET_COMMIT only in rows."""
    old = OffsetFetchRequest("g", [OffsetFetchRequestTopic("a", [0, 1])])
    topics = [OffsetFetchRequestTopics("a", partition_indexes=[0, 1])]
    new = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)])
    error = ErrorCode.NOT_COORDINATOR
    top = refusal(ApiKey.OFFSET_FETCH, 7, old, error, is_whole=True)
    assert (top.error_code, top.topics) == (error, [])
    group = refusal(ApiKey.OFFSET_FETCH, 9, new, error, is_whole=True).groups[0]
    assert (group.group_id, group.error_code, group.topics) == ("g", error, [])
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    group = refusal(ApiKey.OFFSET_FETCH, 9, new, unstable, is_whole=True).groups[0]
    rows = [(p.committed_offset, p.error_code) for p in group.topics[0].partitions]
    assert (group.error_code, rows) == (0, [(-1, unstable), (-1, unstable)])
    oldest = refusal(ApiKey.OFFSET_FETCH, 1, old, error, is_whole=True)
    assert [p.error_code for p in oldest.topics[0].partitions] == [error, error]


@pytest.mark.mission("IN-31")
def test_a_batch_of_transactions_is_refused_by_row() -> None:
    transactions = [
        AddPartitionsToTxnTransaction(name, topics=[AddPartitionsToTxnTopic("a", [0, 1])])
        for name in ("t", "u")
    ]
    request = AddPartitionsToTxnRequest(transactions=transactions)
    chosen = [Row("a", 1, None, "u")]
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    rest = without(key, 4, request, chosen)
    assert [each.topics[0].partitions for each in rest.transactions] == [[0, 1], [0]]
    refused = refusal(key, 4, only(key, 4, request, chosen), ErrorCode.INVALID_TXN_STATE)
    result = refused.results_by_transaction[0]
    row = result.topic_results[0].results_by_partition[0]
    assert (result.transactional_id, row.partition_index) == ("u", 1)
    assert row.partition_error_code == ErrorCode.INVALID_TXN_STATE


@pytest.mark.mission("IN-31")
def test_configs_of_a_topic_are_rows_of_the_topic() -> None:
    resources = [DescribeConfigsResource(2, "a"), DescribeConfigsResource(4, "1")]
    request = DescribeConfigsRequest(resources)
    assert list(rows_of(ApiKey.DESCRIBE_CONFIGS, 4, request)) == [Row("a"), Row()]
    part = only(ApiKey.DESCRIBE_CONFIGS, 4, request, [Row("a")])
    results = refusal(ApiKey.DESCRIBE_CONFIGS, 4, part, ERROR).results
    assert [(r.resource_type, r.resource_name, r.error_code) for r in results] == [(2, "a", ERROR)]


@pytest.mark.mission("IN-31")
def test_metadata_with_an_error_still_names_the_brokers() -> None:
    request = MetadataRequest([MetadataRequestTopic(name="a")])
    rest = without(ApiKey.METADATA, 12, request, [Row("a")])
    assert rest.topics == []
    assert without(ApiKey.METADATA, 12, MetadataRequest(None), [Row()]).topics is None
    served = MetadataResponse(
        brokers=[MetadataResponseBroker(1)],
        topics=[
            MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition()])
            for name in ("a", "b")
        ],
    )
    found = metadata_with_error(12, request, served, [Row("a")], ERROR, names)
    shown = [(topic.error_code, len(topic.partitions)) for topic in found.topics]
    assert (found.brokers, shown) == (served.brokers, [(ERROR, 0), (0, 1)])
    found = metadata_with_error(12, MetadataRequest(None), served, [Row()], ERROR, names)
    assert [topic.error_code for topic in found.topics] == [ERROR, ERROR]


@pytest.mark.mission("IN-31")
@pytest.mark.parametrize(
    ("key", "error", "is_done"),
    [
        (ApiKey.PRODUCE, ErrorCode.REQUEST_TIMED_OUT, True),
        (ApiKey.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, False),
        (ApiKey.CREATE_TOPICS, ErrorCode.REQUEST_TIMED_OUT, True),
        (ApiKey.OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT, False),
    ],
)
def test_some_errors_mean_that_it_is_done(key: ApiKey, error: ErrorCode, is_done: bool) -> None:
    assert is_done_all_the_same(key, error) is is_done


@pytest.mark.mission("IN-25")
def test_each_batch_gets_a_wrong_crc() -> None:
    def batch(size: int) -> bytes:
        body = bytes(4) + b"\x02" + bytes(4) + bytes(size)
        return bytes(8) + len(body).to_bytes(4, "big") + body

    records = b"".join(batch(size) for size in (0, 1, 40))
    damaged = with_wrong_crc(memoryview(records + records[:15]))
    changed = [
        at for at, pair in enumerate(zip(records, damaged, strict=False)) if len({*pair}) > 1
    ]
    starts = [0, len(batch(0)), len(batch(0)) + len(batch(1))]
    assert changed == [start + 17 for start in starts]
    assert len(damaged) == len(records) + 15


@pytest.mark.mission("IN-29")
@pytest.mark.parametrize(
    ("key", "client", "is_of_broker"),
    [
        (ApiKey.API_VERSIONS, "1", True),  # the controller
        (ApiKey.API_VERSIONS, "broker-2-fetcher", True),
        (ApiKey.CREATE_TOPICS, "broker-2-to-controller", True),
        (ApiKey.LEADER_AND_ISR, "1", True),
        (ApiKey.API_VERSIONS, "rdkafka", False),
        (ApiKey.METADATA, "1", False),
        (ApiKey.LIST_OFFSETS, "broker-app", False),
    ],
)
def test_brokers_are_distinguished_from_clients(
    key: ApiKey, client: str, is_of_broker: bool
) -> None:
    request: Any = REQUESTS[key]()
    if key is ApiKey.LIST_OFFSETS:
        request.replica_id = -1
    assert facts(1, key, 0, client, request).of_broker is is_of_broker
