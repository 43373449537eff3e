"""Verification with the transaction coordinator that partitions belong to a transaction (KIP-890),
or, in version 2 of transactions, their addition to it.

Kafka: ``AddPartitionsToTxnManager``.

The first batch of a transaction in a partition waits for the coordinator (``append_order``).
Batches that arrive meanwhile share the verification. docs/explanation/order-of-requests.md says
what becomes of them when it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from minikafka.core.log.verification import Verification
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.schema import Message
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions

ADD_PARTITIONS_TO_TXN_VERSION = 5


class TransactionSupport(IntEnum):
    """What the sender of transactional records or offsets knows, by the version of its request.
    Kafka's ``TransactionSupportedOperation``."""

    PLAIN = 0
    ABORTABLE = 1  # knows TRANSACTION_ABORTABLE
    ADDED = 2  # and leaves it to the broker to add partitions to its transaction (version 2)

    @classmethod
    def of(cls, version: int, abortable_since: int) -> TransactionSupport:
        """Return the support of a request. ``abortable_since`` is the first version with
        TRANSACTION_ABORTABLE; in the next one the broker adds partitions."""
        return cls(min(max(version - abortable_since + 1, cls.PLAIN), cls.ADDED))

    @property
    def adds(self) -> bool:
        return self is TransactionSupport.ADDED


FIRST_VERIFYING_VERSION = 4

# The verification of each partition that waits for the coordinator.
Guards: TypeAlias = Mapping[TopicPartition, Verification]
# The error of each partition that was refused. Verified partitions are not in it.
Refusals: TypeAlias = Mapping[TopicPartition, ErrorCode]

# After these errors of the coordinator a verification may succeed later.
_RETRIABLE: Final = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class VerificationItem(NamedTuple):
    """One verification: whether these partitions were added to the transaction, or, with ``adds``,
    their addition. ``then`` is called with the partitions that are not in it."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    adds: bool
    then: Callable[[Refusals], None]


class AdditionRetry(NamedTuple):
    """How often, and for how long, the broker tries again to add partitions to a transaction while
    the one before is being completed; in ms. Kafka's ``AddPartitionsToTxnConfig``."""

    backoff_ms: int
    max_ms: int


class _Waiter:
    """A request that waits for verifications. ``open`` has the partitions whose verification has no
    outcome yet."""

    __slots__ = ("open", "refusals", "then")

    def __init__(self, guards: Guards, then: Callable[[Refusals], None]) -> None:
        self.open = dict(guards)
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.then = then


class _InFlight:
    """One verification in flight to the coordinator. ``waiters`` are all requests that wait for it,
    in order of arrival. The first ``before`` of them arrived before it was sent."""

    __slots__ = ("adds", "before", "guards", "producer", "transactional_id", "waiters")

    def __init__(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        guards: Guards,
        adds: bool,
        waiters: list[_Waiter],
    ) -> None:
        self.adds = adds
        self.transactional_id = transactional_id
        self.producer = producer
        self.guards = guards
        self.waiters = waiters
        self.before = len(waiters)


def can_verify(release: Release) -> bool:
    """Whether brokers of ``release`` can send verifications to each other (KIP-890). Leaders of
    older releases accept transactional batches without a check."""
    newest = release.newest(ApiKey.ADD_PARTITIONS_TO_TXN)
    return newest is not None and newest >= FIRST_VERIFYING_VERSION


