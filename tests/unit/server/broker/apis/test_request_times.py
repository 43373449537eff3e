"""Where the time of requests goes (Kafka's RequestMetrics)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.fetch import FetchRequest, ReplicaState
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.request_times import MAX_SOFTWARE, AllRequestTimes
from minikafka.server.listeners.connected_clients import ClientSoftware
from tests.support.broker.api_rows import row, services, table
from tests.support.metric_names import figures
from tests.support.network.network_lab import Lab, Peer
from tests.unit.server.broker.apis.test_apis import Stage, cluster, receive, send


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


def staged(lab: Lab, *routes: Api) -> Stage:
    """Requests are measured with the lab's clock."""
    stage = Stage(lab)
    stage.apis = Apis(
        1,
        table(*routes),
        services(stage.workers, lab.clock.monotonic_ns),
        lab.log,
        metrics=stage.metrics,
    )
    return stage


def send_together(peer: Peer, *messages: Any) -> None:
    """Send requests in one write, so that one read receives them."""
    headers = (RequestHeader(message.SPEC.api_key, 0, 7, "me") for message in messages)
    frames = [encode_request(h, m) for h, m in zip(headers, messages, strict=True)]
    peer.writer.write(b"".join(bytes(frame) for frame in frames))


def shown(metrics: Metrics, request: str) -> Callable[[str], float]:
    """Return a function that returns an attribute of a phase, such as ``Local:Max``."""
    found = figures(metrics, "kafka.network")

    def figure(name: str) -> float:
        phase, attribute = name.split(":")
        return found[f"{phase}TimeMs,request={request}:{attribute}"]

    return figure


@pytest.mark.mission("GLASS-1")
async def test_a_request_served_at_once_has_a_local_time_only(lab: Lab) -> None:
    def slow(context: RequestContext, request: Any, reply: Reply) -> None:
        lab.clock.advance(30)
        cluster(context, request, reply)

    stage = staged(lab, row(ApiKey.DESCRIBE_CLUSTER, slow))
    peer = await stage.open()
    for _ in range(2):
        send(peer, DescribeClusterRequest(), 0)
        await receive(peer, DescribeClusterResponse, 0)
    figure = shown(stage.metrics, "DescribeCluster")
    assert figure("Total:Count") == figure("Remote:Count") == figure("ResponseSend:Count") == 2
    assert figure("Total:Max") == figure("Local:Max") == 30
    assert figure("RequestQueue:Max") == figure("Remote:Max") == figure("Throttle:Max") == 0
    counts = figures(stage.metrics, "kafka.network")
    assert counts["RequestsPerSec,request=DescribeCluster,version=0"] == 2
    await stage.close()


@pytest.mark.mission("GLASS-1")
async def test_a_parked_request_has_a_remote_time_and_the_next_one_waits(lab: Lab) -> None:
    parked: list[Reply] = []

    def park(context: RequestContext, request: Any, reply: Reply) -> None:
        lab.clock.advance(2)
        parked.append(reply)

    def groups(context: RequestContext, request: Any, reply: Reply) -> None:
        reply(ListGroupsResponse())

    stage = staged(
        lab,
        row(ApiKey.DESCRIBE_CLUSTER, park),
        row(ApiKey.LIST_GROUPS, groups, changes_state=False),
    )
    peer = await stage.open()
    send_together(peer, DescribeClusterRequest(), ListGroupsRequest())
    await lab.until(lambda: bool(parked))
    lab.clock.advance(500)
    parked.pop()(DescribeClusterResponse())
    await receive(peer, DescribeClusterResponse, 0)
    await receive(peer, ListGroupsResponse, 0)
    first = shown(stage.metrics, "DescribeCluster")
    assert (first("Local:Max"), first("Remote:Max"), first("Total:Max")) == (2, 500, 502)
    second = shown(stage.metrics, "ListGroups")
    assert (second("RequestQueue:Max"), second("Local:Max"), second("Total:Max")) == (502, 0, 502)
    await stage.close()


@pytest.mark.mission("GLASS-1")
async def test_a_response_waits_for_those_of_earlier_requests(lab: Lab) -> None:
    parked: list[Reply] = []

    def park(context: RequestContext, request: Any, reply: Reply) -> None:
        parked.append(reply)

    stage = staged(lab, row(ApiKey.DESCRIBE_CLUSTER, park, overlapping=True))
    peer = await stage.open()
    send_together(peer, DescribeClusterRequest(), DescribeClusterRequest())
    await lab.until(lambda: len(parked) == 2)
    parked[1](DescribeClusterResponse())
    lab.clock.advance(40)
    parked[0](DescribeClusterResponse())
    for _ in range(2):
        await receive(peer, DescribeClusterResponse, 0)
    figure = shown(stage.metrics, "DescribeCluster")
    assert (figure("ResponseQueue:Max"), figure("ResponseQueue:Count")) == (40, 2)
    assert figure("Remote:Max") == 40
    await stage.close()


