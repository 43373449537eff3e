"""The ControlledShutdown request of a stopping broker: attempts, back-off, success."""

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.codec import decode
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from minikafka.protocol.messages.update_metadata import UpdateMetadataPartitionState
from minikafka.server.broker.controlled_shutdown import (
    LINGER_MS,
    METADATA_CHECK_MS,
    METADATA_LIMIT_MS,
    ControlledShutdownConfig,
    ShutdownHandover,
)
from tests.support.broker.cluster_metadata import cache_with, live_broker, partition_state, update
from tests.support.network.network_lab import Lab
from tests.support.world.manual_clock import ManualClock

STILL_LED = [RemainingPartition(topic_name="t", partition_index=0)]


class Hurried(ManualClock):
    """Sleeps are noted and over at once; ``at_sleep`` happens in them."""

    def __init__(self) -> None:
        super().__init__()
        self.slept_ms: list[int] = []
        self.at_sleep: list[Callable[[], object]] = []

    async def sleep(self, delay_ms: int) -> None:
        self.slept_ms.append(delay_ms)
        self.now_ms += delay_ms
        if self.at_sleep:
            self.at_sleep.pop(0)()


class Stage:
    """A controller that sends the given responses, one an attempt."""

    def __init__(self, *responses: ControlledShutdownResponse) -> None:
        self.responses = list(responses)
        self.requests: list[ControlledShutdownRequest] = []
        self.connections: set[int] = set()
        self.clock = Hurried()
        self.lab = Lab()
        self.cache = cache_with(update(controller=-1))

    async def open(self) -> None:
        def on_frame(connection: Any, frame: memoryview) -> None:
            header, body = decode_request_header(frame)
            self.requests.append(
                decode(ControlledShutdownRequest, header.api_version, frame[body:])
            )
            self.connections.add(connection.number)
            response = encode_response(
                header.correlation_id, self.responses.pop(0), header.api_version
            )
            connection.open_slot(len(frame)).send(response)

        server = await self.lab.serve(on_frame)
        self.broker = live_broker(2)
        self.broker.endpoints[0].host, self.broker.endpoints[0].port = "127.0.0.1", server.port
        self.update_metadata()

    def update_metadata(self, *states: UpdateMetadataPartitionState) -> None:
        """Broker 2, the controller, sends UpdateMetadata for topic t."""
        self.cache.update(update({"t": states}, brokers=[self.broker], controller=2))

    async def run(self, **config: Any) -> bool:
        view = ControlledShutdownConfig(**config)
        shutdown = ShutdownHandover(self.lab.network, self.clock, self.cache, 1, view)
        try:
            return await shutdown.run(broker_epoch=77)
        finally:
            await self.lab.stop()


@pytest.mark.mission("CSH-7", "CSH-12")
async def test_one_request_on_its_own_connection_is_enough() -> None:
    stage = Stage(ControlledShutdownResponse())
    await stage.open()
    assert await stage.run()
    assert [(r.broker_id, r.broker_epoch) for r in stage.requests] == [(1, 77)]
    assert stage.clock.slept_ms == []


@pytest.mark.mission("CSH-6", "CSH-12")
async def test_remaining_partitions_and_errors_cause_a_retry() -> None:
    stage = Stage(
        ControlledShutdownResponse(remaining_partitions=STILL_LED),
        ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH),
        ControlledShutdownResponse(),
    )
    await stage.open()
    assert await stage.run()
    assert stage.clock.slept_ms == [5000, 5000]
    assert len(stage.connections) == 3


@pytest.mark.mission("CSH-5")
async def test_it_gives_up_after_its_attempts() -> None:
    stage = Stage(*(ControlledShutdownResponse(remaining_partitions=STILL_LED) for _ in range(9)))
    await stage.open()
    assert not await stage.run(max_retries=3, retry_backoff_ms=10)
    assert len(stage.requests) == 3
    assert stage.clock.slept_ms == [10, 10]


async def test_without_a_controller_it_gives_up_too() -> None:
    stage = Stage()
    assert not await stage.run()
    assert stage.clock.slept_ms == [5000, 5000]


@pytest.mark.mission("CSH-4")
async def test_it_can_be_switched_off() -> None:
    stage = Stage(ControlledShutdownResponse())
    await stage.open()
    assert not await stage.run(enable=False)
    assert stage.requests == []


@pytest.mark.mission("CSH-3")
async def test_broker_serves_until_the_new_leaders_are_known() -> None:
    """And a little longer, so that clients get NOT_LEADER_OR_FOLLOWER, not a closed connection."""
    stage = Stage(ControlledShutdownResponse())
    await stage.open()
    stage.update_metadata(partition_state(0, 1), partition_state(1, 1, [1]))  # one cannot move
    moved = partition_state(0, 2, leader_epoch=1)
    stage.clock.at_sleep = [lambda: None, lambda: stage.update_metadata(moved)]
    assert await stage.run()
    assert stage.clock.slept_ms == [METADATA_CHECK_MS, METADATA_CHECK_MS, LINGER_MS]


async def test_waiting_for_new_leaders_ends_at_a_limit() -> None:
    stage = Stage(ControlledShutdownResponse())
    await stage.open()
    stage.update_metadata(partition_state(0, 1))
    assert await stage.run()
    assert sum(stage.clock.slept_ms) == METADATA_LIMIT_MS + LINGER_MS
