"""Batches of transactions that producers send: verified where they are the first, then appended."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from minikafka.broker.delayed_produce import AppendReply, AppendResult
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.broker.transaction_verification import (
    Refusals,
    TransactionVerification,
    refusal_of_producer,
)
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


class TransactionalAppends:
    """Kafka's ``ReplicaManager.handleProduceAppend``."""

    def __init__(self, replicas: ReplicaManager, verification: TransactionVerification) -> None:
        self._replicas = replicas
        self._verification = verification

    def append(
        self,
        transactional_id: str,
        entries: Sequence[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        knows_abortable: bool,
        reply: AppendReply,
    ) -> None:
        """As ``append_records``. What has to wait for a coordinator is copied, as it lies in the
        buffer of its connection. Raises KafkaError(INVALID_PRODUCER_ID_MAPPING) for batches of more
        than one producer."""
        producer, batches = _producer_of(entries)
        if not self._verification.enabled:
            self._replicas.append_records(entries, acks, timeout_ms, reply)
            return
        guards = self._verification.begin(producer, batches)
        if not guards:
            self._replicas.append_records(entries, acks, timeout_ms, reply, guards=guards)
            return
        kept = [(topic_partition, bytes(records)) for topic_partition, records in entries]

        def verified(refusals: Refusals) -> None:
            self._append(kept, acks, timeout_ms, knows_abortable, guards, refusals, reply)

        self._verification.ask(transactional_id, producer, guards, verified)

    def _append(
        self,
        entries: Sequence[tuple[TopicPartition, bytes]],
        acks: int,
        timeout_ms: int,
        knows_abortable: bool,
        guards: dict[TopicPartition, Verification],
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
