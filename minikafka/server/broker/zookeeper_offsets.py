"""Offsets of groups in ZooKeeper, for consumers before Kafka 0.9."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from minikafka.core.topic_names import name_problem
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import CoordinationError
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.store import ZkStore


class ZookeeperOffsets:
    """Commits and fetches offsets in ZooKeeper. ``store`` returns the store of the current session.
    An error of ZooKeeper is UNKNOWN_SERVER_ERROR for the partition."""

    def __init__(self, store: Callable[[], ZkStore]) -> None:
        self._store = store
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        respond: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        if name_problem(group_id) is not None:  # the group id is part of a path
            respond(dict.fromkeys(offsets, ErrorCode.INVALID_GROUP_ID))
            return

        async def commit() -> None:
            errors: dict[TopicPartition, ErrorCode] = {}
            for topic_partition, offset in offsets.items():
                try:
                    await self._store().set_consumer_offset(group_id, topic_partition, offset)
                    errors[topic_partition] = ErrorCode.NONE
                except CoordinationError:
                    errors[topic_partition] = ErrorCode.UNKNOWN_SERVER_ERROR
            respond(errors)

        self._start(commit())

    def fetch(
        self,
        group_id: str,
        topic_partitions: Sequence[TopicPartition],
        respond: Callable[[Mapping[TopicPartition, int | ErrorCode]], None],
    ) -> None:
        """Read committed offsets. The response omits partitions without an offset."""
        if name_problem(group_id) is not None:
            respond(dict.fromkeys(topic_partitions, ErrorCode.INVALID_GROUP_ID))
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
            respond(found)

        self._start(fetch())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "after start"
        self._tasks.create_task(work, name="zookeeper-offsets")
