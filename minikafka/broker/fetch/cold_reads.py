"""Fetches of records that are not in the page cache: a thread reads them in first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from minikafka.broker.fetch.reader import FetchEntry, FetchParams, end_of
from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.kernel.errors import KafkaError


class ColdReads:
    """Brings records into the page cache, so that reading them does not stall the loop. Whoever is
    waited for meanwhile is only the one who asked."""

    def __init__(self, hosted: HostedPartitions) -> None:
        self._hosted = hosted
        self._tasks: asyncio.TaskGroup | None = None
        self._reading: set[asyncio.Task[None]] = set()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def then(
        self, params: FetchParams, entries: Sequence[FetchEntry], proceed: Callable[[], None]
    ) -> None:
        """Call ``proceed`` when ``entries`` have been read once."""
        assert self._tasks is not None, "fetches come after start"
        task = self._tasks.create_task(self._warm(params, entries, proceed), name="cold-read")
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def stop(self) -> None:
        """Who waits is not answered any more; logs may be closed from now on."""
        reading = list(self._reading)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)

    async def _warm(
        self, params: FetchParams, entries: Sequence[FetchEntry], proceed: Callable[[], None]
    ) -> None:
        left = params.max_bytes
        for entry in entries:
            try:
                partition = self._hosted.require(entry.topic_partition)
                bound = end_of(partition, params.isolation)
                limit = min(left, entry.max_bytes)
                found = await partition.log.read_cold(entry.fetch_offset, limit, bound, True)
            except (KafkaError, OSError):
                continue  # what is wrong there is told by the read that follows
            left -= len(found.records)
            if left <= 0:
                break
        proceed()
