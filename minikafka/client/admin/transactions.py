"""The admin client's calls about transactions: list, describe, abort, and producers' states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from minikafka.client.admin.broker_calls import call_every_broker, outcomes_of
from minikafka.client.coordinators import look_up_coordinator
from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import Call, CoordinatorKey, raise_for
from minikafka.kernel.cluster import CoordinatorType, TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from minikafka.protocol.messages.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

R = TypeVar("R")

NO_TRANSACTION = -1  # in place of the start of an open transaction


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transaction in ListTransactions. ``coordinator`` is the coordinator's broker id.

    ``state`` is Kafka's name of the state.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transaction in DescribeTransactions.

    ``start_ms`` is -1 if no transaction is open. ``partitions`` are those whose marker is not
    yet written.
    """

    transactional_id: str
    coordinator: int
    state: str
    timeout_ms: int
    start_ms: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer in DescribeProducers, for one partition.

    ``transaction_start`` is -1 without an open transaction; ``coordinator_epoch`` is -1 if no
    transaction of the producer has ended in the partition.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int


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

        def read(response: ListTransactionsResponse) -> list[ListedTransaction]:
            raise_for(response.error_code)
            return response.transaction_states

        deadline_ms = self.session.deadline_ms(timeout_ms)
        request = ListTransactionsRequest(sorted(states), sorted(producer_ids), longer_than_ms)
        found = await call_every_broker(self.session, Call(request, read), deadline_ms)
        listings = [
            TransactionListing(
                row.transactional_id, broker_id, row.producer_id, row.transaction_state
            )
            for broker_id, rows in found.items()
            for row in rows
        ]
        return sorted(listings, key=lambda listing: listing.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(transactional_id: str) -> TransactionDescription:
            async def attempt() -> TransactionDescription:
                key = CoordinatorKey(CoordinatorType.TRANSACTION, transactional_id)
                broker_id = await look_up_coordinator(self.session, key, deadline_ms)
                call = _describe_transaction(transactional_id, broker_id)
                return await self.session.call(broker_id, call, deadline_ms)

            return await self.session.retrying(attempt, deadline_ms)

        return await outcomes_of(describe, transactional_ids)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, list[ProducerDescription] | KafkaError]:
        """Return the producers that the leaders of the partitions know."""
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(partition: TopicPartition) -> list[ProducerDescription]:
            return await self._call_leader(partition, _describe_producers(partition), deadline_ms)

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

        def read(response: WriteTxnMarkersResponse) -> None:
            row = response.markers[0].topics[0].partitions[0]
            raise_for(row.error_code, str(partition))

        topics = [WritableTxnMarkerTopic(partition.topic, [partition.partition])]
        marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, coordinator_epoch)
        call = Call(WriteTxnMarkersRequest([marker]), read)
        await self._call_leader(partition, call, self.session.deadline_ms(timeout_ms))

    async def _call_leader(self, partition: TopicPartition, call: Call[R], deadline_ms: int) -> R:
        async def attempt() -> R:
            remaining_ms = self.session.remaining_ms(deadline_ms)
            leader = await self.session.metadata.leader(partition, remaining_ms)
            return await self.session.call(leader, call, deadline_ms)

        return await self.session.retrying(attempt, deadline_ms)


def _describe_transaction(transactional_id: str, broker_id: int) -> Call[TransactionDescription]:
    def read(response: DescribeTransactionsResponse) -> TransactionDescription:
        (row,) = response.transaction_states
        raise_for(row.error_code, transactional_id)
        return TransactionDescription(
            transactional_id,
            broker_id,
            row.transaction_state,
            row.transaction_timeout_ms,
            row.transaction_start_time_ms,
            row.producer_id,
            row.producer_epoch,
            tuple(
                TopicPartition(topic.topic, index)
                for topic in row.topics
                for index in topic.partitions
            ),
        )

    return Call(DescribeTransactionsRequest([transactional_id]), read)


def _describe_producers(partition: TopicPartition) -> Call[list[ProducerDescription]]:
    def read(response: DescribeProducersResponse) -> list[ProducerDescription]:
        row = response.topics[0].partitions[0]
        raise_for(row.error_code, str(partition))
        return [
            ProducerDescription(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in row.active_producers
        ]

    request = DescribeProducersRequest([TopicRequest(partition.topic, [partition.partition])])
    return Call(request, read)
