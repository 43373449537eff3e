"""The membership of a share consumer: heartbeats, and the partitions that it may read (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from minikafka.client.session import ClusterSession, Coordinators
from minikafka.client.task_waits import end_task, wait_for_event
from minikafka.core.client.calls import CoordinatorCall
from minikafka.core.client.consumer.group_calls import group_key
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import JOINS, LEAVES
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

_REMOVED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ShareMember:
    """Joins a share group when there is a subscription, and stays in it by heartbeats.

    ``assigned`` are topic ids and partitions; ``news`` is set when they change, or when ``check``
    has an error to raise."""

    def __init__(self, session: ClusterSession, group_id: str, member_id: str, rack: str) -> None:
        self._session = session
        self._coordinators = Coordinators(session)
        self._group_id = group_id
        self._member_id = member_id
        self._rack = rack or None
        self._topics: Sequence[str] | None = None
        self._changed = asyncio.Event()
        self._epoch = JOINS
        self._error: KafkaError | None = None
        self._task: asyncio.Task[None] | None = None
        self.assigned: list[tuple[UUID, int]] = []
        self.news = asyncio.Event()

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._task = tasks.create_task(self._run(), name="share-heartbeats")

    def subscribe(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._changed.set()

    def check(self) -> None:
        """Raise the KafkaError that has ended the membership."""
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Leave the group."""
        task, self._task = self._task, None
        await end_task(task)
        if self._epoch > 0 and self._error is None:
            try:
                await self._beat(
                    ShareGroupHeartbeatRequest(self._group_id, self._member_id, LEAVES)
                )
            except KafkaError:
                return  # the coordinator removes the member when its session ends

    async def _run(self) -> None:
        await self._changed.wait()
        interval_ms = 0
        while self._error is None:
            await wait_for_event(self._changed, interval_ms)
            told, joins = self._changed.is_set(), self._epoch == JOINS
            self._changed.clear()
            request = ShareGroupHeartbeatRequest(
                self._group_id,
                self._member_id,
                self._epoch,
                self._rack if joins else None,
                list(self._topics or ()) if joins or told else None,
            )
            try:
                interval_ms = self._beaten(await self._beat(request))
            except KafkaError as error:
                if error.code in _REMOVED:
                    self._epoch, interval_ms = JOINS, 0
                    self._assign([])
                elif error.retriable:  # the coordinator is away for longer than a call lasts
                    if told:
                        self._changed.set()
                else:
                    self._error = error
                    self.news.set()

    async def _beat(self, request: ShareGroupHeartbeatRequest) -> Any:
        call = CoordinatorCall(request, _checked, coordinator=group_key(self._group_id))
        return await self._coordinators.call(call, self._session.deadline_ms())

    def _beaten(self, response: Any) -> int:
        """Take what a heartbeat says, and return the interval to the next one in ms."""
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._assign(
                [
                    (topic.topic_id, partition)
                    for topic in response.assignment.topic_partitions
                    for partition in topic.partitions
                ]
            )
        interval_ms: int = response.heartbeat_interval_ms
        return interval_ms

    def _assign(self, assigned: list[tuple[UUID, int]]) -> None:
        self.assigned = assigned
        self.news.set()


def _checked(response: Any) -> Any:
    """Return a response. Raises the KafkaError in it."""
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), response.error_message)
    return response
