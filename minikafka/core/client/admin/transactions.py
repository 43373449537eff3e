"""Calls about transactions: list, describe and abort them, describe their producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from minikafka.core.client.calls import Call, LeaderCall, error_of, of_each, raise_for
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from minikafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
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

NO_TRANSACTION: Final = -1  # in place of the start of an open transaction


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


def list_transactions(
    states: Iterable[str], producer_ids: Iterable[int], longer_than_ms: int
) -> Call[list[ListedTransaction]]:
    """Build ListTransactions. Every broker returns the transactions that it coordinates."""

    def read(response: ListTransactionsResponse) -> list[ListedTransaction]:
        raise_for(response.error_code)
        return response.transaction_states

    request = ListTransactionsRequest(sorted(states), sorted(producer_ids), longer_than_ms)
    return Call(request, read)


def transaction_listings(
    by_coordinator: Mapping[int, list[ListedTransaction]],
) -> list[TransactionListing]:
    """Join the results of ``list_transactions`` by broker id, sorted by transactional id."""
    listings = [
        TransactionListing(row.transactional_id, broker_id, row.producer_id, row.transaction_state)
        for broker_id, rows in by_coordinator.items()
        for row in rows
    ]
    return sorted(listings, key=lambda listing: listing.transactional_id)


def describe_transaction(transactional_id: str, coordinator: int) -> Call[TransactionDescription]:
    """Build DescribeTransactions for one transactional id, to its coordinator."""

    def read(response: DescribeTransactionsResponse) -> TransactionDescription:
        (row,) = response.transaction_states
        raise_for(row.error_code, transactional_id)
        return _description(row, coordinator)

    return Call(DescribeTransactionsRequest([transactional_id]), read)


def describe_transactions(
    transactional_ids: Iterable[str], coordinator: int
) -> Call[dict[str, TransactionDescription | KafkaError]]:
    """Build DescribeTransactions for transactional ids that have one coordinator. The result has
    the outcome of each."""

    def read(
        response: DescribeTransactionsResponse,
    ) -> dict[str, TransactionDescription | KafkaError]:
        found = {
            row.transactional_id: error_of(row.error_code, row.transactional_id)
            or _description(row, coordinator)
            for row in response.transaction_states
        }
        return of_each(wanted, found)

    wanted = list(transactional_ids)
    return Call(DescribeTransactionsRequest(wanted), read)


def _description(row: TransactionState, coordinator: int) -> TransactionDescription:
    return TransactionDescription(
        row.transactional_id,
        coordinator,
        row.transaction_state,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms,
        row.producer_id,
        row.producer_epoch,
        tuple(
            TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions
        ),
    )


def describe_producers(partition: TopicPartition) -> LeaderCall[list[ProducerDescription]]:
    """Build DescribeProducers for one partition."""

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
    return LeaderCall(request, read, partition=partition)


def abort_transaction(
    partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> LeaderCall[None]:
    """Build WriteTxnMarkers with one abort marker for one partition."""

    def read(response: WriteTxnMarkersResponse) -> None:
        row = response.markers[0].topics[0].partitions[0]
        raise_for(row.error_code, str(partition))

    topics = [WritableTxnMarkerTopic(partition.topic, [partition.partition])]
    marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, coordinator_epoch)
    return LeaderCall(WriteTxnMarkersRequest([marker]), read, partition=partition)
