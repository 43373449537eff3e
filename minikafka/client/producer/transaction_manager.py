"""The transactions of one producer: its epoch, partitions, offsets and ends (KIP-98, KIP-447)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeVar

from minikafka.client.session import ClusterSession, Coordinators
from minikafka.core.client.admin.features import describe_features
from minikafka.core.client.calls import CoordinatorCall, CoordinatorKey
from minikafka.core.client.errors import FATAL_TO_PRODUCER
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.core.client.producer.calls import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER,
    TransactionalProducer,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
    uses_version_2,
)
from minikafka.core.client.producer.sequences import Sequences
from minikafka.kernel.cluster import CoordinatorType, ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey

R = TypeVar("R")


class TransactionManagerState(Enum):
    """Kafka's ``TransactionManager.State``."""

    UNINITIALIZED = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()  # perhaps it is committed: nothing but the commit may be tried again
    ABORTING = auto()
    FATAL = auto()  # another producer has the transactional id, or the id may not be used


class TransactionManager:
    """The transactions of one producer with a transactional id.

    ``failure`` is the reason why the open transaction can only be aborted. ``version_2`` is whether
    the cluster has transactions of version 2 (KIP-890): brokers add partitions and groups to them,
    and EndTxn raises the epoch.
    """

    def __init__(
        self,
        session: ClusterSession,
        sequences: Sequences,
        transactional_id: str,
        transaction_timeout_ms: int,
    ) -> None:
        self.state = TransactionManagerState.UNINITIALIZED
        self.failure: KafkaError | None = None
        self.version_2 = False
        self._session = session
        self._sequences = sequences
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._fatal: KafkaError | None = None
        self._partitions: set[TopicPartition] = set()
        self._has_offsets = False
        self._turn = asyncio.Lock()  # AddPartitionsToTxn and EndTxn must not overtake each other
        self._coordinators = Coordinators(session)

    # -- the application's calls. All raise KafkaError; INVALID_TXN_STATE for the wrong moment.

    async def initialize(self) -> None:
        """Get the producer id, which fences the previous producer and aborts its open
        transaction."""
        self._check(TransactionManagerState.UNINITIALIZED)
        await self._get_producer_id()
        self.state = TransactionManagerState.READY

    def begin(self) -> None:
        self._check(TransactionManagerState.READY)
        self.state = TransactionManagerState.IN_TRANSACTION
        self.failure = None

    async def admit(self, partition: TopicPartition) -> None:
        """Add a partition to the transaction before the first record is appended for it."""
        self._check_open()
        if partition in self._partitions:
            return
        async with self._turn:
            self._check_open()
            if partition in self._partitions:
                return
            if not self.version_2:
                await self._call(add_partitions_to_txn(self._producer, [partition]))
            self._partitions.add(partition)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Add a group's offsets to the transaction; they take effect when it commits."""
        self._check_open()
        if not self.version_2:
            await self._call(add_offsets_to_txn(self._producer, group.group_id))
        self._has_offsets = True
        await self._call(txn_offset_commit(self._producer, group, offsets, self.version_2))

    async def end(self, commit: bool) -> None:
        """Commit or abort the transaction, after all its records were delivered or have failed.

        A failed transaction cannot be committed. If the call is cancelled or gets no response,
        it has to be repeated with the same ``commit``.
        """
        ending = TransactionManagerState.COMMITTING if commit else TransactionManagerState.ABORTING
        async with self._turn:
            self._check(TransactionManagerState.IN_TRANSACTION, ending)
            if self.state is TransactionManagerState.IN_TRANSACTION and commit and self.failure:
                raise self.failure
            self.state = ending
            if self._partitions or self._has_offsets:
                ended = await self._call(end_txn(self._producer, commit, self.version_2))
                self._partitions.clear()
                self._has_offsets = False
                if self.version_2:
                    self._sequences.set_producer(ended.producer_id, ended.epoch)
            if self.failure is not None and not self.version_2:
                await self._get_producer_id()  # nobody knows which sequences brokers have seen
            self.failure = None
            self.state = TransactionManagerState.READY

    def note_failure(self, error: KafkaError) -> None:
        """Note that a batch was not delivered."""
        if self._is_ending or self.state is TransactionManagerState.IN_TRANSACTION:
            self.failure = self.failure or error

    @property
    def may_abort(self) -> bool:
        return self.state in (
            TransactionManagerState.IN_TRANSACTION,
            TransactionManagerState.ABORTING,
        )

    @property
    def _is_ending(self) -> bool:
        return self.state in (TransactionManagerState.COMMITTING, TransactionManagerState.ABORTING)

    # -- inside

    @property
    def _producer(self) -> TransactionalProducer:
        return TransactionalProducer(
            self.transactional_id, self._sequences.producer_id, self._sequences.epoch
        )

    def _check(self, *allowed: TransactionManagerState) -> None:
        if self._fatal is not None:
            raise self._fatal
        if self.state not in allowed:
            names = " or ".join(each.name for each in allowed)
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE, f"the state is {self.state.name}, not {names}"
            )

    def _check_open(self) -> None:
        self._check(TransactionManagerState.IN_TRANSACTION)
        if self.failure is not None:
            raise self.failure

    async def _get_producer_id(self) -> None:
        """Get a producer id the first time, later the next epoch of the same id.

        The latter fails if another producer has taken the transactional id.
        """
        sequences, session = self._sequences, self._session
        key = CoordinatorKey(CoordinatorType.TRANSACTION, self.transactional_id)
        deadline_ms = session.deadline_ms()
        served = await session.retrying(
            lambda: self._coordinators.versions(key, deadline_ms), deadline_ms
        )
        features = await session.call_any_retrying(describe_features(), session.deadline_ms())
        self.version_2 = uses_version_2(features, served)
        current = NO_PRODUCER
        if served.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1] >= EPOCH_BUMP_VERSION:
            current = ProducerIdAndEpoch(sequences.producer_id, sequences.epoch)
        producer = await self._call(
            init_producer_id(self.transactional_id, self._timeout_ms, current)
        )
        sequences.set_producer(producer.producer_id, producer.epoch)

    async def _call(self, call: CoordinatorCall[R]) -> R:
        """Carry out a call, retried until ``default_api_timeout_ms``."""
        try:
            return await self._coordinators.call(call, self._session.deadline_ms())
        except KafkaError as error:
            self._note_error(error)
            raise

    def _note_error(self, error: KafkaError) -> None:
        """Change the state after an error, as Kafka's ``TransactionManager`` does.

        After an error response to EndTxn only TRANSACTION_ABORTABLE still allows an abort.
        Without a response EndTxn may have been processed.
        """
        code, committing = error.code, self.state is TransactionManagerState.COMMITTING
        if committing and code is ErrorCode.TRANSACTION_ABORTABLE:
            self.state = TransactionManagerState.IN_TRANSACTION
            self.note_failure(error)
        elif code in FATAL_TO_PRODUCER or (self._is_ending and not code.retriable):
            self.state, self._fatal = TransactionManagerState.FATAL, error
        elif not self._is_ending:
            self.note_failure(error)
