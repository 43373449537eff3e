"""OffsetCommit and OffsetFetch in version 0: offsets in ZooKeeper instead of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import CoordinationError
from minikafka.zookeeper.errors import MalformedZnode


class OffsetStore(Protocol):
    """What is needed of ZooKeeper."""

    async def consumer_offset(
        self, group_id: str, topic_partition: TopicPartition
    ) -> int | None: ...

    async def set_consumer_offset(
        self, group_id: str, topic_partition: TopicPartition, offset: int
    ) -> None: ...


class ZookeeperOffsets:
    """Answers when ZooKeeper has, or with an error for each partition."""

    def __init__(self, store: Callable[[], OffsetStore]) -> None:
        self._store = store
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        reply: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        if name_problem(group_id) is not None:  # it is to be a part of a path
            reply(dict.fromkeys(offsets, ErrorCode.INVALID_GROUP_ID))
            return

        async def commit() -> None:
            errors: dict[TopicPartition, ErrorCode] = {}
            for topic_partition, offset in offsets.items():
                try:
                    await self._store().set_consumer_offset(group_id, topic_partition, offset)
                    errors[topic_partition] = ErrorCode.NONE
                except CoordinationError:
                    errors[topic_partition] = ErrorCode.UNKNOWN_SERVER_ERROR
            reply(errors)

        self._start(commit())

    def fetch(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition],
        reply: Callable[[Mapping[TopicPartition, int | ErrorCode]], None],
    ) -> None:
        """Partitions without an offset are left out of the answer."""
        if name_problem(group_id) is not None:
            reply(dict.fromkeys(topic_partitions, ErrorCode.INVALID_GROUP_ID))
            return

        async def fetch() -> None:
            found: dict[TopicPartition, int | ErrorCode] = {}
            for topic_partition in topic_partitions:
                try:
                    offset = await self._store().consumer_offset(group_id, topic_partition)
                except (CoordinationError, MalformedZnode):
                    found[topic_partition] = ErrorCode.UNKNOWN_SERVER_ERROR
                    continue
                if offset is not None:
                    found[topic_partition] = offset
            reply(found)

        self._start(fetch())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "after start"
        self._tasks.create_task(work, name="zookeeper-offsets")
