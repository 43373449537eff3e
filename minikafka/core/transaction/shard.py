"""The transactional ids of one partition of ``__transaction_state``, as a coordinator shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from minikafka.core.coordinator_shard import (
    CoordinatorAppend,
    CoordinatorResult,
    CoordinatorShard,
    RespondError,
    in_batches,
)
from minikafka.core.transaction import records
from minikafka.core.transaction.ending import ends_with_new_id, refusal_of, refusal_to_end
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.result import (
    Expiration,
    PartitionsAddition,
    ProducerInitialization,
    ProducerResult,
    RespondProducer,
    TransactionAppend,
    TransactionAppendPurpose,
    TransactionCompletion,
    TransactionEnd,
    TransactionFence,
    TransactionResult,
)
from minikafka.core.transaction.transaction import (
    EPOCH_OF_EACH_TRANSACTION,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Markers,
    Transaction,
    TransactionFacts,
    TransactionState,
    begun,
    is_exhausted,
    refusal_to_begin,
    rotates,
)
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's configuration of transactions and its defaults; times in milliseconds."""

    transaction_max_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000


_NOT_AVAILABLE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)
_NOT_COORDINATOR = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def transaction_append_error(error: ErrorCode) -> ErrorCode:
    """Map the error of a failed append to the error code that the producer receives."""
    if error in _NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else error


class MarkerOutcome(Enum):
    """The outcome of WriteTxnMarkers for one partition."""

    WRITTEN = "written"
    RETRY = "retry"  # e.g. the leader is changing, or too few replicas are in sync
    FENCED = "fenced"  # a later coordinator has written a marker: this one is replaced


def marker_outcome(error: ErrorCode) -> MarkerOutcome:
    """Map a partition's error in a WriteTxnMarkers response to an outcome.

    INVALID_PRODUCER_EPOCH counts as written: the partition knows a later producer epoch, which a
    producer gets only after the transaction has all its markers. Unexpected errors are retried.
    """
    if error in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH):
        return MarkerOutcome.WRITTEN
    if error is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        return MarkerOutcome.FENCED
    if error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return MarkerOutcome.WRITTEN  # such a log has no records of the transaction
    return MarkerOutcome.RETRY


