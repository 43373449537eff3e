"""Cuts of logs here, on their way to disk: until they are there, nothing takes the place of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from minikafka.kernel.cluster import TopicPartition
from minikafka.storage.directories.log_manager import LogManager


class CutFlushes:
    """A power loss would put what was dropped beside what came in its place: a log that no broker
    ever held. So a follower that was cut asks for nothing, and a leader takes nothing, until a
    flush is through. Others go on meanwhile. (Kafka does not wait.)

    ``flushed`` hears of each log that may be appended to again."""

    def __init__(self, logs: LogManager) -> None:
        self.flushed: Callable[[TopicPartition], None] = lambda _: None
        self._logs = logs
        self._group: asyncio.TaskGroup | None = None
        self._flushes: dict[TopicPartition, asyncio.Task[None]] = {}

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._group = tasks

    async def stop(self) -> None:
        """Flush no more, and begin nothing."""
        self._group = None
        tasks = list(self._flushes.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._flushes.clear()

    def begin(self, topic_partition: TopicPartition) -> None:
        """Nothing happens when it is under way."""
        if self._group is not None and topic_partition not in self._flushes:
            self._flushes[topic_partition] = self._group.create_task(
                self._flush(topic_partition), name="cut-flush"
            )

    async def _flush(self, topic_partition: TopicPartition) -> None:
        """Once more when it was cut meanwhile. A disk that fails takes the log away."""
        while (log := self._logs.get(topic_partition)) is not None and log.cut_unflushed:
            await self._logs.flush([log])
        del self._flushes[topic_partition]
        self.flushed(topic_partition)
