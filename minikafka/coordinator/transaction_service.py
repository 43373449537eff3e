"""The transaction APIs, as far as they do not depend on their versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from minikafka.coordinator.transaction_shards import TransactionShards
from minikafka.core.transaction.description import described, is_listed, listed, states_named
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.core.transaction.result import Initialized
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.describe_transactions import TransactionState
from minikafka.protocol.messages.list_transactions import ListTransactionsResponse


class ProducerIdSource(Protocol):
    async def generate(self) -> int:
        """One that no producer has. Raises KafkaError."""
        ...


class TransactionService:
    """Kafka's ``TransactionCoordinator``. ``reply`` is called exactly once, now or later."""

    def __init__(self, shards: TransactionShards, producer_ids: ProducerIdSource) -> None:
        self._shards = shards
        self._producer_ids = producer_ids

    async def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
    ) -> Initialized:
        """Without a transactional id every request gets a fresh producer id with epoch 0, also one
        that names the id it had. Raises KafkaError."""
        if transactional_id is None:
            return Initialized(ErrorCode.NONE, await self._producer_ids.generate(), 0)
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        answer: asyncio.Future[Initialized] = asyncio.get_running_loop().create_future()
        fresh_id: int | None = None
        while True:
            runtime = self._shards.require(transactional_id)
            if fresh_id is not None:
                break
            if not runtime.shard.needs_producer_id(transactional_id, expected):
                break
            fresh_id = await self._producer_ids.generate()
        runtime.run(
            runtime.shard.init_producer_id(
                transactional_id, timeout_ms, expected, fresh_id, answer.set_result, self._now_ms()
            )
        )
        return await answer

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        reply: Callable[[ErrorCode], None],
    ) -> None:
        try:
            runtime = self._shards.require(_named(transactional_id))
        except KafkaError as error:
            reply(error.code)
            return
        added = frozenset(partitions)
        runtime.run(
            runtime.shard.add_partitions(transactional_id, producer, added, reply, self._now_ms())
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        try:
            shard = self._shards.require(_named(transactional_id)).shard
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return shard.verify_partitions(transactional_id, producer, partitions)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        reply: Callable[[ErrorCode], None],
    ) -> None:
        try:
            runtime = self._shards.require(_named(transactional_id))
        except KafkaError as error:
            reply(error.code)
            return
        runtime.run(runtime.shard.end(transactional_id, producer, committed, reply, self._now_ms()))

    # -- administration

    def describe(self, transactional_id: str) -> TransactionState:
        try:
            shard = self._shards.require(_named(transactional_id)).shard
        except KafkaError as error:
            return TransactionState(error.code, transactional_id)
        return described(transactional_id, shard.transactions.get(transactional_id))

    def list_transactions(
        self, states: Collection[str], producer_ids: Collection[int], longer_than_ms: int
    ) -> ListTransactionsResponse:
        """Empty filters take everything, ``longer_than_ms`` below 0 too."""
        if self._shards.is_closed:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._shards.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        known, unknown = states_named(states)
        wanted = known if states else None
        now_ms = self._now_ms()
        return ListTransactionsResponse(
            unknown_state_filters=unknown,
            transaction_states=[
                listed(transaction)
                for runtime in self._shards.loaded()
                for transaction in runtime.shard.transactions.values()
                if is_listed(transaction, wanted, producer_ids, longer_than_ms, now_ms)
            ],
        )

    def _now_ms(self) -> int:
        return self._shards.clock.wall_ms()


def _named(transactional_id: str) -> str:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return transactional_id
