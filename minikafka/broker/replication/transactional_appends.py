"""Appends of transactional batches, which the transaction coordinator verifies first (KIP-890)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from minikafka.broker.replication.hosted_partitions import HostedPartitions
from minikafka.broker.replication.record_appends import (
    AppendReply,
    AppendResult,
    Entries,
    Guards,
    RecordAppends,
)
from minikafka.broker.replication.record_preparation import LongAppend, entries_of
from minikafka.core.arrival_order import ArrivalOrder
from minikafka.core.log.append import AppendOrigin
from minikafka.core.log.verification import Verification
from minikafka.kernel.cluster import ProducerIdAndEpoch, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.metrics import Metrics
from minikafka.kernel.ports import Buffer, Clock
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from minikafka.protocol.records.batch import is_transactional, producer_of
from minikafka.protocol.schema import Message

ADD_PARTITIONS_TO_TXN_VERSION = 5

FIRST_VERIFYING_VERSION = 4

# The error of each partition that was refused. Verified partitions are not in it.
Refusals: TypeAlias = Mapping[TopicPartition, ErrorCode]


class VerificationItem(NamedTuple):
    """One verification: whether these partitions were added to the transaction. ``then`` is called
    with the partitions that were not."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicPartition, ...]
    then: Callable[[Refusals], None]


class _Waiter:
    """A request that waits for verifications. ``open`` has the partitions whose verification has no
    outcome yet."""

    __slots__ = ("open", "refusals", "then")

    def __init__(
        self, guards: Mapping[TopicPartition, Verification], then: Callable[[Refusals], None]
    ) -> None:
        self.open = dict(guards)
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.then = then


class _InFlight:
    """One verification in flight to the coordinator. ``waiters`` are all requests that wait for it,
    in order of arrival. The first ``before`` of them arrived before it was sent."""

    __slots__ = ("before", "guards", "producer", "transactional_id", "waiters")

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
        self.before = len(waiters)


def can_verify(release: Release) -> bool:
    """Whether brokers of ``release`` can send verifications to each other (KIP-890). Leaders of
    older releases accept transactional batches without a check."""
    newest = release.newest(ApiKey.ADD_PARTITIONS_TO_TXN)
    return newest is not None and newest >= FIRST_VERIFYING_VERSION


class TransactionVerification:
    """Verifies with the transaction coordinator that partitions were added to a transaction.

    Kafka's ``AddPartitionsToTxnManager`` (KIP-890). ``coordinator_of`` returns the broker that
    coordinates a transactional id, or None. ``put`` queues a verification for a broker, and has
    its ``then`` called with the outcome. ``enabled`` returns the current value of
    ``transaction.partition.verification.enable``.

    Requests that wait for the same guard share one verification. The caller bounds their number.
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
        # The verifications in flight, by transactional id, producer and partition.
        self._in_flight: dict[tuple[str, ProducerIdAndEpoch, TopicPartition], _InFlight] = {}
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
        """Return a guard for each partition whose batch needs verification; ``batches`` are pairs
        of partition and base sequence. A transaction marker that is appended to the partition
        before the batch makes its guard invalid."""
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
        """Verify the partitions in ``guards``, as returned by ``begin``. ``then`` is called once
        with the refused partitions, now or later.

        A request joins the verification in flight of the same producer, partition and guard. Its
        success applies to this request too: if the transaction had ended in between, the marker
        would have made the guard invalid. So does an error that the producer retries. Any other
        error may refer to an older transaction, so a second verification is sent for the requests
        that arrived after the first.
        """
        waiter = _Waiter(guards, then)
        unsent: dict[TopicPartition, Verification] = {}
        for topic_partition, guard in guards.items():
            in_flight = self._in_flight.get((transactional_id, producer, topic_partition))
            if in_flight is None or in_flight.guards[topic_partition] is not guard:
                unsent[topic_partition] = guard
            elif in_flight.waiters[-1] is not waiter:
                in_flight.waiters.append(waiter)
        if unsent:
            self._send(_InFlight(transactional_id, producer, unsent, [waiter]))

    def _send(self, in_flight: _InFlight) -> None:
        transactional_id, producer = in_flight.transactional_id, in_flight.producer
        partitions = tuple(in_flight.guards)
        for topic_partition in partitions:
            self._in_flight[transactional_id, producer, topic_partition] = in_flight
        coordinator = self._coordinator_of(transactional_id)
        if coordinator is None:
            self._settle(in_flight, dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        item = VerificationItem(
            transactional_id, producer, partitions, partial(self._settle, in_flight)
        )
        self._put(coordinator, item)

    def _settle(self, in_flight: _InFlight, refusals: Refusals) -> None:
        self._failures.mark(len(refusals))
        transactional_id, producer = in_flight.transactional_id, in_flight.producer
        again: dict[TopicPartition, list[_Waiter]] = {}
        for topic_partition, guard in in_flight.guards.items():
            key = transactional_id, producer, topic_partition
            if self._in_flight.get(key) is in_flight:
                del self._in_flight[key]
            refusal = refusals.get(topic_partition)
            for place, waiter in enumerate(in_flight.waiters):
                if waiter.open.get(topic_partition) is not guard:
                    continue
                if refusal is None:
                    del waiter.open[topic_partition]
                elif place < in_flight.before or refusal in _TRY_AGAIN:
                    del waiter.open[topic_partition]
                    waiter.refusals[topic_partition] = refusal
                else:
                    again.setdefault(topic_partition, []).append(waiter)
        for waiter in in_flight.waiters:
            if not waiter.open:
                waiter.then(waiter.refusals)
        for topic_partition, waiters in again.items():
            guards = {topic_partition: in_flight.guards[topic_partition]}
            self._send(_InFlight(transactional_id, producer, guards, waiters))


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

    Without a response, or an outcome for a partition, the error is NETWORK_EXCEPTION."""
    results = None if response is None or response.error_code else _by_transaction(response)
    for item in items:
        found = {} if results is None else results.get(item.transactional_id, {})
        lost = ErrorCode.NETWORK_EXCEPTION
        if response is not None and response.error_code:
            lost = ErrorCode(response.error_code)
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
        verify_only=True,
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