@pytest.mark.mission("GLASS-2")
async def test_errors_are_counted_by_their_names(lab: Lab) -> None:
    def fail(context: RequestContext, request: Any, reply: Reply) -> None:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    stage = staged(lab, row(ApiKey.DESCRIBE_CLUSTER, fail))
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    _, response = await receive(peer, DescribeClusterResponse, 0)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    name = "ErrorsPerSec,request=DescribeCluster,error=CLUSTER_AUTHORIZATION_FAILED"
    assert figures(stage.metrics, "kafka.network")[name] == 1
    await stage.close()


@pytest.mark.mission("GLASS-2")
async def test_errors_in_responses_are_counted_as_those_that_are_raised(lab: Lab) -> None:
    codes = [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]

    def respond(context: RequestContext, request: Any, reply: Reply) -> None:
        reply(DescribeClusterResponse(error_code=codes.pop()))

    def fail(context: RequestContext, request: Any, reply: Reply) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # for which there is no field

    stage = staged(lab, row(ApiKey.DESCRIBE_CLUSTER, respond), row(ApiKey.METADATA, fail))
    peer = await stage.open()
    for _ in range(3):
        send(peer, DescribeClusterRequest(), 0)
        await receive(peer, DescribeClusterResponse, 0)
    send(peer, MetadataRequest([]), 0)
    await lab.until(lambda: stage.server.connection_count == 0)
    counts = figures(stage.metrics, "kafka.network")
    errors = {name: count for name, count in counts.items() if name.startswith("ErrorsPerSec")}
    assert errors == {
        "ErrorsPerSec,request=DescribeCluster,error=INVALID_REQUEST": 1,
        "ErrorsPerSec,request=Metadata,error=UNKNOWN_TOPIC_OR_PARTITION": 1,
    }
    await stage.close()


