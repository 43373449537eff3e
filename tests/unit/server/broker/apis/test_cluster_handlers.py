"""Handlers that respond from local state: coordinator, cluster, configs, producer ids."""

import asyncio
from collections.abc import Collection
from importlib.metadata import version
from typing import Any, cast

import pytest

from minikafka.core.config_resources import SOFTWARE_VERSION
from minikafka.kernel.cluster import (
    GROUP_METADATA_TOPIC,
    LEADER_DURING_DELETE,
    CoordinatorType,
    TopicPartition,
)
from minikafka.kernel.compiled import build_name
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import ConnectionLost
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.server.broker.admin.broker_loggers import BrokerLoggers
from minikafka.server.broker.admin.config_entries import ConfigEntries
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.server.broker.apis.authorization import CLUSTER_OPERATIONS
from minikafka.server.broker.apis.brokers.controller_fence import ControllerFence
from minikafka.server.broker.apis.brokers.update_metadata import UpdateMetadataHandler
from minikafka.server.broker.apis.cluster import describe_configs as configs
from minikafka.server.broker.apis.cluster.describe_cluster import DescribeClusterHandler
from minikafka.server.broker.apis.cluster.describe_configs import DescribeConfigsHandler
from minikafka.server.broker.apis.groups.find_coordinator import FindCoordinatorHandler
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.apis.transactions.init_producer_id import InitProducerIdHandler
from minikafka.server.broker.metadata.coordinators import Found
from minikafka.server.broker.metadata.suspects import Suspects
from tests.support.broker.cluster_metadata import cache_with, live_broker, partition_state, update
from tests.support.coordinator.transaction_lab import TransactionLab


def context(version: int) -> RequestContext:
    return RequestContext(RequestHeader(0, version, 1), "OUT", "h")


def through_codec(message: Any, version: int) -> Any:
    return decode(type(message), version, encode(message, version))


def respond(handler: Any, request: Any, version: int) -> Any:
    replies: list[Any] = []
    handler(context(version), through_codec(request, version), replies.append)
    (reply,) = replies
    return through_codec(reply, version)


# -- FindCoordinator


def coordinator_request(version: int, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    request = FindCoordinatorRequest(key_type=key_type if version else 0)
    if version >= 4:
        request.coordinator_keys = list(keys)
    else:
        (request.key,) = keys
    return request


def errors_of(response: FindCoordinatorResponse, version: int) -> list[int]:
    return [c.error_code for c in response.coordinators] if version >= 4 else [response.error_code]


class Lookup:
    """A ``CoordinatorLookup`` of one broker; ``missing`` is the internal topic that is not there
    yet."""

    def __init__(self, missing: str | None = None) -> None:
        self.missing = missing
        self.lookups: list[tuple[CoordinatorType, str, str]] = []

    def missing_topic(self, kind: CoordinatorType) -> str | None:
        return self.missing

    def find(self, kind: CoordinatorType, key: str, listener: str) -> Found:
        self.lookups.append((kind, key, listener))
        return Found(node_id=3, host="h3", port=9)


class Creation:
    """An ``AutoTopicCreation`` that notes the topics to create."""

    def __init__(self) -> None:
        self.created: list[str] = []

    def begin(self, topics: Collection[str], take_permits: Any) -> None:
        self.created.extend(topics)


@pytest.mark.parametrize("version", range(7))
def test_the_first_request_for_a_coordinator_creates_the_internal_topic(version: int) -> None:
    request, creation = coordinator_request(version, "g"), Creation()
    handler = FindCoordinatorHandler(
        cast(Any, Lookup(GROUP_METADATA_TOPIC)), cast(Any, creation), Suspects()
    )
    response = respond(handler, request, version)
    assert creation.created == [GROUP_METADATA_TOPIC]
    assert errors_of(response, version) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    where = response.coordinators[0] if version >= 4 else response
    assert (where.node_id, where.host, where.port) == (-1, "", -1)
    if version >= 1:
        assert where.error_message == ("" if version >= 4 else "COORDINATOR_NOT_AVAILABLE")


@pytest.mark.parametrize("version", range(1, 7))
def test_unknown_kinds_of_coordinators(version: int) -> None:
    for key_type in (2, 9):  # of type 2 are share-partitions, whose keys have three parts
        request = coordinator_request(version, "g", key_type=key_type)
        response = respond(
            FindCoordinatorHandler(cast(Any, Lookup()), cast(Any, Creation()), Suspects()),
            request,
            version,
        )
        assert errors_of(response, version) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_looked_up_by_listener(version: int) -> None:
    lookup, creation = Lookup(), Creation()
    keys = ["g", "h"] if version >= 4 else ["g"]
    handler = FindCoordinatorHandler(cast(Any, lookup), cast(Any, creation), Suspects())
    response = respond(handler, coordinator_request(version, *keys), version)
    assert lookup.lookups == [(CoordinatorType.GROUP, key, "OUT") for key in keys]
    places = response.coordinators if version >= 4 else [response]
    assert [(p.node_id, p.host, p.port, p.error_code) for p in places] == [(3, "h3", 9, 0)] * len(
        keys
    )
    assert creation.created == []


# -- DescribeCluster

BROKERS = [live_broker(1, ("IN", "OUT"), "r1"), live_broker(2, ("IN",))]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_by_listener(version: int) -> None:
    handler = DescribeClusterHandler(cache_with(update({}, BROKERS)), "c1")
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = respond(handler, request, version)
    assert (response.cluster_id, response.controller_id) == ("c1", 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [
        (1, "host1", 9101, "r1")
    ]
    assert response.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize("wanted", [False, True])
def test_no_broker_is_fenced(wanted: bool) -> None:
    handler = DescribeClusterHandler(cache_with(update({}, BROKERS)), "c1")
    response = respond(handler, DescribeClusterRequest(include_fenced_brokers=wanted), 2)
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False)]


