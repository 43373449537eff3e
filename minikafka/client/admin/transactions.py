"""The admin client's calls about transactions: list, describe, abort, and producers' states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from minikafka.client.admin.broker_calls import call_every_broker, outcomes_of
from minikafka.client.session import ClusterSession, look_up_coordinator
from minikafka.core.client.admin import transactions as calls
from minikafka.core.client.admin.transactions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from minikafka.core.client.calls import CoordinatorKey, LeaderCall
from minikafka.kernel.cluster import CoordinatorType, TopicPartition
from minikafka.kernel.errors import KafkaError

R = TypeVar("R")


class TransactionAdmin:
    """The transaction calls of ``Admin``, which inherits this class.

    Calls go to coordinators and leaders and are retried after retriable errors until
    ``timeout_ms``.
    """

    session: ClusterSession

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        *,
        timeout_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Return the transactions of all brokers, by transactional id. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        call = calls.list_transactions(states, producer_ids, longer_than_ms)
        return calls.transaction_listings(await call_every_broker(self.session, call, deadline_ms))

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(transactional_id: str) -> TransactionDescription:
            async def attempt() -> TransactionDescription:
                key = CoordinatorKey(CoordinatorType.TRANSACTION, transactional_id)
                broker_id = await look_up_coordinator(self.session, key, deadline_ms)
                call = calls.describe_transaction(transactional_id, broker_id)
                return await self.session.call(broker_id, call, deadline_ms)

            return await self.session.retrying(attempt, deadline_ms)

        return await outcomes_of(describe, transactional_ids)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, list[ProducerDescription] | KafkaError]:
        """Return the producers that the leaders of the partitions know."""
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(partition: TopicPartition) -> list[ProducerDescription]:
            return await self._call_leader(calls.describe_producers(partition), deadline_ms)

        return await outcomes_of(describe, partitions)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Write an abort marker for a transaction that is open in one partition and that no
        coordinator knows. Raises KafkaError."""
        call = calls.abort_transaction(partition, producer_id, producer_epoch, coordinator_epoch)
        await self._call_leader(call, self.session.deadline_ms(timeout_ms))

    async def _call_leader(self, call: LeaderCall[R], deadline_ms: int) -> R:
        async def attempt() -> R:
            remaining_ms = self.session.remaining_ms(deadline_ms)
            leader = await self.session.metadata.leader(call.partition, remaining_ms)
            return await self.session.call(leader, call, deadline_ms)

        return await self.session.retrying(attempt, deadline_ms)
