"""Fixtures for controllers: a cluster of them, and the requests sent to brokers, in short."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minikafka.server.controller.leader_election import TASK_NAME as TIMER
from tests.support.controller.controller_lab import (
    ClusterOfControllers,
    Gist,
    InShort,
    NewCluster,
)
from tests.support.world.manual_clock import ManualClock


@pytest.fixture
def new_cluster() -> NewCluster:
    """``async with new_cluster() as cluster``: an empty cluster, stopped at the end. A task that
    outlives the controllers fails the test; waiting for it would hang."""

    @asynccontextmanager
    async def make(**config: Any) -> AsyncIterator[ClusterOfControllers]:
        others = asyncio.all_tasks()
        async with asyncio.TaskGroup() as tasks:
            cluster = ClusterOfControllers(tasks, config=config)
            await cluster.prepare()
            try:
                yield cluster
            finally:
                await cluster.stop()
            assert sorted(task.get_name() for task in asyncio.all_tasks() - others) == []
            # The group would wait for these: without an end, the test would not fail, but hang.
            outlived = {task.get_name() for task in asyncio.all_tasks()}
            assert not [name for name in outlived if name.startswith(("Controller-", TIMER))]

    return make


@pytest.fixture
def manual_clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def in_short() -> InShort:
    """Requests as (kind, broker, {partition: gist})."""

    def gist(broker_id: int, message: Any) -> Gist:
        kind = type(message).__name__.removesuffix("Request")
        partitions: dict[str, Any] = {}
        for topic in message.topic_states:
            for p in topic.partition_states:
                name = f"{topic.topic_name}-{p.partition_index}"
                if kind == "StopReplica":
                    partitions[name] = "delete" if p.delete_partition else "stop"
                else:
                    partitions[name] = (p.leader, tuple(p.isr))
        return kind, broker_id, partitions

    return lambda sent: [gist(*one) for one in sent]