class TransactionVerification:
    """Verifies with the transaction coordinator that partitions were added to a transaction.

    ``coordinator_of`` returns the broker that coordinates a transactional id, or None. ``put``
    queues a verification for a broker, and has its ``then`` called with the outcome. ``enabled``
    returns the current value of ``transaction.partition.verification.enable``: without it
    partitions are only added, for producers that leave this to the broker.

    Requests that wait for the same guard share one verification. The caller bounds their number.
    """

    def __init__(
        self,
        enabled: Callable[[], bool],
        clock: Clock,
        hosted: HostedPartitions,
        coordinator_of: Callable[[str], int | None],
        put: Callable[[int, VerificationItem], None],
        retry: AdditionRetry,
        metrics: Metrics,
    ) -> None:
        self._enabled = enabled
        self._retry = retry
        self._clock = clock
        self._hosted = hosted
        self._coordinator_of = coordinator_of
        self._put = put
        # Those in flight, by transactional id, producer, partition, and whether they add it.
        self._in_flight: dict[tuple[str, ProducerIdAndEpoch, TopicPartition, bool], _InFlight] = {}
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
        support: TransactionSupport,
    ) -> dict[TopicPartition, Verification] | None:
        """Return a guard for each partition whose batch needs verification, or whose partition has
        to be added; None if nothing is verified or added on this broker. ``batches`` are pairs of
        partition and base sequence. A marker of the transaction that is appended to the partition
        before the batch makes its guard invalid."""
        if not support.adds and not self.enabled:
            return None
        now_ms = self._clock.wall_ms()
        guards: dict[TopicPartition, Verification] = {}
        for topic_partition, sequence in batches:
            partition = self._hosted.get(topic_partition)
            if partition is not None and partition.is_leader and partition.has_log:
                guard = partition.log.producers.states.verification_of(
                    producer.producer_id, producer.epoch, sequence, now_ms, support.adds
                )
                if guard is not None:
                    guards[topic_partition] = guard
        return guards

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        guards: Guards,
        support: TransactionSupport,
        then: Callable[[Refusals], None],
    ) -> None:
        """Verify or add the partitions in ``guards``, as returned by ``begin``. ``then`` is called
        once with the refused partitions, now or later.

        A request joins the verification in flight of the same producer, partition and guard. Its
        success applies to this request too: if the transaction had ended in between, the marker
        would have made the guard invalid. So does an error that the producer retries. Any other
        error may refer to an older transaction, so a second verification is sent for the requests
        that arrived after the first.
        """
        waiter = _Waiter(guards, then)
        unsent: dict[TopicPartition, Verification] = {}
        for topic_partition, guard in guards.items():
            key = transactional_id, producer, topic_partition, support.adds
            in_flight = self._in_flight.get(key)
            if in_flight is None or in_flight.guards[topic_partition] is not guard:
                unsent[topic_partition] = guard
            elif in_flight.waiters[-1] is not waiter:
                in_flight.waiters.append(waiter)
        if unsent:
            self._send(_InFlight(transactional_id, producer, unsent, support.adds, [waiter]))

    def verify_append(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        guards: Guards,
        support: TransactionSupport,
        then: Callable[[Refusals], None],
    ) -> None:
        """Verify or add partitions, as ``verify`` does, before an append to them.

        An addition is tried again after CONCURRENT_TRANSACTIONS: the transaction before is being
        completed, which takes milliseconds, and the producer would have to send its records
        again."""
        verify = partial(self.verify, transactional_id, producer)
        if not support.adds:
            verify(guards, support, then)
            return
        until_ms = self._clock.monotonic_ms() + self._retry.max_ms
        final: dict[TopicPartition, ErrorCode] = {}

        def added(refusals: Refusals) -> None:
            busy = {
                topic_partition: guards[topic_partition]
                for topic_partition, error in refusals.items()
                if error is ErrorCode.CONCURRENT_TRANSACTIONS
            }
            final.update(refusals)
            if not busy or self._clock.monotonic_ms() >= until_ms:
                then(final)
                return
            for topic_partition in busy:
                del final[topic_partition]
            again = partial(verify, busy, support, added)
            self._clock.call_later(self._retry.backoff_ms, again)

        verify(guards, support, added)

    def _send(self, in_flight: _InFlight) -> None:
        transactional_id, producer = in_flight.transactional_id, in_flight.producer
        partitions = tuple(in_flight.guards)
        for topic_partition in partitions:
            key = transactional_id, producer, topic_partition, in_flight.adds
            self._in_flight[key] = in_flight
        coordinator = self._coordinator_of(transactional_id)
        if coordinator is None:
            self._complete(
                in_flight, dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            )
            return
        item = VerificationItem(
            transactional_id,
            producer,
            partitions,
            in_flight.adds,
            partial(self._complete, in_flight),
        )
        self._put(coordinator, item)

    def _complete(self, in_flight: _InFlight, refusals: Refusals) -> None:
        self._failures.mark(len(refusals))
        transactional_id, producer = in_flight.transactional_id, in_flight.producer
        second: dict[TopicPartition, list[_Waiter]] = {}
        for topic_partition, guard in in_flight.guards.items():
            key = transactional_id, producer, topic_partition, in_flight.adds
            if self._in_flight.get(key) is in_flight:
                del self._in_flight[key]
            refusal = refusals.get(topic_partition)
            for place, waiter in enumerate(in_flight.waiters):
                if waiter.open.get(topic_partition) is not guard:
                    continue
                if refusal is None:
                    del waiter.open[topic_partition]
                elif place < in_flight.before or refusal in _RETRIABLE:
                    del waiter.open[topic_partition]
                    waiter.refusals[topic_partition] = refusal
                else:
                    second.setdefault(topic_partition, []).append(waiter)
        for waiter in in_flight.waiters:
            if not waiter.open:
                waiter.then(waiter.refusals)
        for topic_partition, waiters in second.items():
            guards = {topic_partition: in_flight.guards[topic_partition]}
            self._send(_InFlight(transactional_id, producer, guards, in_flight.adds, waiters))


