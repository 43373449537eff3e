"""Every API refuses a client without ACLs as Kafka 3.9.1 does."""

from __future__ import annotations

from copy import copy
from typing import Any
from uuid import UUID

import pytest

from minikafka.core.security.acls import AclOperation, AclResourceType, PatternType
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import CreateOp
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.describe_groups import DescribeGroupsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.schema import Message
from minikafka.testing.simulator.cluster import LogEvent, SimCluster, host_name
from minikafka.world.memory.znode_tree import Author
from tests.support.security import api_matrix
from tests.support.security.api_matrix import BOB, BROKER, RECORDED, STRANGER
from tests.support.simulated.raw_wire import exchange

ADMIN = "admin"


class Authorized:
    """Simulated brokers with the ACLs of the matrix; each client has a host."""

    def __init__(
        self, operation: AclOperation = AclOperation.ALL, brokers: tuple[int, ...] = (BROKER,)
    ) -> None:
        """``operation`` is what bob may do."""
        self.cluster = SimCluster(1, brokers, api_matrix.SETTINGS)
        self.cluster.observers.append(self._on_event)
        self.audit: list[str] = []
        tree = self.cluster.simulation.zookeeper.tree
        bindings = api_matrix.acls(BOB, *map(host_name, brokers), ADMIN, operation=operation)
        for path, data in api_matrix.acl_znodes(bindings).items():
            for end, char in enumerate(path):
                if char == "/" and end and tree.exists(path[:end]) is None:
                    tree.apply([CreateOp(path[:end], b"")], Author(0), 0)
            tree.apply([CreateOp(path, data)], Author(0), 0)

    def _on_event(self, event: LogEvent) -> None:
        if event.name == "operation_denied":
            self.audit.append(str(event.facts["audit"]))

    async def ask(self, host: str, message: Message, version: int, broker_id: int = BROKER) -> Any:
        """Return the response; None if the connection is closed without one."""
        key = message.SPEC.api_key
        assert key is not None
        frame = encode_request(RequestHeader(key, version, 1, host), message)[4:]
        response = await exchange(self.cluster, broker_id, frame, host)
        if response is None:
            return None
        return decode_response(RESPONSES[key], version, response)[1]

    async def prepare(self) -> dict[str, UUID]:
        cluster = self.cluster
        cluster.start()
        await cluster.until("up", lambda: bool(cluster.nodes()))
        await cluster.until("a controller", lambda: cluster.controller_id() is not None)
        ids: dict[str, UUID] = {}
        script = api_matrix.prepare(ids)
        message, version = next(script)
        while True:
            response = await self.ask(ADMIN, message, version)
            try:
                message, version = script.send(response)
            except StopIteration:
                return ids


@pytest.mark.mission("SEC-133", "SEC-134", "SEC-135", "SEC-136", "SEC-137")
@pytest.mark.mission("SEC-141")
def test_the_responses_are_those_of_kafka_3_9_1() -> None:
    """Every version of every API, as recorded by ``tests/kafka/test_authorization.py``, with the
    denials in the audit log. What a stranger sends changes nothing in ZooKeeper."""
    authorized = Authorized()

    async def scenario(cluster: SimCluster) -> str:
        ids = await authorized.prepare()
        renderer = api_matrix.Renderer(ids)
        found = []
        for client in (STRANGER, BOB):
            before = cluster.simulation.zookeeper.tree.dump()
            for row in api_matrix.rows(ids):
                authorized.audit.clear()
                response = renderer.text(await authorized.ask(client, row.request, row.version))
                denied = api_matrix.denials(authorized.audit)
                found.append(api_matrix.Seen(client, row, response, denied))
            if client == STRANGER:
                assert cluster.simulation.zookeeper.tree.dump() == before
        return api_matrix.table(found)

    assert authorized.cluster.run(scenario) == RECORDED.read_text()


@pytest.mark.mission("SEC-138")
def test_read_allows_describe_and_nothing_of_the_cluster() -> None:
    """bob has Read on the topic and the group ``open``."""
    authorized = Authorized(operation=AclOperation.READ)

    async def scenario(_: SimCluster) -> tuple[int, int, int, int]:
        await authorized.prepare()
        topics = [MetadataRequestTopic(name="open"), MetadataRequestTopic(name="secret")]
        known, secret = (
            await authorized.ask(BOB, MetadataRequest(topics, False, True, True), 9)
        ).topics
        (group,) = (await authorized.ask(BOB, DescribeGroupsRequest(["open"], True), 5)).groups
        cluster = await authorized.ask(BOB, DescribeClusterRequest(True), 1)
        return (
            known.topic_authorized_operations,
            secret.topic_authorized_operations,
            group.authorized_operations,
            cluster.cluster_authorized_operations,
        )

    assert authorized.cluster.run(scenario) == (0x108, -(1 << 31), 0x108, 0)


