"""The route of the metrics listener."""

from __future__ import annotations

import asyncio

import pytest

from minikafka.kernel.metrics import Metrics
from minikafka.server.listeners.http_server import HttpText, Query
from minikafka.server.node.metrics_listener import metrics_routes
from tests.support.world.turns import pause_at_every_element


@pytest.mark.mission("GLASS-6")
async def test_others_run_while_many_series_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_element(monkeypatch)
    metrics = Metrics()
    names = [f"kafka.log:type=Log,name=Size,topic=t,partition={i}" for i in range(10_000)]
    metrics.family(lambda: [(name, 1) for name in names], of_partitions=True)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    (route,) = metrics_routes(metrics, lambda: len(names)).values()
    text = await route(Query(partitions="1"))
    running.cancel()
    assert isinstance(text, HttpText)
    assert text.body.count(b"\nkafka_log_log_size{") == len(names)
    assert turns > len(names)
    without = await route(Query())
    assert b"kafka_log" not in without.body
