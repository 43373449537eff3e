"""Requests to brokers: in order, repeated until answered or the broker is gone; their answers."""

import asyncio
import gc
import weakref
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.core.controller import events
from minikafka.core.controller.request_batch import BrokerRequest
from minikafka.kernel.cluster import Broker, Endpoint
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.server.controller import channel_manager as module
from minikafka.server.controller.channel_manager import ControllerChannels
from minikafka.server.controller.config import ControllerConfig
from tests.support.world.manual_clock import ManualClock


def broker(broker_id: int) -> Any:
    return Broker(broker_id, (Endpoint("h", 1),))


def request(broker_id: int, number: int) -> Any:
    """``number`` tells requests apart."""
    return BrokerRequest(broker_id, UpdateMetadataRequest(controller_epoch=number))


class Peer:
    """A broker behind a fake connection. ``script`` says what happens to each request in turn."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.script: list[Any] = []
        self.opened = 0
        self.gate = None

    async def connect(self, broker: Any) -> Any:
        await asyncio.sleep(0)
        self.opened += 1
        if self.script and self.script[0] == "refuse":
            self.script.pop(0)
            raise ConnectionError("refused")
        return self

    def close(self) -> None:
        pass

    async def request(self, message: Any, version: int, timeout_ms: int) -> Any:
        assert (version, timeout_ms) == (8, 30_000)
        await asyncio.sleep(0)
        step = self.script.pop(0) if self.script else "answer"
        if step in ("reset", "timeout"):
            raise (ConnectionError if step == "reset" else TimeoutError)(step)
        self.got.append(message.controller_epoch)
        if step == "hang":
            await asyncio.get_running_loop().create_future()
        code = ErrorCode.STALE_CONTROLLER_EPOCH if step == "stale" else ErrorCode.NONE
        return UpdateMetadataResponse(error_code=code)


@pytest.fixture
def world(manual_clock: ManualClock) -> Any:
    @asynccontextmanager
    async def make() -> Any:
        put: list[events.ControllerEvent] = []
        peer, metrics = Peer(), Metrics()
        async with asyncio.TaskGroup() as tasks:
            made = ControllerChannels(
                peer.connect, manual_clock, ControllerConfig(9), put.append, metrics
            )
            made.start(tasks)
            yield made, peer, put, metrics
            await made.shutdown()

    return make


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.mission("CRS-3", "CTX-6")
async def test_requests_are_sent_in_order_and_responses_become_events(world: Any) -> None:
    async with world() as (channels, peer, put, _):
        channels.add_broker(broker(1))
        for number in range(5):
            channels.send(request(1, number))
        await turns()
        assert peer.got == [0, 1, 2, 3, 4]
        assert peer.opened == 1
        assert put == [
            events.UpdateMetadataResponseReceived(1, n, ErrorCode.NONE) for n in range(5)
        ]
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "Controller-9-to-broker-1-send-thread" in names


@pytest.mark.parametrize("trouble", ["refuse", "reset", "timeout"])
async def test_a_request_is_retried_until_its_response_comes(
    world: Any, manual_clock: ManualClock, trouble: Any
) -> None:
    async with world() as (channels, peer, put, _):
        channels.add_broker(broker(1))
        peer.script = [trouble, trouble]
        channels.send(request(1, 0))
        channels.send(request(1, 1))
        await turns()
        assert peer.got == []
        for _ in range(2):
            manual_clock.advance(module.RETRY_BACKOFF_MS)
            await turns()
        assert peer.got == [0, 1]
        assert len(put) == 2


async def test_an_error_response_is_passed_on(world: Any) -> None:
    async with world() as (channels, peer, put, _):
        channels.add_broker(broker(1))
        peer.script = ["stale"]
        channels.send(request(1, 0))
        await turns()
        assert put == [
            events.UpdateMetadataResponseReceived(1, 0, ErrorCode.STALE_CONTROLLER_EPOCH)
        ]


async def test_a_removed_broker_gets_no_further_requests(
    world: Any, manual_clock: ManualClock
) -> None:
    async with world() as (channels, peer, put, metrics):
        channels.add_broker(broker(1))
        peer.script = ["reset"]
        channels.send(request(1, 0))
        channels.send(request(1, 1))
        await turns()
        assert (
            metrics.snapshot()["kafka.controller:type=ControllerChannelManager,name=TotalQueueSize"]
            == 1
        )
        await channels.remove_broker(1)
        await channels.remove_broker(1)
        manual_clock.advance(module.RETRY_BACKOFF_MS)
        channels.send(request(1, 2))
        await turns()
        assert peer.got == []
        channels.add_broker(broker(1))  # back: a queue of its own
        channels.send(request(1, 3))
        await turns()
        assert peer.got == [3]
        assert put == [events.UpdateMetadataResponseReceived(1, 3, ErrorCode.NONE)]


@pytest.mark.mission("SAFE-81")
async def test_the_sender_of_a_removed_broker_is_no_cycle(world: Any) -> None:
    gc.disable()
    try:
        async with world() as (channels, *_):
            channels.add_broker(broker(1))
            await turns()
            peer = weakref.ref(channels._peers[1])
            await channels.remove_broker(1)
            await turns()
            assert peer() is None
    finally:
        gc.enable()


async def test_a_broker_without_responses_does_not_delay_the_others(world: Any) -> None:
    async with world() as (channels, peer, put, _):
        for broker_id in (1, 2):
            channels.add_broker(broker(broker_id))
        peer.script = ["hang"]
        channels.send(request(1, 0))
        await turns()
        channels.send(request(2, 1))
        await turns()
        assert peer.got == [0, 1]
        assert [event.broker_id for event in put] == [2]


async def test_a_broker_that_falls_too_far_behind_gets_full_metadata_again(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_QUEUED_REQUESTS", 3)
    async with world() as (channels, peer, put, metrics):
        channels.add_broker(broker(1))
        peer.script = ["hang"]
        channels.send(request(1, 0))
        await turns()
        for number in range(1, 5):
            channels.send(request(1, number))
        assert put == [events.BrokerUnresponsive(1)]
        assert (
            metrics.snapshot()["kafka.controller:type=ControllerChannelManager,name=TotalQueueSize"]
            == 0
        )


async def test_a_known_broker_keeps_its_queue_and_takes_new_addresses(world: Any) -> None:
    async with world() as (channels, peer, _, _):
        channels.add_broker(broker(1))
        moved = Broker(1, (Endpoint("other", 2),))
        channels.add_broker(moved)
        channels.update_broker(moved)
        channels.update_broker(Broker(5, ()))
        channels.send(request(1, 0))
        await turns()
        assert peer.opened == 1
        assert peer.got == [0]