_TRY_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def refusal_of_producer(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """Return the error code for a producer whose verification failed with ``error``.

    A retriable error becomes NOT_ENOUGH_REPLICAS, the only one that producers of all versions retry
    without refreshing their metadata first. ``knows_abortable`` is whether the request's version
    has TRANSACTION_ABORTABLE."""
    if error in _TRY_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return refusal_of_committer(error, knows_abortable)


def refusal_of_committer(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """As ``refusal_of_producer``, for a client that commits offsets in its transaction; retriable
    errors are unchanged."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return error


class _ParkedAppend:
    """A Produce request that waits for its preparation, for its verification, or for an earlier
    request. ``append`` is called when ``outcomes_awaited`` is 0 and no earlier request shares one
    of its ``keys``."""

    __slots__ = ("append", "keys", "outcomes_awaited")

    def __init__(self, keys: Sequence[Hashable], append: Callable[[], None]) -> None:
        self.keys = keys
        self.append = append
        self.outcomes_awaited = 0


class TransactionalAppends:
    """Verifies the transaction of batches, then appends them (``handleProduceAppend``).

    No append overtakes an earlier one of the same connection or of the same producer id. In Kafka
    the connection is muted while a request waits for its verification, and a thread is busy while
    it validates records. Here the producer's next batches may arrive in the meantime: they are
    parked, and appended in order of arrival. ``connection`` identifies a connection; None stands
    for a connection without other requests.

    Records of a parked request are copied, since they lie in the connection's receive buffer."""

    def __init__(self, appends: RecordAppends, verification: TransactionVerification) -> None:
        self._appends = appends
        self._verification = verification
        # Bound: queued_max_requests of each connection.
        self._parked: ArrivalOrder[_ParkedAppend] = ArrivalOrder()

    def append_plain(
        self,
        connection: Hashable,
        entries: Entries | LongAppend,
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        """As ``RecordAppends.append``, after the parked appends of the connection."""
        if self._parked.empty and not isinstance(entries, LongAppend):
            self._appends.append(AppendOrigin.CLIENT, entries, acks, timeout_ms, reply)
        else:
            self._append_in_turn((connection,), entries, acks, timeout_ms, reply)

    async def wait_for_earlier(self, connection: Hashable) -> None:
        """Wait until all requests of the connection so far are appended."""
        if self._parked.is_busy((connection,)):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def proceed(_: Entries) -> None:
                if not turn.done():  # cancelled when the node stops
                    turn.set_result(None)

            self._park((connection,), (), proceed)
            await turn

    def append(
        self,
        connection: Hashable,
        transactional_id: str,
        entries: Entries | LongAppend,
        acks: int,
        timeout_ms: int,
        knows_abortable: bool,
        reply: AppendReply,
    ) -> None:
        """As ``RecordAppends.append``, for batches of a transaction. Raises
        KafkaError(INVALID_PRODUCER_ID_MAPPING) for batches of more than one producer."""
        producer, batches = _producer_of(entries_of(entries))
        keys: list[Hashable] = [producer.producer_id]
        if connection is not None:
            keys.append(connection)
        if not self._verification.enabled:
            self._append_in_turn(keys, entries, acks, timeout_ms, reply)
            return
        guards = self._verification.begin(producer, batches)
        if not (guards or isinstance(entries, LongAppend) or self._parked.is_busy(keys)):
            self._appends.append_verified(
                AppendOrigin.CLIENT, entries, guards, acks, timeout_ms, reply
            )
            return
        refused: Refusals = {}

        def append(kept: Entries) -> None:
            self._append_accepted(kept, guards, refused, acks, timeout_ms, knows_abortable, reply)

        def verified(refusals: Refusals) -> None:
            nonlocal refused
            refused = refusals
            self._outcome_came(parked)

        parked = self._park(keys, entries, append)
        if guards:
            parked.outcomes_awaited += 1
            self._verification.ask(transactional_id, producer, guards, verified)

    def _append_in_turn(
        self,
        keys: Sequence[Hashable],
        entries: Entries | LongAppend,
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
    ) -> None:
        """Append without verification, now or after the parked appends that share a key."""

        def append(entries: Entries) -> None:
            self._appends.append(AppendOrigin.CLIENT, entries, acks, timeout_ms, reply)

        if isinstance(entries, LongAppend) or self._parked.is_busy(keys):
            self._park(keys, entries, append)
        else:
            append(entries)

    def _park(
        self,
        keys: Sequence[Hashable],
        entries: Entries | LongAppend,
        append: Callable[[Entries], None],
    ) -> _ParkedAppend:
        """Park an append after those that share a key; a long one until it is prepared, too."""
        if isinstance(entries, LongAppend):
            parked = _ParkedAppend(keys, lambda: append(entries.entries))
            parked.outcomes_awaited = 1
            entries.prepare(lambda: self._outcome_came(parked))
        else:
            kept = _copied(entries)
            parked = _ParkedAppend(keys, lambda: append(kept))
        self._parked.enter(parked, keys)
        return parked

    def _outcome_came(self, parked: _ParkedAppend) -> None:
        parked.outcomes_awaited -= 1
        self._proceed(parked)

    def _proceed(self, first: _ParkedAppend) -> None:
        """Append a request that is ready, and the requests that waited only for it."""
        candidates = deque([first])
        while candidates:
            parked = candidates.popleft()
            if not parked.outcomes_awaited and self._parked.may_go(parked, parked.keys):
                candidates.extend(self._parked.leave(parked, parked.keys))
                parked.append()

    def _append_accepted(
        self,
        entries: Entries,
        guards: Guards,
        refusals: Refusals,
        acks: int,
        timeout_ms: int,
        knows_abortable: bool,
        reply: AppendReply,
    ) -> None:
        """Append the partitions that the coordinator has not refused."""
        refused = {
            topic_partition: AppendResult(
                topic_partition,
                refusal_of_producer(error, knows_abortable),
                error_message=f"not verified to be part of the transaction: {error.name}",
            )
            for topic_partition, error in refusals.items()
        }
        accepted = [entry for entry in entries if entry[0] not in refused]

        def merge(results: Sequence[AppendResult]) -> None:
            rest = iter(results)
            reply([refused.get(entry[0]) or next(rest) for entry in entries])

        if accepted:
            self._appends.append_verified(
                AppendOrigin.CLIENT, accepted, guards, acks, timeout_ms, merge
            )
        else:
            merge(())


def _copied(entries: Entries) -> Entries:
    """Copy what lies in a receive buffer."""
    return [
        (topic_partition, records if isinstance(records, bytes) else bytes(records))
        for topic_partition, records in entries
    ]


def more_than_one_producer() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one producer")


def _producer_of(
    entries: Sequence[tuple[TopicPartition, Buffer]],
) -> tuple[ProducerIdAndEpoch, list[tuple[TopicPartition, int]]]:
    """Return the producer of the transactional batches, and (partition, base sequence) of each.
    Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) if there is not exactly one producer."""
    producers: dict[ProducerIdAndEpoch, None] = {}
    batches: list[tuple[TopicPartition, int]] = []
    for topic_partition, records in entries:
        if is_transactional(records):
            producer, sequence = producer_of(records)
            producers[producer] = None
            batches.append((topic_partition, sequence))
    if len(producers) != 1:
        raise more_than_one_producer()
    return next(iter(producers)), batches
