"""The transactional ids of one partition of ``__transaction_state``: requests in, records out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.core.tombstones import in_batches
from minikafka.core.transaction.answers import not_written
from minikafka.core.transaction.beginning import begun, refusal_to_begin, rotates
from minikafka.core.transaction.config import TransactionConfig
from minikafka.core.transaction.facts import (
    MAX_EPOCH,
    NO_EPOCH,
    ProducerIdAndEpoch,
    TransactionFacts,
)
from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.result import (
    CoordinatorResult,
    Initialized,
    Markers,
    Ticket,
    Write,
)
from minikafka.core.transaction.settling import (
    Begun,
    Completed,
    Ended,
    Expired,
    PartitionsAdded,
    Then,
)
from minikafka.core.transaction.states import TransactionState
from minikafka.core.transaction.transaction import Transaction
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode


class TransactionShard:
    """``replay`` is the only way in which what the log says gets in here: record by record while
    loading, and again, once it is replicated, for each record that a request led to. Until then
    the transaction is ``pending``, and who asks something of it is told CONCURRENT_TRANSACTIONS.

    A write that has timed out may be in the log or not; the state here stays the one before. That
    is sound as each record says everything: what is written next counts, whatever came of it, and
    no marker is sent before a decision is known to be replicated.
    """

    def __init__(self, config: TransactionConfig) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._config = config
        self.is_closed = False

    # -- loading and unloading

    def replay(
        self, record: TransactionStored, offset: int = -1, producer_id: int | None = None
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

    def replay_end_of_transaction(self, producer_id: int, offset: int, committed: bool) -> None:
        """Nobody writes to this log in transactions."""

    def loaded(self, now_ms: int) -> CoordinatorResult:
        """The log is read: what is decided and not carried out yet goes on, markers and all."""
        result = CoordinatorResult()
        for transaction in self.transactions.values():
            if transaction.facts.state.is_prepared:
                self._send_markers(transaction, now_ms, result)
        return result

    def unloaded(self, now_ms: int) -> CoordinatorResult:
        """Another broker coordinates these now. Writes under way come to nothing here."""
        self.is_closed = True
        for transaction in self.transactions.values():
            transaction.markers = None
        self.transactions.clear()
        return CoordinatorResult()

    # -- producers

    def needs_producer_id(self, transactional_id: str, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether ``init_producer_id`` is going to take an id that no producer has."""
        transaction = self.transactions.get(transactional_id)
        return transaction is None or (
            transaction.pending is None
            and transaction.facts.state.may_expire
            and rotates(transaction.facts, expected)
        )

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        fresh_id: int | None,
        ticket: Ticket,
        now_ms: int,
    ) -> CoordinatorResult:
        """A producer begins: it gets the next epoch, and whoever had the one before is fenced. An
        open transaction is aborted first; meanwhile CONCURRENT_TRANSACTIONS.

        ``expected``: what the producer had, if it goes on after an error (KIP-360).
        ``fresh_id`` is needed where ``needs_producer_id``.
        """
        result = CoordinatorResult()
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            result.reply(ticket, Initialized(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return result
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            assert fresh_id is not None
            facts = TransactionFacts(fresh_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY)
            transaction = Transaction(transactional_id, facts)
            self.transactions[transactional_id] = transaction
        error = refusal_to_begin(transaction, expected)
        if error is not None:
            result.reply(ticket, Initialized(error))
        elif transaction.facts.state is TransactionState.ONGOING:
            fenced = transaction.facts.fenced(now_ms)
            self._write(transaction, fenced, Ended(ticket, answer=CONCURRENT), result)
        else:
            next_facts = begun(transaction.facts, timeout_ms, expected, fresh_id, now_ms)
            if next_facts is None:
                result.reply(ticket, Initialized(ErrorCode.PRODUCER_FENCED))
            else:
                self._write(transaction, next_facts, Begun(ticket), result)
        return result

    # -- transactions

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        ticket: Ticket,
        now_ms: int,
    ) -> CoordinatorResult:
        """The transaction, which begins with the first of them, is going to write there."""
        result = CoordinatorResult()
        transaction = self.transactions.get(transactional_id)
        error = _refusal(transaction, producer)
        if error is not None or transaction is None:
            result.reply(ticket, error)
            return result
        facts = transaction.facts
        if transaction.pending is not None or facts.state.is_prepared:
            result.reply(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif facts.state is TransactionState.ONGOING and partitions <= facts.partitions:
            result.reply(ticket, ErrorCode.NONE)
        else:
            wider = facts.with_partitions(partitions, now_ms)
            self._write(transaction, wider, PartitionsAdded(ticket), result)
        return result

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether they are in the open transaction (KIP-890): else whoever appended to them now
        would begin one that nobody is going to end. A pending record does not matter: the append
        itself looks once more whether a marker came in between."""
        transaction = self.transactions.get(transactional_id)
        error = _refusal(transaction, producer)
        if error is not None or transaction is None:
            return dict.fromkeys(partitions, error or ErrorCode.NONE)
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
        ticket: Ticket,
        now_ms: int,
    ) -> CoordinatorResult:
        """Decided and answered once the decision is replicated; the markers follow. Asked again for
        what has been carried out, the answer is the same."""
        result = CoordinatorResult()
        transaction = self.transactions.get(transactional_id)
        error = _refusal(transaction, producer)
        if error is None and transaction is not None:
            if transaction.pending is not None:
                error = ErrorCode.CONCURRENT_TRANSACTIONS
            elif transaction.facts.state is not TransactionState.ONGOING:
                error = _end_again(transaction.facts.state, committed)
        if error is not None or transaction is None:
            result.reply(ticket, error)
            return result
        self._write(transaction, transaction.facts.ended(committed, now_ms), Ended(ticket), result)
        return result

    # -- what time brings

    def abort_timed_out(self, now_ms: int) -> CoordinatorResult:
        """Transactions that have been open for longer than their producer asked for."""
        result = CoordinatorResult()
        for transaction in self.transactions.values():
            facts = transaction.facts
            if (
                facts.state is TransactionState.ONGOING
                and transaction.pending is None
                and facts.start_ms + facts.timeout_ms < now_ms
            ):
                result.note("transaction_timed_out", transaction, timeout_ms=facts.timeout_ms)
                self._write(transaction, facts.fenced(now_ms), Ended(None), result)
        return result

    def expire(self, now_ms: int) -> CoordinatorResult:
        """Transactional ids that nobody has used for ``transactional.id.expiration.ms``."""
        result = CoordinatorResult()
        latest_ms = now_ms - self._config.transactional_id_expiration_ms
        expired = [
            transaction
            for transaction in self.transactions.values()
            if transaction.facts.state.may_expire
            and transaction.pending is None
            and transaction.facts.last_update_ms <= latest_ms
        ]
        for part in in_batches(expired, lambda gone: len(gone.transactional_id.encode())):
            for transaction in part:
                transaction.prepare(TransactionState.DEAD)
            records = tuple(TransactionStored(gone.transactional_id, None) for gone in part)
            result.writes.append(Write(part, records, Expired()))
        return result

    # -- after the write

    def settle(self, write: Write, error: ErrorCode, now_ms: int) -> CoordinatorResult:
        """The records of ``write`` are replicated, or ``error`` says why not; after
        REQUEST_TIMED_OUT nobody knows."""
        result = CoordinatorResult()
        told = not_written(error)
        if self.is_closed:
            told = ErrorCode.NOT_COORDINATOR
        elif error is ErrorCode.NONE:
            for record in write.records:
                self.replay(record)
        then: Then = write.then
        if told is not ErrorCode.NONE and not self.is_closed:
            if isinstance(then, Completed):  # whatever refused it: else nobody would end it here
                result.retries.append(write)  # and it stays pending
                return result
            self._take_back(write)
        if isinstance(then, Begun):
            facts = write.records[0].facts
            assert facts is not None
            done = Initialized(told, facts.producer_id, facts.producer_epoch)
            result.reply(then.ticket, done if told is ErrorCode.NONE else Initialized(told))
        elif isinstance(then, PartitionsAdded):
            result.reply(then.ticket, told)
        elif isinstance(then, Ended):
            succeeded = told is ErrorCode.NONE
            result.reply(then.ticket, then.done if succeeded else then.failed(told))
            if succeeded:
                self._send_markers(write.transactions[0], now_ms, result)
        elif isinstance(then, Expired) and told is ErrorCode.NONE:
            for transaction in write.transactions:
                result.note("transactional_id_expired", transaction)
        return result

    def _take_back(self, write: Write) -> None:
        for transaction in write.transactions:
            transaction.pending = None
            if transaction.is_new:
                self.transactions.pop(transaction.transactional_id, None)

    # -- markers

    def markers_written(
        self, markers: Markers, partitions: Iterable[TopicPartition], now_ms: int
    ) -> CoordinatorResult:
        """These have their marker, or are gone. After the last one the transaction is complete."""
        result = CoordinatorResult()
        transaction = markers.transaction
        if transaction.markers is not markers:
            return result  # of a coordinator before
        transaction.unmarked.difference_update(partitions)
        if not transaction.unmarked:
            transaction.markers = None
            completed = transaction.facts.completed(now_ms)
            self._write(transaction, completed, Completed(), result)
        return result

    def _send_markers(
        self, transaction: Transaction, now_ms: int, result: CoordinatorResult
    ) -> None:
        facts = transaction.facts
        markers = transaction.markers = Markers(
            transaction,
            facts.producer_id,
            facts.producer_epoch,
            facts.state is TransactionState.PREPARE_COMMIT,
            tuple(sorted(transaction.unmarked)),
        )
        if markers.partitions:
            result.markers.append(markers)
        else:
            completed = self.markers_written(markers, (), now_ms)
            result.writes += completed.writes

    def _write(
        self,
        transaction: Transaction,
        facts: TransactionFacts,
        then: Then,
        result: CoordinatorResult,
    ) -> None:
        transaction.prepare(facts.state)
        record = TransactionStored(transaction.transactional_id, facts)
        result.writes.append(Write((transaction,), (record,), then))


CONCURRENT = Initialized(ErrorCode.CONCURRENT_TRANSACTIONS)


def _end_again(state: TransactionState, committed: bool) -> ErrorCode:
    """What EndTxn comes to when there is no open transaction."""
    prepared, complete = (
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if committed
        else (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    )
    if state is complete:
        return ErrorCode.NONE
    return ErrorCode.CONCURRENT_TRANSACTIONS if state is prepared else ErrorCode.INVALID_TXN_STATE


def _refusal(transaction: Transaction | None, producer: ProducerIdAndEpoch) -> ErrorCode | None:
    if transaction is None or transaction.facts.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.facts.producer_epoch != producer.epoch or producer.epoch == MAX_EPOCH:
        return ErrorCode.PRODUCER_FENCED  # the last epoch is for fencing alone: nobody has it
    return None
