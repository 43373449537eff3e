"""The way to the controller: found by the metadata cache, tried again until time is up."""

import asyncio
from typing import Any

import pytest

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.server.broker.node_to_controller import NodeToController, NodeToControllerConfig
from minikafka.world.sim.entropy import SimEntropy
from tests.support.broker.cluster_metadata import cache_with, live_broker, update
from tests.support.network.network_lab import Lab


class Stage:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.cache = cache_with(update(controller=-1))
        config = NodeToControllerConfig(request_timeout_ms=1000, controller_socket_timeout_ms=300)
        self.link = NodeToController(
            lab.network, lab.clock, SimEntropy("test"), self.cache, 1, config, lab.log
        )

    async def controller(
        self, broker_id: int, responds: bool = True, offers: tuple[int, ...] = ()
    ) -> None:
        """A server that is the controller from now on. Its ApiVersions has the keys ``offers``."""

        def on_frame(connection: Any, frame: memoryview) -> None:
            header, _ = decode_request_header(frame)
            slot = connection.open_slot(len(frame))
            if header.api_key == ApiKey.API_VERSIONS:
                listed = ApiVersionsResponse(api_keys=[ApiVersion(key) for key in offers])
                slot.send(encode_response(header.correlation_id, listed, header.api_version))
            elif responds:
                response = DescribeClusterResponse(controller_id=broker_id)
                slot.send(encode_response(header.correlation_id, response, header.api_version))

        server = await self.lab.serve(on_frame)
        broker = live_broker(broker_id)
        broker.endpoints[0].host, broker.endpoints[0].port = "127.0.0.1", server.port
        self.cache.update(update(brokers=[broker], controller=broker_id))


@pytest.fixture
async def stage() -> Any:
    lab = Lab()
    stage = Stage(lab)
    async with asyncio.TaskGroup() as tasks:
        stage.link.start(tasks)
        yield stage
        await stage.link.close()
    await lab.stop()


def send(stage: Stage) -> asyncio.Future[Any]:
    return asyncio.ensure_future(stage.link.request(DescribeClusterRequest(), 0))


async def test_requests_go_to_the_current_controller(stage: Any) -> None:
    await stage.controller(2)
    requests = [send(stage) for _ in range(3)]
    assert [(await a).controller_id for a in requests] == [2, 2, 2]
    await stage.controller(3)
    assert (await send(stage)).controller_id == 3


async def test_waits_until_there_is_a_controller(stage: Any) -> None:
    requests = send(stage)
    await stage.lab.until(lambda: len(stage.lab.clock.timers) > 0)
    await stage.controller(2)
    stage.lab.clock.advance(200)
    assert (await requests).controller_id == 2


async def test_tries_another_connection_when_the_controller_is_mute(stage: Any) -> None:
    await stage.controller(2, responds=False)
    requests = send(stage)
    await stage.lab.until(
        lambda: any(t.due_ms == 300 and not t.cancelled for t in stage.lab.clock.timers)
    )
    await stage.controller(3)
    stage.lab.clock.advance(300)
    await stage.lab.until(lambda: stage.lab.log.events != [])
    for _ in range(5):
        await asyncio.sleep(0)
    stage.lab.clock.advance(200)
    assert (await requests).controller_id == 3


@pytest.mark.mission("MIX-4")
async def test_the_versions_of_each_controller_are_requested(stage: Any) -> None:
    request = DescribeClusterRequest()
    await stage.controller(2, offers=(ApiKey.DESCRIBE_CLUSTER,))
    response = await stage.link.request_if_offered(request, 0, 1000)
    assert response.controller_id == 2
    assert await stage.link.request_if_offered(request, 1, 1000) is None  # version 1 is not offered
    await stage.controller(3, offers=(ApiKey.METADATA,))
    assert await stage.link.request_if_offered(request, 0, 1000) is None
    assert (await send(stage)).controller_id == 3


