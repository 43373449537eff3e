"""The auto-leader-rebalance-task belongs to one term of office."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.core.controller.events import AutoPreferredReplicaLeaderElection
from minikafka.core.controller.states import ControllerState
from tests.support.controller.controller_lab import ClusterOfControllers, NewCluster

TASK_NAME = "auto-leader-rebalance-task"


def timers() -> Any:
    return [t for t in asyncio.all_tasks() if t.get_name() == TASK_NAME]


async def lose_office_while_the_timer_fires(cluster: ClusterOfControllers, controller: Any) -> None:
    """Delete /controller; while the controller handles that, a rebalance event is queued."""
    asleep = len(cluster.clock.timers)
    assert asleep == 1  # the timer's
    cluster.zookeeper.delete("/controller")
    cluster.clock.advance(5_000)
    for _ in range(2):  # the watch is called, the timer task wakes up
        await asyncio.sleep(0)
    waiting = [type(queued.event).__name__ for queued in controller.queue._events]
    assert waiting == ["AutoPreferredReplicaLeaderElection"]
    assert controller.state is ControllerState.CONTROLLER_CHANGE
    assert controller.is_active


@pytest.mark.mission("CFO-2", "CDU-12")
async def test_a_rebalance_event_behind_a_deleted_controller_node_is_of_the_last_term(
    new_cluster: NewCluster,
) -> None:
    """The broker resigns, is elected again and then takes the old event: it must not start a
    second timer, which nobody would stop at the next resignation."""
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        await lose_office_while_the_timer_fires(cluster, controller)
        await cluster.settle()
        assert controller.is_active
        assert controller.context.epoch == 2
        assert len(timers()) == 1
        assert [
            t.due_ms - cluster.clock.now_ms for t in cluster.clock.timers if not t.cancelled
        ] == [5_000]
        await controller.stop()
        assert timers() == []


@pytest.mark.mission("CDU-12")
async def test_only_the_event_of_this_term_is_followed_by_another(new_cluster: NewCluster) -> None:
    async with new_cluster() as cluster:
        (controller,) = await cluster.start(1)
        (timer,) = timers()
        await controller.queue.submit(
            AutoPreferredReplicaLeaderElection(controller.context.epoch - 1)
        )
        assert timers() == [timer]
        cluster.clock.advance(5_000)
        await cluster.settle()
        assert len(timers()) == 1
        assert timers() != [timer]
        assert AutoPreferredReplicaLeaderElection.state is ControllerState.AUTO_LEADER_BALANCE
