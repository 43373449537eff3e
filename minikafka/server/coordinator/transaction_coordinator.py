"""The transaction coordinator: the transaction APIs, time-outs, and expiry of transactional ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Protocol

from minikafka.core.coordinator_shard import RespondError
from minikafka.core.regexes import TRANSACTIONAL_IDS, compile_regex
from minikafka.core.transaction.description import described, is_listed, listed, states_named
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.result import (
    ProducerResult,
    RespondProducer,
    TransactionAppendPurpose,
)
from minikafka.core.transaction.shard import TransactionShard
from minikafka.core.transaction.transaction import Markers, Transaction
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.describe_transactions import TransactionState
from minikafka.protocol.messages.list_transactions import ListTransactionsResponse
from minikafka.server.coordinator.config import TransactionCoordinatorConfig
from minikafka.server.coordinator.ports import InternalLog, PartitionLeaders
from minikafka.server.coordinator.runtime import CoordinatorRuntime, RuntimeConfig
from minikafka.server.coordinator.transaction_markers import (
    MarkerItem,
    TransactionContext,
    TransactionMarkers,
)


class ProducerIdSource(Protocol):
    async def generate(self) -> int:
        """Return an unused producer id. Raises KafkaError."""
        ...


class TransactionCoordinator:
    """The transaction coordinator of one broker, which the request handlers call.

    ``respond`` arguments are called exactly once, now or later. ``put_marker`` queues markers
    for a broker; the response goes to ``complete_markers``. Kafka: ``TransactionCoordinator``.
    """

    def __init__(
        self,
        clock: Clock,
        log: InternalLog,
        leaders: PartitionLeaders,
        producer_ids: ProducerIdSource,
        put_marker: Callable[[int, MarkerItem], None],
        config: TransactionCoordinatorConfig,
        partition_count: Callable[[], int],
        transaction_version: Callable[[], int],
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._producer_ids = producer_ids
        self._config = config
        self.markers = TransactionMarkers(clock, leaders, put_marker, events)
        self.runtime: CoordinatorRuntime[
            TransactionShard, TransactionStored, TransactionAppendPurpose, Markers
        ] = CoordinatorRuntime(
            clock,
            log,
            lambda: TransactionShard(config.transaction, transaction_version),
            self.markers.send,
            partition_count,
            RuntimeConfig("transactions", config.load_buffer_size),
            events,
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self.runtime.start(tasks)
        self.runtime.start_task(self._abort_forever(), "transaction-abort")
        self.runtime.start_task(self._expire_forever(), "transactionalId-expiration")

    def close(self) -> None:
        """Unload all transactions. Markers and appends are not retried: the next coordinator
        does it."""
        self.runtime.close()
        self.runtime.unload_all()

    # -- transactions

    async def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
    ) -> ProducerResult:
        """Handle InitProducerId. Raises KafkaError for an invalid id or if it is not coordinated
        here.

        Without a transactional id every request gets a new producer id with epoch 0, even one
        that names its current id.
        """
        if transactional_id is None:
            return ProducerResult(ErrorCode.NONE, await self._producer_ids.generate(), 0)
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        response: asyncio.Future[ProducerResult] = asyncio.get_running_loop().create_future()
        fresh_id: int | None = None
        context = self.runtime.require(transactional_id)
        if context.shard.needs_producer_id(transactional_id, expected):
            fresh_id = await self._producer_ids.generate()
            context = self.runtime.require(transactional_id)  # it may have changed meanwhile
        context.run(
            context.shard.init_producer_id(
                transactional_id,
                timeout_ms,
                expected,
                fresh_id,
                response.set_result,
                context.now_ms(),
            )
        )
        return await response

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int,
        respond: RespondError,
    ) -> None:
        """Handle AddPartitionsToTxn and AddOffsetsToTxn. ``client_version`` is the version of
        transactions that the producer uses."""
        try:
            context = self._require_named(transactional_id)
        except KafkaError as error:
            respond(error.code)
            return
        added = frozenset(partitions)
        context.run(
            context.shard.add_partitions(
                transactional_id, producer, added, client_version, respond, context.now_ms()
            )
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        try:
            shard = self._require_named(transactional_id).shard
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return shard.verify_partitions(transactional_id, producer, partitions)

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        client_version: int,
        respond: RespondProducer,
    ) -> None:
        """Handle EndTxn. ``client_version`` is the version of transactions that the producer uses.

        Only a producer whose id has no epoch left waits for a new one."""
        try:
            context = self._require_named(transactional_id)
        except KafkaError as error:
            respond(ProducerResult(error.code))
            return
        end = partial(
            self._end, transactional_id, producer, committed, client_version, respond=respond
        )
        if context.shard.needs_producer_id_to_end(
            transactional_id, producer, committed, client_version
        ):
            self.runtime.start_task(self._end_with_new_id(end, respond), "transaction-end")
        else:
            end(None)

    async def _end_with_new_id(self, end: Callable[[int], None], respond: RespondProducer) -> None:
        try:
            end(await self._producer_ids.generate())
        except KafkaError as error:
            respond(ProducerResult(error.code))

    def _end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        client_version: int,
        fresh_id: int | None,
        respond: RespondProducer,
    ) -> None:
        """Raises KafkaError if the id is not coordinated here any more."""
        context = self.runtime.require(transactional_id)
        context.run(
            context.shard.end(
                transactional_id,
                producer,
                committed,
                client_version,
                fresh_id,
                respond,
                context.now_ms(),
            )
        )

    # -- administration

    def describe(self, transactional_id: str) -> TransactionState:
        try:
            shard = self._require_named(transactional_id).shard
        except KafkaError as error:
            return TransactionState(error.code, transactional_id)
        return described(transactional_id, shard.transactions.get(transactional_id))

    def list_transactions(
        self,
        states: Collection[str],
        producer_ids: Collection[int],
        longer_than_ms: int,
        pattern: str | None = None,
    ) -> ListTransactionsResponse:
        """Handle ListTransactions. Empty filters, also an empty ``pattern`` of transactional ids,
        and a negative ``longer_than_ms`` do not filter."""
        if self.runtime.is_closed:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.runtime.is_loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            ids = compile_regex(pattern, TRANSACTIONAL_IDS) if pattern else None
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
        known, unknown = states_named(states)
        wanted = known if states else None
        now_ms = self._clock.wall_ms()
        return ListTransactionsResponse(
            unknown_state_filters=unknown,
            transaction_states=[
                listed(transaction)
                for context in self.runtime.active()
                for transaction in context.shard.transactions.values()
                if is_listed(transaction, wanted, producer_ids, longer_than_ms, now_ms, ids)
            ],
        )

    def all_transactions(self) -> Iterator[Transaction]:
        """Iterate over the state of each transactional id that this broker coordinates."""
        for context in self.runtime.active():
            yield from list(context.shard.transactions.values())

    # -- time-outs and expiry

    async def _abort_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.abort_timed_out_interval_ms)
            self.abort_timed_out()

    async def _expire_forever(self) -> None:
        while True:
            await self._clock.sleep(self._config.remove_expired_interval_ms)
            self.expire()

    def abort_timed_out(self) -> None:
        """Abort the transactions that have been open for longer than their time-out."""
        for context in list(self.runtime.active()):
            context.run(context.shard.abort_timed_out(context.now_ms()))

    def expire(self) -> None:
        """Delete the transactional ids not used for ``transactional.id.expiration.ms``."""
        for context in list(self.runtime.active()):
            context.run(context.shard.expire(context.now_ms()))

    def _require_named(self, transactional_id: str) -> TransactionContext:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return self.runtime.require(transactional_id)
