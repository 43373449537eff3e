"""A transactional producer of a simulated cluster, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from minikafka.client.session import Client, Coordinators
from minikafka.core.client.calls import CoordinatorCall, raise_for
from minikafka.core.client.consumer.group_calls import offset_fetch
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.core.client.producer.calls import (
    NO_PRODUCER,
    TransactionalProducer,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.records.builder import build_batch
from minikafka.testing.simulator.cluster import SimCluster

PATIENCE_MS = 120_000

R = TypeVar("R")

_FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Fenced(Exception):
    """Raised if another producer uses this transactional id, or if the transaction has timed
    out."""


class SimTransactor(Client):
    """A producer that retries retriable errors for ``PATIENCE_MS``. Its methods raise Fenced, and
    KafkaError for errors after which the transaction cannot be committed. With ``version_2`` its
    transactions are those of KIP-890: brokers add partitions, and each end raises the epoch."""

    def __init__(
        self, cluster: SimCluster, name: str, timeout_ms: int, version_2: bool = False
    ) -> None:
        self._version_2 = version_2
        super().__init__(cluster.client_host.world, cluster.client_config)
        self.name = name
        self.group = f"group-of-{name}"
        self._clock = cluster.client_host.world.clock
        self._timeout_ms = timeout_ms
        self._current = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._coordinators = Coordinators(self.session)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        self.session.start(tasks)

    async def close(self) -> None:
        await self.session.close()

    async def begin(self) -> None:
        """Get the next epoch."""
        self._current = await self._call(
            init_producer_id(self.name, self._timeout_ms, self._current)
        )
        self._sequences.clear()
        self._added.clear()

    async def send(self, where: TopicPartition, value: bytes) -> None:
        """Write a batch of one record."""
        if where not in self._added and self._version_2:
            self._added.add(where)
        if where not in self._added:
            await self._call(add_partitions_to_txn(self._producer, [where]))
            self._added.add(where)
        sequence = self._sequences.get(where, 0)
        batch = build_batch(
            [(self._clock.wall_ms(), None, value, ())],
            producer_id=self._current.producer_id,
            producer_epoch=self._current.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        timeout_ms = self.session.config.request_timeout_ms
        call = produce([(where, batch)], -1, timeout_ms, self.name, self._version_2)
        deadline_ms = self.session.deadline_ms(PATIENCE_MS)

        async def attempt() -> None:
            leader = await self.session.metadata.leader(where, PATIENCE_MS)
            rows = await self.session.call(leader, call, deadline_ms)
            raise_for(rows[where].error_code)

        await self._unless_fenced(self.session.retrying(attempt, deadline_ms))
        self._sequences[where] = sequence + 1

    def pretend_added(self, where: TopicPartition) -> None:
        """Send to ``where`` without adding it to the transaction, as a faulty producer may."""
        self._added.add(where)

    async def commit_offset(self, where: TopicPartition, offset: int) -> None:
        if not self._version_2:
            await self._call(add_offsets_to_txn(self._producer, self.group))
        offsets, group = {where: OffsetAndMetadata(offset)}, GroupMetadata(self.group)
        await self._call(txn_offset_commit(self._producer, group, offsets, self._version_2))

    async def end(self, committed: bool) -> bool:
        """Commit or abort; returns ``committed``."""
        if self._added or committed:
            ended = await self._call(end_txn(self._producer, committed, self._version_2))
            if self._version_2:
                self._current = ended
                self._sequences.clear()
        self._added.clear()
        return committed

    async def give_up(self) -> None:
        """Abort the open transaction by requesting a new epoch."""
        self._current = NO_PRODUCER
        await self.begin()

    async def committed_offset(self, group: str, where: TopicPartition) -> int:
        """Return the group's committed offset; -1 without one."""
        found = await self._call(offset_fetch(group, [where], require_stable=True))
        return found[where].offset if where in found else -1

    @property
    def _producer(self) -> TransactionalProducer:
        return TransactionalProducer(self.name, *self._current)

    async def _call(self, call: CoordinatorCall[R]) -> R:
        deadline_ms = self.session.deadline_ms(PATIENCE_MS)
        return await self._unless_fenced(self._coordinators.call(call, deadline_ms))

    @staticmethod
    async def _unless_fenced(result: Awaitable[R]) -> R:
        """Raise Fenced for the error codes that mean it."""
        try:
            return await result
        except KafkaError as error:
            if error.code in _FENCED:
                raise Fenced(error.code.name) from error
            raise
