"""The time of the loop that requests take, in handlers of both kinds, throttles their client."""

import asyncio
from typing import Any

import pytest

from minikafka.core.client_quota import ANY
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import ClientQuotas
from tests.support.broker.api_rows import row, services, table
from tests.support.network.network_lab import Lab, Peer
from tests.support.world.manual_workers import ManualWorkers

SHORT_MS, LONG_MS = 200, 700  # of the 500 ms in ten seconds that five percent are


class Stage:
    """Two handlers that take time: DescribeCluster at once, ListGroups in a task."""

    def __init__(self, lab: Lab, limit: str) -> None:
        self.lab = lab
        self.clock = lab.clock
        self.busy_ms = 0
        self.controller_ms = 0  # for how long the controller throttles, if it served the request
        self.quotas = ClientQuotas(self.clock)
        self.quotas.set(ANY, "me", {"request_percentage": limit})
        routes = [
            row(ApiKey.DESCRIBE_CLUSTER, self.at_once, changes_state=False),
            row(ApiKey.LIST_GROUPS, self.in_a_task, task=True, changes_state=False),
        ]
        self.apis = Apis(
            1,
            table(*routes),
            services(ManualWorkers()),
            lab.log,
            quotas=self.quotas,
        )

    def at_once(self, context: RequestContext, request: Any, reply: Reply) -> None:
        self.clock.now_ms += self.busy_ms
        reply(DescribeClusterResponse())

    async def in_a_task(self, context: RequestContext, request: Any) -> ListGroupsResponse:
        assert context.throttle is not None
        context.throttle.throttled_by_controller(self.controller_ms)
        self.clock.now_ms += self.busy_ms // 2
        await asyncio.sleep(0)
        self.clock.now_ms += self.busy_ms - self.busy_ms // 2
        if request.states_filter:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return ListGroupsResponse()

    async def throttled(self, peer: Peer, request: Any, response: Any, busy_ms: int) -> int:
        """Send a request that takes so long, and return its throttle time."""
        self.busy_ms = busy_ms
        version = request.SPEC.api_key.max_version
        header = RequestHeader(request.SPEC.api_key, version, 7, "me")
        peer.writer.write(encode_request(header, request))
        async with asyncio.timeout(5):
            frame = memoryview(await peer.receive())
        found: int = decode_response(response, version, frame)[1].throttle_time_ms
        return found


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


@pytest.mark.mission("SEC-149")
@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (DescribeClusterRequest(), DescribeClusterResponse),
        (ListGroupsRequest(), ListGroupsResponse),
        (ListGroupsRequest(states_filter=["x"]), ListGroupsResponse),
    ],
)
async def test_handlers_of_both_kinds_are_measured(lab: Lab, request_: Any, response: Any) -> None:
    stage = Stage(lab, "5")
    async with asyncio.TaskGroup() as tasks:
        stage.apis.start(tasks)
        server = await lab.serve(stage.apis.on_frame)
        peer = await lab.connect(server)
        assert await stage.throttled(peer, request_, response, SHORT_MS) == 0
        throttle_ms = await stage.throttled(peer, request_, response, LONG_MS)
        assert throttle_ms == 1_000
        # The connection is muted, and another one of the client is not.
        other = await lab.connect(server)
        assert await stage.throttled(other, request_, response, 0) == 1_000
        waiting = asyncio.ensure_future(stage.throttled(peer, request_, response, 0))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        lab.clock.advance(throttle_ms)
        await waiting
        stage.apis.close()


@pytest.mark.mission("FWD-5")
async def test_a_client_that_the_controller_throttles_is_muted_here(lab: Lab) -> None:
    stage = Stage(lab, "5")
    request = ListGroupsRequest()
    async with asyncio.TaskGroup() as tasks:
        stage.apis.start(tasks)
        peer = await lab.connect(await lab.serve(stage.apis.on_frame))
        stage.controller_ms = 300
        assert await stage.throttled(peer, request, ListGroupsResponse, SHORT_MS) == 300
        stage.controller_ms = 0
        waiting = asyncio.ensure_future(stage.throttled(peer, request, ListGroupsResponse, 0))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        lab.clock.advance(300)
        assert await waiting == 0
        # This broker's own throttle time is longer.
        stage.controller_ms = 300
        assert await stage.throttled(peer, request, ListGroupsResponse, LONG_MS) == 1_000
        stage.apis.close()
