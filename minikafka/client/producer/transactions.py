"""The producer's side of transactions: ids, partitions, offsets, the end (KIP-98, KIP-447)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any

from minikafka.client.coordinators import GROUP, TRANSACTION, find_coordinator
from minikafka.client.group_offsets import GroupMetadata, OffsetAndMetadata
from minikafka.client.session import ClusterSession, raise_for
from minikafka.core.client.sequences import Sequences
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.grouping import grouped
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.schema import Message

_CLIENTS_VERSION = 3  # of AddPartitionsToTxn: later ones are for brokers
_BEFORE_KIP_890 = 4  # of TxnOffsetCommit and EndTxn: later ones change the epoch
_BUMP_VERSION = 3  # of InitProducerId, and where TxnOffsetCommit knows members


class TransactionState(Enum):
    UNINITIALIZED = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()  # perhaps it is committed: nothing but the commit may be tried again
    ABORTING = auto()
    FATAL = auto()  # another producer has the id, or it is not ours to use


FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


class Transactions:
    """One transactional id. ``failure`` is why the transaction can only be aborted."""

    def __init__(
        self,
        session: ClusterSession,
        sequences: Sequences,
        transactional_id: str,
        transaction_timeout_ms: int,
    ) -> None:
        self.state = TransactionState.UNINITIALIZED
        self.failure: KafkaError | None = None
        self._session = session
        self._sequences = sequences
        self._id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._fatal: KafkaError | None = None
        self._partitions: set[TopicPartition] = set()
        self._has_offsets = False
        self._turn = asyncio.Lock()  # to tell the coordinator what belongs in it, or the end
        self._coordinators: dict[tuple[int, str], int] = {}

    # -- the application's calls. All raise KafkaError; INVALID_TXN_STATE for the wrong moment.

    async def initialize(self) -> None:
        """Get the producer id; whoever had the transactional id before is fenced, and what it left
        open is aborted."""
        self._check(TransactionState.UNINITIALIZED)
        await self._get_producer_id()
        self.state = TransactionState.READY

    def begin(self) -> None:
        self._check(TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION
        self.failure = None

    async def admit(self, partition: TopicPartition) -> None:
        """A record is about to go there: the coordinator has to know before."""
        self._check_open()
        if partition in self._partitions:
            return
        async with self._turn:
            self._check_open()
            if partition in self._partitions:
                return
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=self._sequences.producer_id,
                v3_and_below_producer_epoch=self._sequences.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(partition.topic, [partition.partition])
                ],
            )
            await self._ask(TRANSACTION, self._id, request, _partition_errors, _CLIENTS_VERSION)
            self._partitions.add(partition)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """They count as committed when the transaction is."""
        self._check_open()
        sequences = self._sequences
        adding = AddOffsetsToTxnRequest(
            self._id, sequences.producer_id, sequences.epoch, group.group_id
        )
        await self._ask(TRANSACTION, self._id, adding, _one_error)
        self._has_offsets = True
        topics = grouped(
            (topic, TxnOffsetCommitRequestPartition(index, at.offset, at.leader_epoch, at.metadata))
            for (topic, index), at in sorted(offsets.items())
        )
        request = TxnOffsetCommitRequest(
            self._id,
            group.group_id,
            sequences.producer_id,
            sequences.epoch,
            group.generation,
            group.member_id,
            group.group_instance_id,
            [TxnOffsetCommitRequestTopic(name, rows) for name, rows in topics.items()],
        )
        await self._ask(GROUP, group.group_id, request, _offset_errors, _BEFORE_KIP_890)

    async def end(self, commit: bool) -> None:
        """After all records are settled. A transaction that failed is never committed. Without an
        answer, or cancelled, it is to be repeated: with the same ``commit``."""
        ending = TransactionState.COMMITTING if commit else TransactionState.ABORTING
        async with self._turn:
            self._check(TransactionState.IN_TRANSACTION, ending)
            if self.state is TransactionState.IN_TRANSACTION and commit and self.failure:
                raise self.failure
            self.state = ending
            sequences = self._sequences
            if self._partitions or self._has_offsets:
                request = EndTxnRequest(self._id, sequences.producer_id, sequences.epoch, commit)
                await self._ask(TRANSACTION, self._id, request, _one_error, _BEFORE_KIP_890)
                self._partitions.clear()
                self._has_offsets = False
            if self.failure is not None:
                await self._get_producer_id()  # nobody knows which sequences brokers have seen
            self.failure = None
            self.state = TransactionState.READY

    def note_failure(self, error: KafkaError) -> None:
        """A batch was not delivered."""
        if self._is_ending or self.state is TransactionState.IN_TRANSACTION:
            self.failure = self.failure or error

    @property
    def may_abort(self) -> bool:
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTING)

    @property
    def _is_ending(self) -> bool:
        return self.state in (TransactionState.COMMITTING, TransactionState.ABORTING)

    # -- inside

    def _check(self, *wanted: TransactionState) -> None:
        if self._fatal is not None:
            raise self._fatal
        if self.state not in wanted:
            names = " or ".join(each.name for each in wanted)
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{self.state.name}, not {names}")

    def _check_open(self) -> None:
        self._check(TransactionState.IN_TRANSACTION)
        if self.failure is not None:
            raise self.failure

    async def _get_producer_id(self) -> None:
        """The first time whatever comes; later the next epoch of the same id, unless somebody else
        has taken it."""
        sequences = self._sequences
        node_id = await self._coordinator(TRANSACTION, self._id, self._session.deadline_ms())
        await self._session.connections.connect(node_id)
        versions = self._session.connections.versions(node_id)
        bumps = versions.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1] >= _BUMP_VERSION
        request = InitProducerIdRequest(
            self._id,
            self._timeout_ms,
            sequences.producer_id if bumps else -1,
            sequences.epoch if bumps else -1,
        )
        answer = await self._ask(TRANSACTION, self._id, request, _one_error, _BEFORE_KIP_890)
        sequences.set_producer(answer.producer_id, answer.producer_epoch)

    async def _coordinator(self, kind: int, key: str, deadline_ms: int) -> int:
        found = self._coordinators.get((kind, key))
        if found is None:

            async def attempt() -> int:
                return await find_coordinator(self._session, key, deadline_ms, kind)

            found = await self._session.retrying(attempt, deadline_ms)
            self._coordinators[kind, key] = found
        return found

    async def _ask(
        self,
        kind: int,
        key: str,
        message: Message,
        errors: Callable[[Any], Iterable[ErrorCode]],
        at_most: int | None = None,
    ) -> Any:
        """The coordinator's answer without errors; retried until ``default_api_timeout_ms``."""
        session = self._session
        deadline_ms = session.deadline_ms()

        async def attempt() -> Any:
            try:
                node_id = await self._coordinator(kind, key, deadline_ms)
                answer = await session.connections.request(
                    node_id, message, at_most=at_most, timeout_ms=session.timeout_ms(deadline_ms)
                )
                for code in errors(answer):
                    raise_for(code, f"{type(message).__name__} of {self._id}")
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinators.pop((kind, key), None)
                raise
            return answer

        try:
            return await session.retrying(attempt, deadline_ms)
        except KafkaError as error:
            self._note_refusal(error)
            raise

    def _note_refusal(self, error: KafkaError) -> None:
        """As Kafka's: when the end itself is refused, only one error leaves it to an abort; when it
        is not answered, it may have come about."""
        code, committing = error.code, self.state is TransactionState.COMMITTING
        if committing and code is ErrorCode.TRANSACTION_ABORTABLE:
            self.state = TransactionState.IN_TRANSACTION
            self.note_failure(error)
        elif code in FATAL or (self._is_ending and not code.retriable):
            self.state, self._fatal = TransactionState.FATAL, error
        elif not self._is_ending:
            self.note_failure(error)


def _one_error(answer: Any) -> Iterable[ErrorCode]:
    return [ErrorCode(answer.error_code)]


def _partition_errors(answer: Any) -> Iterable[ErrorCode]:
    return [
        ErrorCode(row.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    ]


def _offset_errors(answer: Any) -> Iterable[ErrorCode]:
    return [ErrorCode(row.error_code) for topic in answer.topics for row in topic.partitions]
