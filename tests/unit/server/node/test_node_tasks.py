"""While a node's task group ends, connections go on to serve requests: none of them may fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, encode_request
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.listeners.flow_control import Pause
from minikafka.server.node.node_tasks import NodeTasks
from tests.support.broker.api_rows import row, services, table
from tests.support.network.network_lab import Lab
from tests.support.world.manual_workers import ManualWorkers


class _Broken(Exception):
    pass


async def _break() -> None:
    raise _Broken


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_flow_control_serves_held_frames_in_the_turn_in_which_a_task_fails() -> None:
    served: list[Any] = []

    async def handler(context: Any, request: Any) -> None:
        served.append(request)

    lab = Lab()
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: unhandled.append(facts))
    api = row(ApiKey.DESCRIBE_CLUSTER, handler, task=True)
    apis = Apis(1, table(api), services(ManualWorkers()), lab.log)
    server = await lab.serve(apis.on_frame)
    peer = await lab.connect(server)
    await lab.until(lambda: server.connection_count == 1)
    (connection,) = server._connections.values()
    connection.flow.begin(Pause.MUTED)
    header = RequestHeader(ApiKey.DESCRIBE_CLUSTER, 0, 1, "me")

    async def run() -> None:
        async with NodeTasks() as tasks:
            apis.start(tasks)
            connection._serve([memoryview(encode_request(header, DescribeClusterRequest()))[4:]])
            assert connection.held
            failing = tasks.create_task(_break())
            failing.add_done_callback(lambda _: connection.flow.end_reason(Pause.MUTED))
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await run()
    assert [type(error) for error in caught.value.exceptions] == [_Broken]
    assert not connection.held
    assert not served
    assert not unhandled
    peer.writer.close()
    await lab.stop()


async def test_a_task_that_is_started_while_the_group_ends_is_cancelled() -> None:
    late: list[asyncio.Task[None]] = []

    async def run() -> None:
        async with NodeTasks() as tasks:
            failing = tasks.create_task(_break())
            failing.add_done_callback(lambda _: late.append(tasks.create_task(_break())))

    with pytest.raises(ExceptionGroup):
        await run()
    (task,) = late
    await asyncio.wait([task])
    assert task.cancelled()
