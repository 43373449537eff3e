"""The outcome of records that one call of ``send_many`` or ``send_arrow`` appended."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError


class RecordsMetadata(NamedTuple):
    """``record_count`` records of one call that have consecutive offsets, from ``base_offset`` on.

    The offset is -1 with acks=0. A call's records of one partition are in the order in which the
    call got them.
    """

    topic: str
    partition: int
    base_offset: int
    record_count: int


class ManyRecords:
    """The future of one call: done when all its records are delivered or have failed.

    It holds a ``RecordsMetadata`` for each batch, sorted, or the first error.
    """

    def __init__(self) -> None:
        self.future: asyncio.Future[list[RecordsMetadata]] = (
            asyncio.get_running_loop().create_future()
        )
        self._is_silent = False
        self._written: list[RecordsMetadata] = []
        self._open = 0
        self._is_complete = False
        self._error: KafkaError | None = None

    def add(self, record_count: int) -> None:
        """Count records that are about to be appended."""
        self._open += record_count

    def complete(self) -> None:
        """Note that all records of the call are appended."""
        self._is_complete = True
        self._settle()

    def delivered(
        self, topic_partition: TopicPartition, base_offset: int, record_count: int
    ) -> None:
        self._written.append(RecordsMetadata(*topic_partition, base_offset, record_count))
        self._open -= record_count
        self._settle()

    def failed(self, record_count: int, error: KafkaError) -> None:
        self._error = self._error or error
        self._open -= record_count
        self._settle()

    def silence(self) -> None:
        """Let the application ignore an error: it learns of it otherwise."""
        self._is_silent = True

    def _settle(self) -> None:
        if self._open or not self._is_complete or self.future.done():
            return
        if self._error is None:
            self.future.set_result(sorted(self._written))
            return
        self.future.set_exception(self._error)
        if self._is_silent:
            self.future.exception()  # retrieved: the application may ignore it
