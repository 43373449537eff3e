"""The event queue: FIFO, one consumer, answers, clearing, figures."""

import asyncio
import contextlib
from typing import Any

import pytest

from minikafka.core.controller.events import (
    BrokerChange,
    ControlledShutdown,
    Expire,
    Reelect,
    TopicChange,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.server.controller.event_manager import EventQueue
from tests.support.controller.controller_lab import NewCluster
from tests.support.world.manual_clock import ManualClock


@pytest.fixture
def made(manual_clock: ManualClock) -> Any:
    metrics = Metrics()
    queue = EventQueue(manual_clock, metrics)
    queue.start()
    return queue, metrics, manual_clock


@pytest.mark.mission("CTX-4")
async def test_first_in_first_out(made: Any) -> None:
    queue, _, _ = made
    events = [BrokerChange(), TopicChange(), BrokerChange(), Reelect()]
    for event in events:
        queue.put(event)
    assert [(await queue.take()).event for _ in events] == events


@pytest.mark.mission("CTX-4")
async def test_a_waiting_consumer_is_woken(made: Any) -> None:
    queue, _, _ = made
    taking = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    assert not taking.done()
    queue.put(Reelect())
    assert (await taking).event == Reelect()


@pytest.mark.mission("CTX-4")
async def test_length_and_time_are_measured(made: Any) -> None:
    queue, metrics, clock = made
    queue.put(BrokerChange())
    clock.advance(30)
    queue.put(TopicChange())
    assert (
        metrics.snapshot()["kafka.controller:type=ControllerEventManager,name=EventQueueSize"] == 2
    )
    clock.advance(10)
    await queue.take()
    await queue.take()
    figures = metrics.snapshot()
    assert figures["kafka.controller:type=ControllerEventManager,name=EventQueueSize"] == 0
    assert figures["kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs:Max"] == 40
    assert figures["kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs:Mean"] == 25


async def test_clearing_the_queue_fails_callers_with_stale_controller_epoch(made: Any) -> None:
    queue, _, _ = made
    queue.put(TopicChange())
    asked = queue.submit(ControlledShutdown(1, 2))
    expiry = queue.clear_and_submit(Expire())
    with pytest.raises(KafkaError) as refusal:
        await asked
    assert refusal.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    queued = await queue.take()
    assert queued.event == Expire()
    assert queued.result is expiry
    assert len(queue) == 0


async def test_closing_the_queue_fails_all_callers(made: Any) -> None:
    queue, _, _ = made
    before = queue.submit(TopicChange())
    queue.close()
    queue.put(TopicChange())
    after = queue.submit(TopicChange())
    assert len(queue) == 0
    for asked in (before, after):
        with pytest.raises(KafkaError) as refusal:
            await asked
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.mission("CTX-4")
async def test_a_second_consumer_is_a_bug(made: Any) -> None:
    queue, _, _ = made
    taking = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    with pytest.raises(AssertionError, match="two consumers"):
        await asyncio.wait_for(queue.take(), 0.1)
    queue.put(Reelect())
    assert (await taking).event == Reelect()


async def test_a_cancelled_controller_ends_although_an_event_ends_well(
    new_cluster: NewCluster,
) -> None:
    """A response may come at the same time; then the event does not see the cancellation."""
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        begun = asyncio.Event()

        async def swallow(_: object) -> None:
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(controller, "_process", swallow)
            controller.queue.put(Reelect())
            await begun.wait()
            task = controller._task
            assert task is not None
            task.cancel()
            await asyncio.wait([task], timeout=10)
        assert task.done()
