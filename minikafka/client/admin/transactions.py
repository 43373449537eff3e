"""The admin client's part for transactions: listed, described, producers seen, one aborted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from minikafka.client.coordinators import TRANSACTION, find_coordinator
from minikafka.client.session import ClusterSession, raise_for
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.schema import Message

K = TypeVar("K")
T = TypeVar("T")

NO_TRANSACTION = -1  # where an open transaction would have its start


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """``coordinator`` is a broker's id, ``state`` Kafka's name of it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """``start_ms`` -1: it is not open. ``partitions``: where its end is not written yet."""

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
    """``transaction_start`` -1: not in a transaction there. ``coordinator_epoch`` -1: none has
    ended there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int


class TransactionAdmin:
    """Asked of coordinators and leaders, until ``timeout_ms`` over retriable errors."""

    session: ClusterSession

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        *,
        timeout_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Those of all brokers, by id. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        request = ListTransactionsRequest(sorted(states), sorted(producer_ids), longer_than_ms)
        brokers = await self.session.metadata.wait_until(
            lambda view: view.nodes or None, self.session.remaining_ms(deadline_ms), "the brokers"
        )

        async def ask(broker_id: int) -> list[TransactionListing]:
            async def attempt() -> list[TransactionListing]:
                answer = await self._request(broker_id, request, deadline_ms)
                raise_for(ErrorCode(answer.error_code))
                return [
                    TransactionListing(
                        row.transactional_id, broker_id, row.producer_id, row.transaction_state
                    )
                    for row in answer.transaction_states
                ]

            return await self.session.retrying(attempt, deadline_ms)

        found = await asyncio.gather(*(ask(broker_id) for broker_id in sorted(brokers)))
        return sorted((row for rows in found for row in rows), key=lambda row: row.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(transactional_id: str) -> TransactionDescription:
            async def attempt() -> TransactionDescription:
                broker_id = await find_coordinator(
                    self.session, transactional_id, deadline_ms, TRANSACTION
                )
                request = DescribeTransactionsRequest([transactional_id])
                (row,) = (await self._request(broker_id, request, deadline_ms)).transaction_states
                raise_for(ErrorCode(row.error_code), transactional_id)
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

            return await self.session.retrying(attempt, deadline_ms)

        return await _outcomes(describe, transactional_ids)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, list[ProducerDescription] | KafkaError]:
        """As the leaders know them."""
        deadline_ms = self.session.deadline_ms(timeout_ms)

        async def describe(where: TopicPartition) -> list[ProducerDescription]:
            async def attempt() -> list[ProducerDescription]:
                request = DescribeProducersRequest([TopicRequest(where.topic, [where.partition])])
                leader = await self._leader(where, deadline_ms)
                answer = await self._request(leader, request, deadline_ms)
                row = answer.topics[0].partitions[0]
                raise_for(ErrorCode(row.error_code), str(where))
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

            return await self.session.retrying(attempt, deadline_ms)

        return await _outcomes(describe, partitions)

    async def abort_transaction(
        self,
        where: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Write the end of a transaction that hangs in one partition, which no coordinator knows.
        Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        topics = [WritableTxnMarkerTopic(where.topic, [where.partition])]
        marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, coordinator_epoch)

        async def attempt() -> None:
            leader = await self._leader(where, deadline_ms)
            answer = await self._request(leader, WriteTxnMarkersRequest([marker]), deadline_ms)
            row = answer.markers[0].topics[0].partitions[0]
            raise_for(ErrorCode(row.error_code), str(where))

        await self.session.retrying(attempt, deadline_ms)

    async def _leader(self, where: TopicPartition, deadline_ms: int) -> int:
        return await self.session.metadata.leader(where, self.session.remaining_ms(deadline_ms))

    async def _request(self, broker_id: int, message: Message, deadline_ms: int) -> Any:
        timeout_ms = self.session.remaining_ms(deadline_ms)
        return await self.session.connections.request(
            broker_id, message, timeout_ms=min(timeout_ms, self.session.config.request_timeout_ms)
        )


async def _outcomes(ask: Callable[[K], Awaitable[T]], keys: Iterable[K]) -> dict[K, T | KafkaError]:
    async def outcome(key: K) -> T | KafkaError:
        try:
            return await ask(key)
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(keys))
    return dict(zip(wanted, await asyncio.gather(*map(outcome, wanted)), strict=True))