@pytest.mark.mission("SEC-133")
def test_a_fetch_session_loses_a_topic_with_its_acl() -> None:
    """The topics of a session are decided about in each request."""
    authorized = Authorized()

    async def scenario(_: SimCluster) -> list[list[tuple[str, int]]]:
        await authorized.prepare()
        topics = [FetchTopic(topic=n, partitions=[FetchPartition(0)]) for n in ("open", "secret")]
        first = await authorized.ask(BOB, FetchRequest(topics=topics, session_epoch=0), 12)
        assert first.session_id != 0
        everything = DeleteAclsFilter(
            AclResourceType.TOPIC, "open", PatternType.ANY, None, None, AclOperation.ANY, 1
        )
        await authorized.ask(ADMIN, DeleteAclsRequest([everything]), 3)
        again = FetchRequest(session_id=first.session_id, session_epoch=1)
        second = await authorized.ask(BOB, again, 12)
        return [
            [(topic.topic, topic.partitions[0].error_code) for topic in response.responses]
            for response in (first, second)
        ]

    refused = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    first, second = authorized.cluster.run(scenario)
    assert first == [("open", 0), ("secret", refused)]
    assert ("open", refused) in second


@pytest.mark.mission("SEC-133")
@pytest.mark.parametrize("version", [11, 12])
def test_a_consumer_without_an_acl_gets_no_records(version: int) -> None:
    """A Fetch and a Produce that are served in one straight line where there is no authorizer."""
    authorized = Authorized()

    async def scenario(_: SimCluster) -> list[tuple[int, bool]]:
        await authorized.prepare()
        data = [PartitionProduceData(0, build_batch([(1, None, b"v" * 10, [])]))]
        produce = ProduceRequest(None, 1, 1000, [TopicProduceData("secret", partition_data=data)])
        assert (await authorized.ask(ADMIN, produce, 9)).responses[0].partition_responses[
            0
        ].error_code == 0
        part = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="secret", partitions=[part])]
        )
        found = []
        for client in (ADMIN, BOB):
            (topic,) = (await authorized.ask(client, fetch, version)).responses
            found.append((topic.partitions[0].error_code, bool(topic.partitions[0].records)))
        return found

    refused = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert authorized.cluster.run(scenario) == [(0, True), (refused, False)]


@pytest.mark.mission("SEC-133")
def test_a_request_of_thousands_of_topics_is_decided_in_slices() -> None:
    """More topics than are decided about at once: the records lie in a receive buffer that the
    next request of the connection overwrites."""
    authorized = Authorized()
    names = [f"{'open' if number % 2 else 'secret'}-{number}" for number in range(1_300)]

    async def scenario(_: SimCluster) -> tuple[list[int], list[int]]:
        await authorized.prepare()
        records = build_batch([(1, None, b"v" * 10, [])])
        topics = [
            TopicProduceData(name, partition_data=[PartitionProduceData(0, records)])
            for name in names
        ]
        topics[700] = TopicProduceData("open", partition_data=topics[700].partition_data)
        produced = await authorized.ask(BOB, ProduceRequest(None, 1, 1000, topics), 9)
        errors = {row.name: row.partition_responses[0].error_code for row in produced.responses}
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], False)
        described = {
            row.name: row.error_code for row in (await authorized.ask(BOB, request, 9)).topics
        }
        assert errors.pop("open") == 0
        return (
            [errors[name] for name in names if name in errors],
            [described[name] for name in names],
        )

    errors, described = authorized.cluster.run(scenario)
    unknown, refused = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wanted = [unknown if name.startswith("open") else refused for name in names]
    assert described == wanted
    del wanted[700]
    assert errors == wanted


@pytest.mark.mission("SCALE-1")
def test_the_authorizer_filters_topics_that_are_kept_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many topics as are looked up in slices: bob sees those that he may describe."""
    authorized = Authorized()
    requests = [
        MetadataRequest(None),
        MetadataRequest(None, include_topic_authorized_operations=True),
        MetadataRequest([MetadataRequestTopic(name=name) for name in ("open", "secret")], False),
    ]

    async def scenario(_: SimCluster) -> list[list[MetadataResponse]]:
        await authorized.prepare()
        found = []
        for large in (500, -1):
            monkeypatch.setattr("minikafka.server.broker.apis.topics.metadata.LARGE", large)
            found.append([await authorized.ask(BOB, copy(request), 9) for request in requests])
        return found

    plain, encoded = authorized.cluster.run(scenario)
    assert encoded == plain
    assert [topic.name for topic in encoded[0].topics] == ["open"]
    assert encoded[1].topics[0].topic_authorized_operations > 0
