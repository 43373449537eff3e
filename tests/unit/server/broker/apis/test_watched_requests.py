"""A page sees the slowest and the last requests, and nothing is kept while no page looks."""

from __future__ import annotations

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
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.request_times import FACTS_MS, QUIET_FACTS_MS, AllRequestTimes
from minikafka.server.broker.apis.watched_requests import FACTS_MS as SHOWN_MS
from minikafka.server.broker.apis.watched_requests import (
    MAX_OF_ONE_API,
    MAX_REQUESTS,
    MAX_TEXT,
    WATCHED_MS,
    WINDOW_MS,
    SlowestRequests,
    WatchedRequest,
    WatchedRequests,
)
from tests.support.broker.api_rows import row, services, table
from tests.support.network.network_lab import Lab
from tests.support.world.manual_clock import StoppedClock
from tests.support.world.manual_workers import ManualWorkers
from tests.unit.server.broker.apis.test_apis import Stage, cluster, receive, send


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


class Watched(Stage):
    """A server of DescribeCluster. The handler takes ``local_ms``. With ``park`` it puts the reply
    into ``parked`` and does not call it."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.park = False
        self.local_ms = 0
        self.parked: list[Reply] = []

        def handle(context: RequestContext, request: Any, reply: Reply) -> None:
            lab.clock.advance(self.local_ms)
            if self.park:
                self.parked.append(reply)
            else:
                cluster(context, request, reply)

        route = row(ApiKey.DESCRIBE_CLUSTER, handle, overlapping=True)
        self.apis = Apis(
            1,
            table(route),
            services(self.workers, lab.clock.monotonic_ns),
            lab.log,
            metrics=self.metrics,
        )
        self.watched = WatchedRequests(self.apis, lab.clock)


@pytest.mark.mission("GLASS-50")
async def test_nothing_is_kept_before_a_look_and_long_after_it(lab: Lab) -> None:
    stage = Watched(lab)
    peer = await stage.open()

    async def request(correlation_id: int) -> list[int]:
        send(peer, DescribeClusterRequest(), 0, correlation_id)
        await receive(peer, DescribeClusterResponse, 0)
        lab.clock.advance(SHOWN_MS)
        return [each["correlation_id"] for each in stage.watched.facts()["last"]]

    assert await request(1) == []
    assert stage.apis.watch is None  # so that a request costs nothing more
    stage.watched.watch()
    assert await request(2) == [2]
    assert await request(3) == [3, 2]
    lab.clock.advance(WATCHED_MS + 1)
    assert await request(4) == [3, 2]
    assert stage.apis.watch is None
    stage.watched.watch()
    assert await request(5) == [5, 3, 2]
    await stage.close()


@pytest.mark.mission("GLASS-50")
async def test_a_request_is_shown_with_its_client_and_its_phases(lab: Lab) -> None:
    stage = Watched(lab)
    stage.watched.watch()
    peer = await stage.open()
    stage.local_ms, stage.park = 2, True
    for correlation_id in (1, 2):
        header = RequestHeader(ApiKey.DESCRIBE_CLUSTER, 0, correlation_id, "x" * 1000)
        peer.writer.write(encode_request(header, DescribeClusterRequest()))
    await lab.until(lambda: len(stage.parked) == 2)
    lab.clock.advance(10)
    stage.parked[1](DescribeClusterResponse())
    lab.clock.advance(30)
    stage.parked[0](DescribeClusterResponse())
    for _ in range(2):
        await receive(peer, DescribeClusterResponse, 0)
    facts = stage.watched.facts()
    first, second = facts["slowest"]
    assert facts["last"] == [first, second]  # of both, the slower one was the later one
    assert (first["api"], first["version"], first["correlation_id"]) == ("DescribeCluster", 0, 1)
    assert (first["client"], first["client_id"]) == ("127.0.0.1", "x" * MAX_TEXT)
    assert first["size_bytes"] > 1000
    assert first["time_ms"] == lab.clock.wall_ms()
    assert first["local_us"] == 2_000
    assert first["remote_us"] + first["local_us"] + first["queue_us"] == first["total_us"]
    assert (first["wait_us"], second["wait_us"]) == (0, 30_000)
    assert second["remote_us"] == 10_000
    await stage.close()


@pytest.mark.mission("GLASS-50")
async def test_watched_requests_are_counted_as_others_are(lab: Lab) -> None:
    stage = Watched(lab)
    peer = await stage.open()
    for local_ms in (1, 5):
        stage.local_ms = local_ms
        send(peer, DescribeClusterRequest(), 0)
        await receive(peer, DescribeClusterResponse, 0)
        stage.watched.watch()
    ((name, facts),) = stage.apis.times.facts(lab.clock.monotonic_ms())
    assert (name, facts["count"], facts["versions"], facts["errors"]) == (
        "DescribeCluster",
        2,
        {"0": 2},
        {},
    )
    assert facts["phases"]["local"] == {
        "p50_us": pytest.approx(1_000, rel=1 / 8),
        "p99_us": 5_000,
        "max_us": 5_000,
        "mean_us": 3_000,
    }
    assert facts["phases"]["remote"] == dict.fromkeys(("p50_us", "p99_us", "max_us", "mean_us"), 0)
    await stage.close()


def slow(api: str, total_us: int) -> WatchedRequest:
    watching = WatchedRequests(Apis(1, {}, services(ManualWorkers())), StoppedClock())
    times = AllRequestTimes(Metrics()).of(api)
    request = WatchedRequest(watching, times, 0, 0, "", "h", 10)
    request.local_us = total_us
    return request


@pytest.mark.mission("GLASS-50")
def test_the_slowest_are_those_of_each_api_and_of_the_last_minute() -> None:
    slowest = SlowestRequests()
    for total_us in (*range(100), *range(100)):
        slowest.note(slow("Fetch", 1_000_000 + total_us), 1)
    slowest.note(slow("Produce", 7), 2)
    found = [request.total_us for request in slowest.slowest(3)]
    assert found == [*sorted([*range(1_000_095, 1_000_100)] * 2, reverse=True), 7]
    assert len(found) == MAX_OF_ONE_API + 1
    assert len(slowest.slowest(WINDOW_MS + 5)) == MAX_OF_ONE_API + 1
    slowest.note(slow("Produce", 8), WINDOW_MS + 6)
    assert [each.total_us for each in slowest.slowest(WINDOW_MS + 7)][-2:] == [8, 7]
    assert [each.total_us for each in slowest.slowest(2 * WINDOW_MS)] == [8]
    assert slowest.slowest(3 * WINDOW_MS) == []
    for api in range(30):
        for number in range(3):
            slowest.note(slow(str(api), number), 3 * WINDOW_MS)
    assert len(slowest.slowest(3 * WINDOW_MS)) == MAX_REQUESTS


@pytest.mark.mission("GLASS-50")
def test_the_facts_of_an_api_are_computed_once_a_second() -> None:
    all_times = AllRequestTimes(Metrics())
    all_times.of_api(ApiKey.LIST_GROUPS)  # which nobody calls
    times = all_times.of_api(ApiKey.METADATA)

    def look(now_ms: int) -> Any:
        ((name, facts),) = all_times.facts(now_ms)
        assert name == "Metadata"
        return facts

    def serve(local_us: int) -> None:
        times.arrived(1)
        times.served(0, local_us, 100)

    serve(10)
    first = look(5)
    assert look(5 + QUIET_FACTS_MS - 1) is first
    serve(20)
    assert look(5 + FACTS_MS - 1) is first
    second = look(5 + FACTS_MS)
    assert (second["count"], second["phases"]["total"]["max_us"]) == (2, 20)
    times.failed("INVALID_REQUEST")
    later = look(5 + FACTS_MS + QUIET_FACTS_MS)
    assert later["errors"] == {"INVALID_REQUEST": 1}


@pytest.mark.mission("GLASS-50")
async def test_a_request_that_fails_is_noted(lab: Lab) -> None:
    def fail(context: RequestContext, request: Any, reply: Reply) -> None:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    stage = Watched(lab)
    stage.apis = Apis(
        1, table(row(ApiKey.DESCRIBE_CLUSTER, fail)), services(stage.workers), lab.log
    )
    watched = WatchedRequests(stage.apis, lab.clock)
    watched.watch()
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    await receive(peer, DescribeClusterResponse, 0)
    assert len(watched.facts()["last"]) == 1
    await stage.close()