def verification_key(item: VerificationItem) -> str:
    """Return the key that is unique within one request: its transactional id."""
    return item.transactional_id


def verification_request(items: Sequence[VerificationItem]) -> tuple[Message, int]:
    transactions = [_transaction(item) for item in items]
    return AddPartitionsToTxnRequest(transactions), ADD_PARTITIONS_TO_TXN_VERSION


def complete_verifications(
    items: Sequence[VerificationItem], response: AddPartitionsToTxnResponse | None
) -> None:
    """Pass the outcomes in ``response`` to the items that its request verified.

    Without a response, or an outcome for a partition, the error is NETWORK_EXCEPTION. Clients do
    not see CLUSTER_AUTHORIZATION_FAILED, which is about this broker: as in Kafka, the verification
    fails with INVALID_TXN_STATE instead."""
    results = None if response is None or response.error_code else _by_transaction(response)
    for item in items:
        found = {} if results is None else results.get(item.transactional_id, {})
        lost = ErrorCode.NETWORK_EXCEPTION
        if response is not None and response.error_code:
            lost = ErrorCode(response.error_code)
            if lost is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                lost = ErrorCode.INVALID_TXN_STATE
        item.then(
            {
                topic_partition: error
                for topic_partition in item.partitions
                if (error := found.get(topic_partition, lost)) is not ErrorCode.NONE
            }
        )


def _transaction(item: VerificationItem) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        item.transactional_id,
        item.producer.producer_id,
        item.producer.epoch,
        verify_only=not item.adds,
        topics=[
            AddPartitionsToTxnTopic(*of_topic) for of_topic in grouped(item.partitions).items()
        ],
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


def refusal_of_producer(error: ErrorCode, support: TransactionSupport) -> ErrorCode:
    """Return the error code for a producer whose verification failed with ``error``.

    A retriable error becomes NOT_ENOUGH_REPLICAS, the only one that producers of all versions retry
    without refreshing their metadata first. Producers of version 2 of transactions know
    CONCURRENT_TRANSACTIONS."""
    if error in _RETRIABLE and not (support.adds and error is ErrorCode.CONCURRENT_TRANSACTIONS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return refusal_of_committer(error, support)


def refusal_of_committer(error: ErrorCode, support: TransactionSupport) -> ErrorCode:
    """Return the error code for a client that commits offsets in a transaction whose verification
    failed with ``error``. Retriable errors are unchanged, except NETWORK_EXCEPTION, for which old
    clients would look for the coordinator of the group."""
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and support is TransactionSupport.PLAIN:
        return ErrorCode.INVALID_TXN_STATE
    return error
