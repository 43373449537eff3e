"""Asking coordinators whether partitions were added to a transaction, before it writes there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from minikafka.broker.hosted_partitions import HostedPartitions
from minikafka.core.log.verification import Verification
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.releases import Release
from minikafka.protocol.schema import Message

ADD_PARTITIONS_TO_TXN_VERSION = 5

FIRST_VERIFYING_VERSION = 4

# By partition; those that are verified are not in it.
Refusals: TypeAlias = Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class VerificationItem:
    """One question: may these partitions be written to in that transaction?"""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    then: Callable[[Refusals], None]


class _Waiter:
    """One request. ``open``: partitions whose verification is not settled yet."""

    __slots__ = ("open", "refusals", "then")

    def __init__(
        self, guards: Mapping[TopicPartition, Verification], then: Callable[[Refusals], None]
    ) -> None:
        self.open = dict(guards)
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.then = then


class _Question:
    """One verification on its way to the coordinator. ``waiters``: all requests that wait for it,
    in order of arrival; the first ``asking`` of them came before it was asked."""

    __slots__ = ("asking", "guards", "producer", "transactional_id", "waiters")

    def __init__(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        guards: Mapping[TopicPartition, Verification],
        waiters: list[_Waiter],
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.guards = guards
        self.waiters = waiters
        self.asking = len(waiters)


def can_verify(release: Release) -> bool:
    """Whether brokers of ``release`` can ask each other (KIP-890). Before that, a leader takes a
    transactional batch without a check."""
    newest = release.newest(ApiKey.ADD_PARTITIONS_TO_TXN)
    return newest is not None and newest >= FIRST_VERIFYING_VERSION


class TransactionVerification:
    """Kafka's ``AddPartitionsToTxnManager`` (KIP-890). ``coordinator_of`` a transactional id: a
    broker, None while there is none. ``put`` queues a question for a broker, and what comes of it
    is told to ``answered``. ``enabled``: ``transaction.partition.verification.enable``, now.

    Requests that wait for the same guard share one question. Whoever parks requests behind a
    question bounds their number.
    """

    def __init__(
        self,
        enabled: Callable[[], bool],
        clock: Clock,
        hosted: HostedPartitions,
        coordinator_of: Callable[[str], int | None],
        put: Callable[[int, VerificationItem], None],
        metrics: Metrics,
    ) -> None:
        self._enabled = enabled
        self._clock = clock
        self._hosted = hosted
        self._coordinator_of = coordinator_of
        self._put = put
        # On their way, by transactional id, producer and partition.
        self._questions: dict[tuple[str, ProducerIdAndEpoch, TopicPartition], _Question] = {}
        self._failures = metrics.counter(
            "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate"
        )

    @property
    def enabled(self) -> bool:
        return self._enabled()

    def begin(
        self,
        producer: ProducerIdAndEpoch,
        batches: Iterable[tuple[TopicPartition, int]],
    ) -> dict[TopicPartition, Verification]:
        """What has to be verified of batches, each with its base sequence. It begins now: whatever
        ends a transaction there meanwhile makes it void."""
        now_ms = self._clock.wall_ms()
        guards: dict[TopicPartition, Verification] = {}
        for topic_partition, sequence in batches:
            partition = self._hosted.get(topic_partition)
            if partition is not None and partition.is_leader and partition.has_log:
                guard = partition.log.producers.states.verification_of(
                    producer.producer_id, producer.epoch, sequence, now_ms
                )
                if guard is not None:
                    guards[topic_partition] = guard
        return guards

    def ask(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        guards: Mapping[TopicPartition, Verification],
        then: Callable[[Refusals], None],
    ) -> None:
        """Verify partitions, as ``begin`` returned them. ``then`` is called once, now or later.

        A partition about which the same producer's question with the same guard is on its way is
        not asked for again. The positive response to that holds for this request too: had the
        transaction ended meanwhile, a marker would have voided the guard. So does a response after
        which the producer tries again. Any other refusal may be about an older transaction, so
        those that came after the question ask once more, together.
        """
        waiter = _Waiter(guards, then)
        unasked: dict[TopicPartition, Verification] = {}
        for topic_partition, guard in guards.items():
            question = self._questions.get((transactional_id, producer, topic_partition))
            if question is None or question.guards[topic_partition] is not guard:
                unasked[topic_partition] = guard
            elif question.waiters[-1] is not waiter:
                question.waiters.append(waiter)
        if unasked:
            self._ask(_Question(transactional_id, producer, unasked, [waiter]))

    def _ask(self, question: _Question) -> None:
        transactional_id, producer = question.transactional_id, question.producer
        partitions = tuple(question.guards)
        for topic_partition in partitions:
            self._questions[transactional_id, producer, topic_partition] = question
        coordinator = self._coordinator_of(transactional_id)
        if coordinator is None:
            self._failures.mark(len(partitions))
            self._settle(question, dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        item = VerificationItem(
            transactional_id, producer, partitions, partial(self._settle, question)
        )
        self._put(coordinator, item)

    def _settle(self, question: _Question, refusals: Refusals) -> None:
        transactional_id, producer = question.transactional_id, question.producer
        again: dict[TopicPartition, list[_Waiter]] = {}
        for topic_partition, guard in question.guards.items():
            key = transactional_id, producer, topic_partition
            if self._questions.get(key) is question:
                del self._questions[key]
            refusal = refusals.get(topic_partition)
            for place, waiter in enumerate(question.waiters):
                if waiter.open.get(topic_partition) is not guard:
                    continue
                if refusal is None:
                    del waiter.open[topic_partition]
                elif place < question.asking or refusal in _TRY_AGAIN:
                    del waiter.open[topic_partition]
                    waiter.refusals[topic_partition] = refusal
                else:
                    again.setdefault(topic_partition, []).append(waiter)
        for waiter in question.waiters:
            if not waiter.open:
                waiter.then(waiter.refusals)
        for topic_partition, waiters in again.items():
            guards = {topic_partition: question.guards[topic_partition]}
            self._ask(_Question(transactional_id, producer, guards, waiters))

    def answered(
        self, items: Sequence[VerificationItem], response: AddPartitionsToTxnResponse | None
    ) -> None:
        results = None if response is None or response.error_code else _by_transaction(response)
        for item in items:
            found = {} if results is None else results.get(item.transactional_id, {})
            lost = ErrorCode.NETWORK_EXCEPTION
            if response is not None and response.error_code:
                lost = ErrorCode(response.error_code)
            refused = {
                topic_partition: error
                for topic_partition in item.partitions
                if (error := found.get(topic_partition, lost)) is not ErrorCode.NONE
            }
            self._failures.mark(len(refused))
            item.then(refused)


def verification_key(item: VerificationItem) -> str:
    """A request holds a transactional id but once."""
    return item.transactional_id


def verification_request(items: Sequence[VerificationItem]) -> tuple[Message, int]:
    transactions = [_transaction(item) for item in items]
    return AddPartitionsToTxnRequest(transactions), ADD_PARTITIONS_TO_TXN_VERSION


def _transaction(item: VerificationItem) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, index in item.partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(topic)).partitions.append(index)
    return AddPartitionsToTxnTransaction(
        item.transactional_id,
        item.producer.producer_id,
        item.producer.epoch,
        verify_only=True,
        topics=list(topics.values()),
    )


def _by_transaction(response: Any) -> dict[str, dict[TopicPartition, ErrorCode]]:
    return {
        result.transactional_id: {
            TopicPartition(topic.name, of_partition.partition_index): ErrorCode(
                of_partition.partition_error_code
            )
            for topic in result.topic_results
            for of_partition in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


_TRY_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def refusal_of_producer(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """What a producer is told of ``error``. ``knows_abortable``: it speaks the versions that came
    with TRANSACTION_ABORTABLE. What it may try again is NOT_ENOUGH_REPLICAS, the one error at which
    producers of every age do so, and without asking for metadata first."""
    if error in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return refusal_of_committer(error, knows_abortable)


def refusal_of_committer(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """Likewise, of one that commits offsets in its transaction."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error
