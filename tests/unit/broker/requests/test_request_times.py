"""Where the time of requests goes (Kafka's RequestMetrics)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.broker.requests.apis import Apis, Reply, RequestContext, Route
from minikafka.broker.requests.request_times import AllRequestTimes
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
from tests.support.metric_names import figures
from tests.support.network.network_lab import Lab, Peer
from tests.unit.broker.requests.test_apis import Stage, cluster, receive, send


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


def staged(lab: Lab, *routes: Route) -> Stage:
    """Requests are measured with the lab's clock."""
    stage = Stage(lab)
    stage.apis = Apis(
        1,
        routes,
        stage.workers,
        lab.log,
        monotonic_ns=lab.clock.monotonic_ns,
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

    stage = staged(lab, Route(ApiKey.DESCRIBE_CLUSTER, slow))
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
        Route(ApiKey.DESCRIBE_CLUSTER, park),
        Route(ApiKey.LIST_GROUPS, groups, changes_state=False),
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

    stage = staged(lab, Route(ApiKey.DESCRIBE_CLUSTER, park, overlapping=True))
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

    stage = staged(lab, Route(ApiKey.DESCRIBE_CLUSTER, fail))
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

    stage = staged(lab, Route(ApiKey.DESCRIBE_CLUSTER, respond), Route(ApiKey.METADATA, fail))
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
        of_kind.served_at_once(5_000)
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
        times.served_at_once(10)
    times.responded(1_000, 2_000, 3_000)
    times.response_sent(7_000)
    figure = shown(metrics, "Produce")
    for phase in ("Total", "RequestQueue", "Local", "Remote", "ResponseQueue", "ResponseSend"):
        assert figure(f"{phase}:Count") == 1_001
    assert figure("Total:Max") == 6
    assert figure("ResponseSend:Max") == 7
    assert figure("RequestQueue:50thPercentile") == 0
    assert figure("Local:50thPercentile") == 0.01