@pytest.mark.mission("FWD-3")
async def test_only_a_controller_that_suits_gets_the_request(stage: Any) -> None:
    seen: list[list[int]] = []

    def suits(rows: Any) -> bool:
        seen.append([row.api_key for row in rows])
        return ApiKey.METADATA in seen[-1]

    request = DescribeClusterRequest()
    await stage.controller(2, offers=(ApiKey.DESCRIBE_CLUSTER,))
    assert await stage.link.request_if(suits, request, 0, 1000) is None
    await stage.controller(3, offers=(ApiKey.DESCRIBE_CLUSTER, ApiKey.METADATA))
    assert (await stage.link.request_if(suits, request, 0, 1000)).controller_id == 3
    assert [len(keys) for keys in seen] == [1, 2]
    assert stage.link.waiting == 0
    await stage.controller(2, responds=False)
    requests = [send(stage), send(stage)]
    await asyncio.sleep(0)
    assert stage.link.waiting == 2
    await stage.link.close()
    for pending in requests:
        with pytest.raises(ConnectionError):
            await pending


async def test_gives_up_in_the_end(stage: Any) -> None:
    requests = send(stage)
    for _ in range(30):
        await asyncio.sleep(0)
        stage.lab.clock.advance(100)
    with pytest.raises(TimeoutError):
        await requests


async def test_stopping_fails_requests_without_response(stage: Any) -> None:
    requests = [send(stage), send(stage)]
    await asyncio.sleep(0)
    await stage.link.close()
    for pending in requests:
        with pytest.raises(ConnectionError):
            await pending


@pytest.mark.mission("MIX-6")
async def test_the_highest_version_of_both_is_requested(stage: Any) -> None:
    made: list[int] = []

    def make(version: int) -> DescribeClusterRequest:
        made.append(version)
        return DescribeClusterRequest()

    key = ApiKey.DESCRIBE_CLUSTER
    await stage.controller(2, offers=(key,))  # version 0
    response = await stage.link.request_in_highest_version(key, 1, make, 1000)
    assert response.controller_id == 2
    assert made == [0]
    await stage.controller(3, offers=(ApiKey.METADATA,))
    assert await stage.link.request_in_highest_version(key, 1, make, 1000) is None
    assert made == [0]


@pytest.mark.mission("MIX-6")
async def test_a_request_in_flight_moves_to_a_new_controller_at_once(stage: Any) -> None:
    await stage.controller(2, responds=False)
    requests = send(stage)
    await stage.lab.until(
        lambda: any(t.due_ms == 300 and not t.cancelled for t in stage.lab.clock.timers)
    )
    await stage.controller(3)
    await stage.lab.until(lambda: stage.lab.log.events != [])
    for _ in range(5):
        await asyncio.sleep(0)
    stage.lab.clock.advance(200)  # the back-off; the time-out of the old controller is 300
    assert (await requests).controller_id == 3


@pytest.mark.mission("MIX-6")
@pytest.mark.parametrize("connects_late", [False, True])
async def test_a_connection_that_is_being_set_up_moves_to_a_new_controller(
    stage: Any, monkeypatch: pytest.MonkeyPatch, connects_late: bool
) -> None:
    """The old controller's machine may be off, or accept the connection in the same moment."""
    connect = stage.lab.network.connect
    attempts: list[int] = []
    waits = asyncio.Event()

    async def connect_slowly(make: Any, host: str, port: int) -> Any:
        attempts.append(port)
        if len(attempts) > 1:
            return await connect(make, host, port)
        connection = await connect(make, host, port) if connects_late else None
        waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not connects_late:
                raise
        return connection

    monkeypatch.setattr(stage.lab.network, "connect", connect_slowly)
    await stage.controller(2, responds=False)
    requests = send(stage)
    await waits.wait()
    await stage.controller(3)
    await stage.lab.until(lambda: stage.lab.log.events != [])
    assert "no longer the controller" in str(stage.lab.log.events[0])  # not that time was up
    for _ in range(5):
        await asyncio.sleep(0)
    stage.lab.clock.advance(200)  # the back-off; the time-out of the old controller is 300
    assert (await requests).controller_id == 3