class TransactionShard(CoordinatorShard[TransactionStored, TransactionAppendPurpose, Markers]):
    """The transactional ids of one partition of ``__transaction_state``.

    While a record of a transaction is being appended, the transaction is ``pending``, and other
    requests for it fail with CONCURRENT_TRANSACTIONS.

    After an append has timed out, its record may be in the log or not, and the state is
    unchanged. That is correct because each record contains all facts: the next one replaces it
    in either case, and no marker is sent before the decision is known to be replicated.

    ``transaction_version`` returns the finalized level of the feature ``transaction.version``.

    Kafka: ``TransactionStateManager`` and ``TransactionCoordinator``.
    """

    # The end of the log may be a decision that only the previous coordinator knew. Markers for it
    # are sent when no later leader can be without it. (Kafka sends them at once, and the next
    # leader may decide differently.)
    awaits_replication = True

    def __init__(self, config: TransactionConfig, transaction_version: Callable[[], int]) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._config = config
        self._transaction_version = transaction_version
        self._unloaded = False

    @property
    def size(self) -> int:
        return len(self.transactions)

    # -- records

    def encode(self, record: TransactionStored) -> tuple[bytes, bytes | None]:
        if record.facts is not None:
            problem = records.facts_problem(record.facts)
            assert problem is None, problem
        return records.encode_record(record, self._transaction_version())

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> TransactionStored | None:
        return records.decode_record(key, value)

    def replay(
        self, record: TransactionStored, offset: int, producer_id: int | None = None
    ) -> None:
        known = self.transactions.get(record.transactional_id)
        if record.facts is None:
            self.transactions.pop(record.transactional_id, None)
        elif known is None:
            created = Transaction(record.transactional_id, record.facts)
            created.become(record.facts)
            self.transactions[record.transactional_id] = created
        else:
            known.become(record.facts)

    def replay_end_transaction_marker(self, producer_id: int, offset: int, committed: bool) -> None:
        """Do nothing: records of this log never belong to a transaction."""

    # -- loading and unloading

    def loaded(self, now_ms: int) -> TransactionResult[None]:
        """Send the markers of all transactions in a prepare state."""
        result: TransactionResult[None] = CoordinatorResult(None)
        for transaction in self.transactions.values():
            if transaction.facts.state.is_prepared:
                self._send_markers(transaction, now_ms, result)
        return result

    def unloaded(self, now_ms: int) -> TransactionResult[None]:
        """Drop all transactions. Appends in flight have no effect, and markers are not retried."""
        self._unloaded = True
        self.transactions.clear()
        return CoordinatorResult(None)

    # -- producers

    def needs_producer_id(self, transactional_id: str, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether ``init_producer_id`` needs a new producer id from the caller."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or (
            transaction.pending is None
            and transaction.facts.state.may_expire
            and rotates(transaction.facts, expected)
        )

    def needs_producer_id_to_end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        client_version: int,
    ) -> bool:
        """Whether ``end`` needs a new producer id from the caller."""
        transaction = self.transactions.get(transactional_id)
        return transaction is not None and ends_with_new_id(
            transaction, producer, committed, client_version
        )

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        fresh_id: int | None,
        respond: RespondProducer,
        now_ms: int,
    ) -> TransactionResult[None]:
        """Handle InitProducerId: give the producer the next epoch, which fences its predecessor.

        If a transaction is open, it is aborted first. The response is then
        CONCURRENT_TRANSACTIONS, and the producer retries.

        ``expected`` is the producer's current id and epoch, if it names them (KIP-360).
        ``fresh_id`` is an unused producer id, required if ``needs_producer_id``.
        """
        result: TransactionResult[None] = CoordinatorResult(None)
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            result.reply(respond, ProducerResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return result
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            assert fresh_id is not None
            facts = TransactionFacts(fresh_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY)
            transaction = Transaction(transactional_id, facts)
            self.transactions[transactional_id] = transaction
        error = refusal_to_begin(transaction, expected)
        if error is not None:
            result.reply(respond, ProducerResult(error))
        elif transaction.facts.state is TransactionState.ONGOING:
            fence = TransactionFence(transaction, respond)
            fenced = transaction.facts.fenced(self._transaction_version(), now_ms)
            result.appends.append(_append(fenced, fence))
        else:
            next_facts = begun(transaction.facts, timeout_ms, expected, fresh_id, now_ms)
            if next_facts is None:
                result.reply(respond, ProducerResult(ErrorCode.PRODUCER_FENCED))
            else:
                initialization = ProducerInitialization(transaction, respond)
                result.appends.append(_append(next_facts, initialization))
        return result

    # -- transactions

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        client_version: int,
        respond: RespondError,
        now_ms: int,
    ) -> TransactionResult[None]:
        """Handle AddPartitionsToTxn. The first partitions begin the transaction.

        While a record is pending its facts are not known to the producer, which may already use
        the producer id in it: CONCURRENT_TRANSACTIONS comes before the other errors."""
        result: TransactionResult[None] = CoordinatorResult(None)
        known = self.transactions.get(transactional_id)
        if known is not None and known.pending is not None:
            result.reply(respond, ErrorCode.CONCURRENT_TRANSACTIONS)
            return result
        transaction = self._transaction_of(transactional_id, producer)
        if isinstance(transaction, ErrorCode):
            result.reply(respond, transaction)
            return result
        facts = transaction.facts
        if facts.state.is_prepared:
            result.reply(respond, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif facts.state is TransactionState.ONGOING and partitions <= facts.partitions:
            result.reply(respond, ErrorCode.NONE)
        else:
            added = facts.with_partitions(partitions, client_version, now_ms)
            result.appends.append(_append(added, PartitionsAddition(transaction, respond)))
        return result

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Return for each partition whether the open transaction includes it (KIP-890).

        An append to another partition would begin a transaction there that nobody ends. A
        pending record does not matter: the append itself checks whether a marker was written in
        the meantime.
        """
        transaction = self._transaction_of(transactional_id, producer)
        if isinstance(transaction, ErrorCode):
            return dict.fromkeys(partitions, transaction)
        if transaction.facts.state.is_prepared:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        known = transaction.facts.partitions
        return {
            partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committed: bool,
        client_version: int,
        fresh_id: int | None,
        respond: RespondProducer,
        now_ms: int,
    ) -> TransactionResult[None]:
        """Handle EndTxn: store the outcome, then respond and send the markers.

        The response follows when the outcome is replicated. With ``client_version`` 2 it has the
        producer id and epoch of the next transaction. A repeated request for the outcome that a
        completed transaction has succeeds.

        ``fresh_id`` is an unused producer id, required if ``needs_producer_id_to_end``.
        """
        result: TransactionResult[None] = CoordinatorResult(None)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            result.reply(respond, ProducerResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
            return result
        error = refusal_to_end(transaction, producer, committed, client_version)
        facts = transaction.facts
        if error is not None:
            result.reply(respond, _end_result(error, facts, client_version))
        else:
            if client_version >= EPOCH_OF_EACH_TRANSACTION:
                next_id = NO_PRODUCER_ID
                if is_exhausted(facts.producer_epoch):
                    assert fresh_id is not None
                    next_id = fresh_id
                ended = facts.ended_in_next_epoch(committed, now_ms, next_id)
            else:
                ended = facts.ended(committed, now_ms)
            result.appends.append(
                _append(ended, TransactionEnd(transaction, respond, client_version))
            )
        return result

    def _transaction_of(
        self, transactional_id: str, producer: ProducerIdAndEpoch
    ) -> Transaction | ErrorCode:
        """Return the transaction if the producer may continue it, else the error code."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return refusal_of(transaction, producer) or transaction

    # -- time-outs and expiry

    def abort_timed_out(self, now_ms: int) -> TransactionResult[None]:
        """Abort the transactions that have been open for longer than their time-out."""
        result: TransactionResult[None] = CoordinatorResult(None)
        for transaction in self.transactions.values():
            facts = transaction.facts
            if (
                facts.state is TransactionState.ONGOING
                and transaction.pending is None
                and facts.start_ms + facts.timeout_ms < now_ms
            ):
                result.event(
                    "transaction_timed_out",
                    transactional_id=transaction.transactional_id,
                    timeout_ms=facts.timeout_ms,
                )
                fence = TransactionFence(transaction, None)
                fenced = facts.fenced(self._transaction_version(), now_ms)
                result.appends.append(_append(fenced, fence))
        return result

    def expire(self, now_ms: int) -> TransactionResult[None]:
        """Delete the transactional ids not used for ``transactional.id.expiration.ms``."""
        result: TransactionResult[None] = CoordinatorResult(None)
        latest_ms = now_ms - self._config.transactional_id_expiration_ms
        expired = [
            transaction
            for transaction in self.transactions.values()
            if transaction.facts.state.may_expire
            and transaction.pending is None
            and transaction.facts.last_update_ms <= latest_ms
        ]
        for batch in in_batches(expired, lambda expired: len(expired.transactional_id.encode())):
            for transaction in batch:
                transaction.prepare(TransactionState.DEAD)
            tombstones = tuple(TransactionStored(gone.transactional_id, None) for gone in batch)
            result.appends.append(CoordinatorAppend(tombstones, Expiration(batch)))
        return result

    # -- outcomes of appends

    def settle(
        self, append: TransactionAppend, error: ErrorCode, base_offset: int, now_ms: int
    ) -> TransactionResult[None]:
        """Replay the record of a successful append, and continue according to its purpose.

        A failed TransactionCompletion is retried: otherwise the transaction would stay pending.
        """
        result: TransactionResult[None] = CoordinatorResult(None)
        purpose = append.purpose
        code = ErrorCode.NOT_COORDINATOR if self._unloaded else transaction_append_error(error)
        succeeded = code is ErrorCode.NONE
        if succeeded:
            for record in append.records:
                self.replay(record, base_offset)
        elif not self._unloaded:
            if isinstance(purpose, TransactionCompletion):
                result.retries.append(append)  # the transaction stays pending
                return result
            self._drop_pending(purpose.transactions)
        if isinstance(purpose, ProducerInitialization):
            facts = purpose.transaction.facts
            initialized = ProducerResult(ErrorCode.NONE, facts.producer_id, facts.producer_epoch)
            result.reply(purpose.respond, initialized if succeeded else ProducerResult(code))
        elif isinstance(purpose, PartitionsAddition):
            result.reply(purpose.respond, code)
        elif isinstance(purpose, TransactionEnd):
            facts = purpose.transaction.facts
            ended = facts.completed(now_ms) if succeeded else facts
            result.reply(purpose.respond, _end_result(code, ended, purpose.client_version))
            if succeeded:
                self._send_markers(purpose.transaction, now_ms, result)
        elif isinstance(purpose, TransactionFence):
            if purpose.respond is not None:
                fenced = ErrorCode.CONCURRENT_TRANSACTIONS if succeeded else code
                result.reply(purpose.respond, ProducerResult(fenced))
            if succeeded:
                self._send_markers(purpose.transaction, now_ms, result)
        elif isinstance(purpose, Expiration):
            if succeeded:
                for transaction in purpose.transactions:
                    expired = transaction.transactional_id
                    result.event("transactional_id_expired", transactional_id=expired)
        else:
            assert isinstance(purpose, TransactionCompletion)
        return result

    def _drop_pending(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            transaction.pending = None
            if transaction.is_new:
                self.transactions.pop(transaction.transactional_id, None)

    # -- markers

    def is_current(self, markers: Markers) -> bool:
        """Whether this coordinator still has to write these markers."""
        transaction = self.transactions.get(markers.transactional_id)
        return transaction is not None and transaction.markers is markers

    def marker_version(self, markers: Markers) -> int:
        """Return the version of transactions to send with these markers.

        It is not above that of the cluster now: after a downgrade, while the markers are retried, a
        leader may be replaced by a release that knows no later version."""
        return min(markers.client_version, self._transaction_version())

    def markers_written(
        self, markers: Markers, partitions: Iterable[TopicPartition], now_ms: int
    ) -> TransactionResult[None]:
        """Note that these partitions have their marker, or are deleted.

        After the last one the transaction is completed. Markers that are not current are
        ignored.
        """
        result: TransactionResult[None] = CoordinatorResult(None)
        transaction = self.transactions.get(markers.transactional_id)
        if transaction is None or transaction.markers is not markers:
            return result
        transaction.unmarked.difference_update(partitions)
        if not transaction.unmarked:
            self._complete(transaction, now_ms, result)
        return result

    def _send_markers(
        self, transaction: Transaction, now_ms: int, result: TransactionResult[None]
    ) -> None:
        facts = transaction.facts
        assert facts.state.is_prepared, f"{transaction.transactional_id}: {facts.state}"
        if not transaction.unmarked:
            self._complete(transaction, now_ms, result)
            return
        transaction.markers = Markers(
            transaction.transactional_id,
            facts.producer_id,
            facts.producer_epoch,
            facts.state is TransactionState.PREPARE_COMMIT,
            tuple(sorted(transaction.unmarked)),
            facts.client_version,
        )
        result.effects.append(transaction.markers)

    def _complete(
        self, transaction: Transaction, now_ms: int, result: TransactionResult[None]
    ) -> None:
        transaction.markers = None
        completion = TransactionCompletion(transaction)
        result.appends.append(_append(transaction.facts.completed(now_ms), completion))


def _append(
    facts: TransactionFacts,
    purpose: ProducerInitialization
    | PartitionsAddition
    | TransactionEnd
    | TransactionFence
    | TransactionCompletion,
) -> TransactionAppend:
    """Make the transaction pending and return the append of its next facts."""
    transaction = purpose.transaction
    transaction.prepare(facts.state)
    return CoordinatorAppend((TransactionStored(transaction.transactional_id, facts),), purpose)


def _end_result(error: ErrorCode, facts: TransactionFacts, client_version: int) -> ProducerResult:
    """Return the contents of an EndTxn response. ``facts`` are those of the next transaction."""
    if error is not ErrorCode.NONE or client_version < EPOCH_OF_EACH_TRANSACTION:
        return ProducerResult(error)
    return ProducerResult(error, facts.producer_id, facts.producer_epoch)
