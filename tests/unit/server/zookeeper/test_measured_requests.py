"""How long ZooKeeper takes is measured for each request with a response."""

from __future__ import annotations

import pytest

from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import ConnectionLost, CreateOp, NodeExists
from minikafka.server.zookeeper.measured_requests import LATENCY, MeasuredRequests
from minikafka.server.zookeeper.requests import Requests
from tests.support.zookeeper.direct import DirectSession


@pytest.mark.mission("GLASS-52")
async def test_responses_and_errors_count_and_lost_requests_do_not(session: DirectSession) -> None:
    now = 0

    def now_ns() -> int:
        nonlocal now
        now += 3_000_000
        return now

    metrics = Metrics()
    requests = Requests(session, MeasuredRequests(now_ns, lambda: 0, metrics))
    latencies = metrics.histogram(LATENCY)
    assert await requests.get("/nowhere") is None
    assert (latencies.count, latencies.max) == (1, 3)
    assert await requests.create(CreateOp("/a", b""))
    assert not await requests.create(CreateOp("/a", b""))
    assert latencies.count == 3
    attempts = 0

    async def lost_once() -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ConnectionLost
        raise NodeExists("/a")

    with pytest.raises(NodeExists):
        await requests.until_response(lost_once)
    assert (attempts, latencies.count) == (2, 4)
