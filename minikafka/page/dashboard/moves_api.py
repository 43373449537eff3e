"""The route that shows how far reassignments are.

All browsers share one sample in ``SAMPLE_MS``: each costs a request to every broker concerned.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from minikafka.core.client.admin.move_progress import (
    MoveMeter,
    MoveProgress,
    brokers_of,
    replica_sizes,
)
from minikafka.page.dashboard.context import PageContext, ShownCluster

SAMPLE_MS: Final = 2_000
WITHIN_MS: Final = 5_000
MOST_MOVES: Final = 1_000


def routes(context: PageContext) -> list[BaseRoute]:
    if context.cluster is None:  # a recording is shown
        return []
    return [Route("/api/moves", MovesApi(context, context.cluster).moves)]


class MovesApi:
    def __init__(self, context: PageContext, cluster: ShownCluster) -> None:
        self._clock = context.world.clock
        self._admin = cluster.admin
        self._meter = MoveMeter()
        self._sampled_ms = 0
        self._sample: asyncio.Task[list[MoveProgress]] | None = None

    async def moves(self, request: Request) -> Response:
        """Return the first reassignments under way, in the order of partitions."""
        found = await asyncio.shield(self._newest())
        rows = [_facts(each) for each in found[:MOST_MOVES]]
        return JSONResponse({"moves": rows, "total": len(found)})

    def _newest(self) -> asyncio.Task[list[MoveProgress]]:
        """Return the sample that is being taken, or one of the last ``SAMPLE_MS``."""
        now_ms = self._clock.monotonic_ms()
        is_old = now_ms - self._sampled_ms >= SAMPLE_MS
        if self._sample is None or (self._sample.done() and is_old):
            self._sampled_ms = now_ms
            self._sample = asyncio.create_task(self._measured())
            self._sample.add_done_callback(_retrieve)
        return self._sample

    async def _measured(self) -> list[MoveProgress]:
        """Raises KafkaError."""
        moves = await self._admin.list_partition_reassignments(timeout_ms=WITHIN_MS)
        if not moves:
            return []
        described = await self._admin.describe_log_dirs(brokers_of(moves), timeout_ms=WITHIN_MS)
        sizes = replica_sizes(moves, described)
        return self._meter.measure(self._clock.monotonic_ms(), moves, sizes)


def _retrieve(sample: asyncio.Task[list[MoveProgress]]) -> None:
    """Take the error of a sample whose requests have all gone."""
    if not sample.cancelled():
        sample.exception()


def _facts(found: MoveProgress) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "adding": list(found.adding),
        "removing": list(found.removing),
        "copied": found.copied,
        "total": found.total,
        "percent": found.percent,
        "bytes_per_s": found.bytes_per_s,
        "seconds_left": found.seconds_left,
    }
