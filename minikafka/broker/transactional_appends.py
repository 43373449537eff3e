"""Produce requests on their way to the logs: verification of transactions, order of appends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from struct import Struct
from typing import Final

from minikafka.broker.delayed_produce import AppendReply, AppendResult
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.broker.transaction_verification import (
    Refusals,
    TransactionVerification,
    refusal_of_producer,
)
from minikafka.core.arrival_order import ArrivalOrder
from minikafka.core.log.verification import Verification
from minikafka.core.transaction.facts import ProducerIdAndEpoch
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Buffer
from minikafka.protocol.records.batch import BATCH_OVERHEAD, MAGIC_V2, TRANSACTIONAL_FLAG

_PRODUCER: Final = Struct(">qhi")  # id, epoch, base sequence
_PRODUCER_OFFSET: Final = 43
_ATTRIBUTES_LOW_BYTE: Final = 22
_MAGIC: Final = 16


def is_transactional(records: Buffer) -> bool:
    """Whether the batch that ``records`` start with is of a transaction."""
    return (
        len(records) >= BATCH_OVERHEAD
        and records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_FLAG != 0
        and records[_MAGIC] == MAGIC_V2
    )


class _ParkedAppend:
    """A Produce request that waits for verification, or behind one that does. ``append`` is called
    when the request is ``verified`` and the first of all that share one of its ``keys``."""

    __slots__ = ("append", "keys", "verified")

    def __init__(self, keys: Sequence[Hashable], verified: bool) -> None:
        self.keys = keys
        self.verified = verified
        self.append: Callable[[], None]


class TransactionalAppends:
    """Kafka's ``ReplicaManager.handleProduceAppend``: verify the transaction, then append.

    No append passes an earlier one of the same connection or of the same producer id. In Kafka the
    connection is muted while a request waits for verification. Here the producer's next batches
    come in meanwhile, wait for the same verification, and are all appended when it returns, in
    order of arrival. ``connection`` identifies a connection; None is one without other requests.
    """

    def __init__(self, replicas: ReplicaManager, verification: TransactionVerification) -> None:
        self._replicas = replicas
        self._verification = verification
        # Bound: queued_max_requests of each connection.
        self.parked: ArrivalOrder[_ParkedAppend] = ArrivalOrder()

    def append_plain(
        self,
        connection: Hashable,
        entries: Sequence[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        reply: AppendReply,
        internal_topics_allowed: bool = False,
    ) -> None:
        """As ``append_records``, after the parked appends of the connection. Records that have to
        wait are copied, since they lie in the connection's buffer."""
        if not self.parked.is_busy((connection,)):
            self._replicas.append_records(entries, acks, timeout_ms, reply, internal_topics_allowed)
            return
        kept = _copied(entries)
        parked = _ParkedAppend((connection,), verified=True)

        def append() -> None:
            self._replicas.append_records(kept, acks, timeout_ms, reply, internal_topics_allowed)

        parked.append = append
        self.parked.enter(parked, parked.keys)

    def append(
        self,
        connection: Hashable,
        transactional_id: str,
        entries: Sequence[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        knows_abortable: bool,
        reply: AppendReply,
    ) -> None:
        """As ``append_records``. Records that have to wait are copied, since they lie in the
        connection's buffer. Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) for batches of more than
        one producer."""
        producer, batches = _producer_of(entries)
        guards: dict[TopicPartition, Verification] | None = None
        if self._verification.enabled:
            guards = self._verification.begin(producer, batches)
        keys: list[Hashable] = [producer.producer_id]
        if connection is not None:
            keys.append(connection)
        if not guards and not self.parked.is_busy(keys):
            self._replicas.append_records(entries, acks, timeout_ms, reply, guards=guards)
            return
        kept = _copied(entries)
        refused: Refusals = {}
        parked = _ParkedAppend(keys, verified=not guards)

        def append() -> None:
            self._append(kept, acks, timeout_ms, knows_abortable, guards, refused, reply)

        def verified(refusals: Refusals) -> None:
            nonlocal refused
            refused = refusals
            parked.verified = True
            self._proceed(parked)

        parked.append = append
        self.parked.enter(parked, keys)
        if guards:
            self._verification.ask(transactional_id, producer, guards, verified)

    def _proceed(self, first: _ParkedAppend) -> None:
        """Append what was verified just now, and all that waited for nothing else."""
        candidates = deque([first])
        while candidates:
            parked = candidates.popleft()
            if parked.verified and self.parked.may_go(parked, parked.keys):
                candidates.extend(self.parked.leave(parked, parked.keys))
                parked.append()

    def _append(
        self,
        entries: Sequence[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        knows_abortable: bool,
        guards: dict[TopicPartition, Verification] | None,
        refusals: Refusals,
        reply: AppendReply,
    ) -> None:
        refused = {
            topic_partition: AppendResult(
                topic_partition,
                refusal_of_producer(error, knows_abortable),
                error_message=f"not verified to be part of the transaction: {error.name}",
            )
            for topic_partition, error in refusals.items()
        }
        accepted = [entry for entry in entries if entry[0] not in refused]

        def answer(results: Sequence[AppendResult]) -> None:
            rest = iter(results)
            reply([refused.get(entry[0]) or next(rest) for entry in entries])

        if accepted:
            self._replicas.append_records(accepted, acks, timeout_ms, answer, guards=guards)
        else:
            answer(())


def _copied(
    entries: Sequence[tuple[TopicPartition, Buffer]],
) -> list[tuple[TopicPartition, Buffer]]:
    return [(topic_partition, bytes(records)) for topic_partition, records in entries]


def _producer_of(
    entries: Sequence[tuple[TopicPartition, Buffer]],
) -> tuple[ProducerIdAndEpoch, list[tuple[TopicPartition, int]]]:
    """The one producer of the batches that are of a transaction; where they go, and their base
    sequences."""
    producers: dict[ProducerIdAndEpoch, None] = {}
    batches: list[tuple[TopicPartition, int]] = []
    for topic_partition, records in entries:
        if is_transactional(records):
            producer_id, epoch, sequence = _PRODUCER.unpack_from(records, _PRODUCER_OFFSET)
            producers[ProducerIdAndEpoch(producer_id, epoch)] = None
            batches.append((topic_partition, sequence))
    if len(producers) != 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one producer")
    return next(iter(producers)), batches