def test_a_controller_that_is_not_listed_is_not_named() -> None:
    handler = DescribeClusterHandler(cache_with(update({}, BROKERS, controller=2)), "c1")
    assert respond(handler, DescribeClusterRequest(), 1).controller_id == -1


def test_other_endpoint_types() -> None:
    handler = DescribeClusterHandler(cache_with(), "c1")
    for endpoint_type, error in ((2, 114), (3, 115)):
        response: DescribeClusterResponse = respond(
            handler, DescribeClusterRequest(endpoint_type=endpoint_type), 1
        )
        assert response.error_code == error


@pytest.mark.mission("SAFE-33")
def test_a_key_that_is_named_twice_is_found_twice() -> None:
    lookup = Lookup()
    handler = FindCoordinatorHandler(cast(Any, lookup), cast(Any, None), Suspects())
    response = respond(handler, coordinator_request(4, "b", "a", "b"), 4)
    assert [found.key for found in response.coordinators] == ["b", "a", "b"]
    assert {found.node_id for found in response.coordinators} == {3}
    assert [key for _, key, _ in lookup.lookups] == ["b", "a"]


# -- DescribeConfigs

TOPIC, BROKER = 2, 4


class TopicConfigs:
    async def topic_config(self, topic: str) -> dict[str, str]:
        if topic == "broken":
            raise ConnectionLost("/config")
        return {"retention.ms": "5", "strange.key": "secret"}


async def describe(
    version: int, *resources: DescribeConfigsResource, **fields: Any
) -> DescribeConfigsResponse:
    config = BROKER_CONFIG.parse(
        {"zookeeper.connect": "z:1", "log.segment.bytes": "2000", "log.roll.hours": "2"}
    )
    handler = DescribeConfigsHandler(
        1,
        cache_with(update({"a": [partition_state(0, 1)], "broken": [partition_state(0, 1)]})),
        ConfigEntries(DynamicBrokerConfig(config), BROKER_CONFIG, TOPIC_CONFIG),
        cast(Any, TopicConfigs),
        BrokerLoggers(1),
    )
    request = through_codec(DescribeConfigsRequest(list(resources), **fields), version)
    response: DescribeConfigsResponse
    response = through_codec(await handler(context(version), request), version)
    return response


async def entries(
    version: int, kind: int, name: str, **fields: Any
) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(kind, name, None)
    (result,) = (await describe(version, resource, **fields)).results
    assert (result.error_code, result.error_message) == (0, "")
    return {entry.name: entry for entry in result.configs}