@pytest.mark.mission("GLASS-81")
@pytest.mark.parametrize("most_on_loop", [1, 100])
async def test_errors_of_partitions_are_counted_one_by_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, most_on_loop: int
) -> None:
    monkeypatch.setattr("minikafka.server.broker.apis.pipeline.ON_LOOP_ELEMENTS", most_on_loop)
    codes = (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def respond(context: RequestContext, request: Any, reply: Reply) -> None:
        rows = [PartitionProduceResponse(index, code) for index, code in enumerate(codes)]
        topics = [
            TopicProduceResponse("a", partition_responses=rows),
            TopicProduceResponse("b", partition_responses=rows[:2]),
        ]
        reply(ProduceResponse(topics))

    stage = staged(lab, row(ApiKey.PRODUCE, respond))
    peer = await stage.open()
    send(peer, ProduceRequest(None, 1, 100, []), 9)
    await receive(peer, ProduceResponse, 9)
    counts = figures(stage.metrics, "kafka.network")
    errors = {name: count for name, count in counts.items() if name.startswith("ErrorsPerSec")}
    assert errors == {
        "ErrorsPerSec,request=Produce,error=MESSAGE_TOO_LARGE": 2,
        "ErrorsPerSec,request=Produce,error=NOT_LEADER_OR_FOLLOWER": 1,
    }
    assert stage.workers.calls == (most_on_loop == 1)
    await stage.close()


@pytest.mark.mission("GLASS-82")
async def test_the_sizes_of_requests_are_recorded(lab: Lab) -> None:
    parked: list[Reply] = []

    def park(context: RequestContext, request: Any, reply: Reply) -> None:
        parked.append(reply)

    stage = staged(lab, row(ApiKey.DESCRIBE_CLUSTER, park), row(ApiKey.LIST_GROUPS, list_groups))
    peer = await stage.open()
    sizes = []
    messages = {
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterRequest(),
        ApiKey.LIST_GROUPS: ListGroupsRequest(),
    }
    for api_key, message in messages.items():
        header = RequestHeader(api_key, 0, 7, "me")
        frame = bytes(encode_request(header, message))
        peer.writer.write(frame)
        sizes.append(len(frame) - 4)  # its own size is not counted
    await lab.until(lambda: bool(parked))
    parked.pop()(DescribeClusterResponse())
    await receive(peer, DescribeClusterResponse, 0)
    await receive(peer, ListGroupsResponse, 0)
    found = figures(stage.metrics, "kafka.network")
    for api, size in zip(("DescribeCluster", "ListGroups"), sizes, strict=True):
        assert found[f"RequestBytes,request={api}:Count"] == 1
        assert found[f"RequestBytes,request={api}:Max"] == size
    await stage.close()


def list_groups(context: RequestContext, request: Any, reply: Reply) -> None:
    reply(ListGroupsResponse())


@pytest.mark.mission("GLASS-83")
def test_requests_of_deprecated_versions_are_counted_by_client_up_to_a_number() -> None:
    metrics = Metrics()
    times = AllRequestTimes(metrics).of_fetch(FetchRequest())
    times.deprecated(3, ClientSoftware("id", "old,client", "0.1"))
    times.deprecated(3, ClientSoftware("other id", "old,client", "0.1"))
    for number in range(MAX_SOFTWARE + 5):
        times.deprecated(2, ClientSoftware("", str(number), ""))
    found = figures(metrics, "kafka.network")

    def count(request: str, version: int, name: str, its_version: str) -> float:
        tags = f"request={request},version={version},clientSoftwareName={name}"
        return found[f"DeprecatedRequestsPerSec,{tags},clientSoftwareVersion={its_version}"]

    for request in ("Fetch", "FetchConsumer"):
        assert count(request, 3, "old%2Cclient", "0.1") == 2
        assert count(request, 2, "7", "unknown") == 1
        assert count(request, 2, "others", "others") == 6
    assert len(found) == 2 * (MAX_SOFTWARE + 1)


@pytest.mark.mission("GLASS-83")
async def test_the_broker_counts_requests_of_versions_that_kafka_4_has_removed(lab: Lab) -> None:
    def respond(context: RequestContext, request: Any, reply: Reply) -> None:
        reply(ProduceResponse([]))

    stage = staged(lab, row(ApiKey.PRODUCE, respond))
    peer = await stage.open()
    for version in (6, 7):
        send(peer, ProduceRequest(None, 1, 100, []), version)
        await receive(peer, ProduceResponse, version)
    found = figures(stage.metrics, "kafka.network")
    (name,) = [name for name in found if name.startswith("Deprecated")]
    client = "clientSoftwareName=unknown,clientSoftwareVersion=unknown"
    assert name == f"DeprecatedRequestsPerSec,request=Produce,version=6,{client}"
    await stage.close()


@pytest.mark.mission("GLASS-1")
def test_fetches_of_consumers_and_followers_are_separate_and_add_up() -> None:
    metrics = Metrics()
    times = AllRequestTimes(metrics)
    for request, version in (
        (FetchRequest(), 12),
        (FetchRequest(replica_id=2), 12),
        (FetchRequest(replica_state=ReplicaState(3, 1)), 17),
    ):
        of_kind = times.of_fetch(request)
        of_kind.arrived(version)
        of_kind.served(0, 5_000, 100)
    found = figures(metrics, "kafka.network")
    assert found["RequestsPerSec,request=FetchConsumer,version=12"] == 1
    assert found["RequestsPerSec,request=FetchFollower,version=12"] == 1
    assert found["RequestsPerSec,request=FetchFollower,version=17"] == 1
    assert found["RequestsPerSec,request=Fetch,version=12"] == 2
    assert shown(metrics, "FetchFollower")("Local:Count") == 2
    assert shown(metrics, "FetchConsumer")("Local:Count") == 1
    # The whole is read after its parts, or at the next reading.
    assert shown(metrics, "Fetch")("Local:Count") == 3


@pytest.mark.mission("GLASS-1")
def test_every_phase_counts_every_request() -> None:
    metrics = Metrics()
    times = AllRequestTimes(metrics).of_api(ApiKey.PRODUCE)
    times.arrived(9)
    for _ in range(1_000):
        times.served(0, 10, 100)
    times.responded(1_000, 2_000, 3_000, 100)
    times.response_sent(7_000)
    figure = shown(metrics, "Produce")
    for phase in ("Total", "RequestQueue", "Local", "Remote", "ResponseQueue", "ResponseSend"):
        assert figure(f"{phase}:Count") == 1_001
    assert figure("Total:Max") == 6
    assert figure("ResponseSend:Max") == 7
    assert figure("RequestQueue:50thPercentile") == 0
    assert figure("Local:50thPercentile") == 0.01
