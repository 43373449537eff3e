"""Transactions as the sink uses them: begun in a task, marked and ended by the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.grouping import grouped
from minikafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.spark.coordinators import CoordinatorKind, Coordinators
from minikafka.spark.write.encode import ProducerStamp
from minikafka.spark.write.producing import Identity

_OFFSETS_OF_ONE_GROUP = 7
_PARTITIONS_OF_ONE_TRANSACTION = 3
_END_KEEPS_THE_EPOCH = 4  # later versions raise it, and the driver is not who wrote


@dataclass(frozen=True)
class Marker:
    """What a task of a batch has in the transaction with its rows, as the offset ``batch + 1`` of
    a group: who finds it knows that the rows are in."""

    query: str
    batch: int
    tasks: int
    rows: int
    plan: str  # fingerprint of what was written how

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> Marker:
        """Raises ValueError for what this sink did not write."""
        try:
            fields = json.loads(metadata or "")
            marker = cls(**fields)
        except (ValueError, TypeError) as error:
            raise ValueError(f"a marker that is not of this sink: {metadata!r}") from error
        if marker.batch + 1 != offset:
            raise ValueError(f"a marker of batch {marker.batch} at offset {offset}")
        return marker


class Transactions(Coordinators):
    """The requests of a transactional producer. All raise KafkaError as ``ask``; what does not pass
    is for example to be fenced by a later attempt, or to be timed out."""

    def begin(self, transactional_id: str, timeout_ms: int) -> Identity:
        """Fences every older attempt, and waits until its transaction is over."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        answer = self.ask(CoordinatorKind.TRANSACTION, transactional_id, request)
        stamp = ProducerStamp(answer.producer_id, answer.producer_epoch, transactional=True)
        return Identity(stamp, transactional_id)

    def marker(self, group: str) -> Marker | None:
        """The last one that was committed. Raises ValueError for a foreign one."""
        request = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)
        answer = self.ask(CoordinatorKind.GROUP, group, request, _OFFSETS_OF_ONE_GROUP)
        found = [row for topic in answer.topics for row in topic.partitions]
        if not found:
            return None
        row = max(found, key=lambda row: row.committed_offset)
        return Marker.of(row.committed_offset, row.metadata)

    def add_partitions(self, identity: Identity, partitions: Iterable[TopicPartition]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_id_of(identity),
            v3_and_below_producer_id=identity.stamp.producer_id,
            v3_and_below_producer_epoch=identity.stamp.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in grouped(sorted(partitions)).items()
            ],
        )
        self.ask(
            CoordinatorKind.TRANSACTION,
            _id_of(identity),
            request,
            _PARTITIONS_OF_ONE_TRANSACTION,
        )

    def mark(self, identity: Identity, group: str, topic: str, marker: Marker) -> None:
        """Put the marker into the transaction: of partition 0 of a topic, for there must be one."""
        stamp = identity.stamp
        self.ask(
            CoordinatorKind.TRANSACTION,
            _id_of(identity),
            AddOffsetsToTxnRequest(
                transactional_id=_id_of(identity),
                producer_id=stamp.producer_id,
                producer_epoch=stamp.producer_epoch,
                group_id=group,
            ),
        )
        row = TxnOffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=marker.batch + 1,
            committed_metadata=json.dumps(asdict(marker)),
        )
        self.ask(
            CoordinatorKind.GROUP,
            group,
            TxnOffsetCommitRequest(
                transactional_id=_id_of(identity),
                group_id=group,
                producer_id=stamp.producer_id,
                producer_epoch=stamp.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
            ),
        )

    def end(self, identity: Identity, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=_id_of(identity),
            producer_id=identity.stamp.producer_id,
            producer_epoch=identity.stamp.producer_epoch,
            committed=committed,
        )
        self.ask(CoordinatorKind.TRANSACTION, _id_of(identity), request, _END_KEEPS_THE_EPOCH)


def _id_of(identity: Identity) -> str:
    assert identity.transactional_id is not None, "not transactional"
    return identity.transactional_id