@pytest.mark.parametrize("version", range(5))
async def test_configuration_of_a_topic(version: int) -> None:
    found = await entries(version, TOPIC, "a")
    assert set(TOPIC_CONFIG.settings) < set(found)
    own, static, default = found["retention.ms"], found["segment.bytes"], found["cleanup.policy"]
    assert (own.value, static.value, default.value) == ("5", "2000", "delete")
    assert not own.read_only
    unknown = found["strange.key"]
    assert (unknown.value, unknown.is_sensitive) == (None, True)
    if version >= 1:
        assert [e.config_source for e in (own, static, default)] == [1, 4, 5]
    else:
        assert [e.is_default for e in (own, static, default)] == [False, False, True]
    if version >= 3:
        assert [e.config_type for e in (own, static, default)] == [5, 3, 7]


async def test_synonyms_and_documentation_are_included_when_requested() -> None:
    found = await entries(4, TOPIC, "a", include_synonyms=True, include_documentation=True)
    own = found["retention.ms"]
    # As in Kafka, values of log.retention.hours and log.roll.hours are not listed.
    assert [(s.name, s.value, s.source) for s in own.synonyms] == [("retention.ms", "5", 1)]
    assert [(s.name, s.value, s.source) for s in found["segment.bytes"].synonyms] == [
        ("log.segment.bytes", "2000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert found["segment.ms"].value == "7200000"
    assert found["segment.ms"].synonyms == []
    assert own.documentation
    plain = (await entries(4, TOPIC, "a"))["retention.ms"]
    assert (plain.synonyms, plain.documentation) == ([], None)


@pytest.mark.mission("MIX-30")
async def test_a_broker_tells_that_it_is_minikafka() -> None:
    entry = (await entries(1, BROKER, "1"))[SOFTWARE_VERSION]
    value = f"{version('minikafka')} ({build_name()})"
    assert (entry.value, entry.read_only, entry.is_sensitive) == (value, True, False)
    with pytest.raises(ConfigError, match="Unknown configuration key"):
        BROKER_CONFIG.require_known(SOFTWARE_VERSION)  # no file can set it


@pytest.mark.mission("SAFE-33")
async def test_a_resource_that_is_named_twice_has_two_equal_results() -> None:
    plain = DescribeConfigsResource(BROKER, "1", None)
    some = DescribeConfigsResource(BROKER, "1", ["log.segment.bytes"])
    topic = DescribeConfigsResource(TOPIC, "a", None)
    results = (await describe(4, plain, some, topic, plain, some, topic)).results
    assert results[:3] == results[3:]
    # All settings, and the version of the software.
    shown = sum(not row.internal for row in BROKER_CONFIG.settings.values()) + 1
    assert [len(result.configs) for result in results[:2]] == [shown, 1]
    assert results[2].resource_name == "a"


@pytest.mark.mission("SAFE-33")
async def test_resources_beyond_the_size_of_a_response_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resource = DescribeConfigsResource(BROKER, "1", None)
    (one,) = (await describe(4, resource)).results
    size = len(encode(DescribeConfigsResponse(results=[one]), 4))
    monkeypatch.setattr(configs, "MAX_RESPONSE_BYTES", 3 * size)
    response = await describe(4, *[resource] * 10)
    codes = [result.error_code for result in response.results]
    served = codes.count(0)
    assert 2 <= served <= 4
    assert codes == [0] * served + [ErrorCode.INVALID_REQUEST] * (10 - served)
    assert "Describe fewer resources" in (response.results[-1].error_message or "")
    assert len(encode(response, 4)) < 5 * size


@pytest.mark.mission("SAFE-33")
async def test_others_are_served_while_many_resources_are_described() -> None:
    steps: list[str] = []
    many = [DescribeConfigsResource(BROKER, "1", [f"key{n}"]) for n in range(100)]

    async def other() -> None:
        await asyncio.sleep(0)
        steps.append("other")

    async def describing() -> None:
        await describe(4, *many)
        steps.append("described")

    await asyncio.gather(describing(), other())
    assert steps == ["other", "described"]


async def test_configuration_of_this_broker() -> None:
    found = await entries(4, BROKER, "1", include_synonyms=True)
    assert found["log.segment.bytes"].value == "2000"
    assert found["log.roll.hours"].value == "2"
    assert found["log.segment.bytes"].config_source == 4
    assert found["num.partitions"].config_source == 5
    assert not found["log.segment.bytes"].read_only
    assert found["broker.id"].read_only
    assert not found["listeners"].read_only
    assert found["log.dirs"].value is None
    assert await entries(4, BROKER, "") == {}  # no dynamic defaults


async def test_only_requested_config_keys_are_described() -> None:
    resource = DescribeConfigsResource(TOPIC, "a", ["segment.bytes", "nope"])
    everything = DescribeConfigsResource(TOPIC, "a", [])
    some, all_ = (await describe(4, resource, everything)).results
    assert [e.name for e in some.configs] == ["segment.bytes"]
    assert len(all_.configs) > 20


async def test_one_resource_that_fails_does_not_hinder_the_others() -> None:
    wanted = [(TOPIC, "nope"), (TOPIC, "a b"), (TOPIC, "broken"), (BROKER, "2"), (8, "2"), (0, "x")]
    resources = [
        DescribeConfigsResource(kind, name, None) for kind, name in [*wanted, (TOPIC, "a")]
    ]
    response = await describe(4, *resources)
    assert [(r.resource_type, r.resource_name) for r in response.results[:-1]] == wanted
    assert [r.error_code for r in response.results] == [3, 17, -1, 42, 42, 42, 0]


# -- InitProducerId


async def begin(version: int, request: InitProducerIdRequest) -> InitProducerIdResponse:
    return await InitProducerIdHandler(TransactionLab().coordinator)(context(version), request)


@pytest.mark.parametrize("version", range(6))
async def test_a_producer_id(version: int) -> None:
    request = through_codec(InitProducerIdRequest(transactional_id=None), version)
    response: InitProducerIdResponse = await begin(version, request)
    response = through_codec(response, version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 100, 0)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": None, "producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": None, "producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_no_producer_id(fields: Any, error: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        await begin(5, InitProducerIdRequest(**fields))
    assert refused.value.code is error


# -- UpdateMetadata


async def test_metadata_is_applied_and_listeners_are_notified() -> None:
    cache = cache_with()
    changed: list[str] = []
    deleted: list[TopicPartition] = []
    handler = UpdateMetadataHandler(
        cache, ControllerFence(1, lambda: 0), changed.append, deleted.extend
    )
    states = [partition_state(0, 1), partition_state(1, LEADER_DURING_DELETE)]
    request = update({"a": states, "b": [partition_state(0, 2)]})
    assert await handler(context(7), request) == UpdateMetadataResponse()
    assert changed == ["a", "b"]
    assert deleted == [TopicPartition("a", 1)]
    assert list(cache.topics()) == ["a", "b"]


async def test_metadata_of_a_controller_of_the_past_is_not_taken_over() -> None:
    cache = cache_with()
    fence = ControllerFence(1, lambda: 0)
    newer = UpdateMetadataRequest(controller_id=2, controller_epoch=2, broker_epoch=0)
    assert fence.arrived("UpdateMetadata", newer).refusal() is ErrorCode.NONE
    handler = UpdateMetadataHandler(cache, fence, lambda topic: None)
    refused = await handler(context(7), update({"a": [partition_state(0, 1)]}))
    assert refused.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert list(cache.topics()) == []


async def test_preparations_run_before_the_metadata_change() -> None:
    """A newer request that arrives during the preparations is not undone."""
    cache, fence = cache_with(), ControllerFence(1, lambda: 0)
    ready = asyncio.Event()

    async def get_ready(topics: Collection[str]) -> None:
        assert list(topics) == ["a"]
        await ready.wait()

    slow = UpdateMetadataHandler(cache, fence, lambda topic: None, get_ready=get_ready)
    first = asyncio.ensure_future(slow(context(7), update({"a": [partition_state(0, 1)]})))
    await asyncio.sleep(0)
    assert list(cache.topics()) == []
    at_once = UpdateMetadataHandler(cache, fence, lambda topic: None)
    await at_once(context(7), update({"a": [partition_state(0, 2)]}))
    ready.set()
    assert (await first).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert cache.partition_leader(TopicPartition("a", 0)) == (2, 0)
