"""The transactions of the exactly-once sink, and the markers that they commit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from minikafka.core.client.calls import CoordinatorCall
from minikafka.core.client.consumer.group_calls import offset_fetch
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.core.client.producer.transaction_calls import (
    NO_PRODUCER,
    TransactionalProducer,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from minikafka.kernel.cluster import TopicPartition
from minikafka.spark.cluster import Cluster
from minikafka.spark.coordinators import BlockingCoordinators


@dataclass(frozen=True)
class Marker:
    """The record of a committed batch, which a transaction commits together with the rows.

    It is stored as a committed offset of a consumer group: the offset is ``batch + 1``, and the
    metadata are these fields as JSON."""

    query: str
    batch: int
    tasks: int
    rows: int
    plan: str  # fingerprint of the columns and of the topic

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> Marker:
        """Decode a committed offset. Raises ValueError if this sink did not write it."""
        try:
            fields = json.loads(metadata or "")
            marker = cls(**fields)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"this sink did not write the committed offset: {metadata!r}"
            ) from error
        if marker.batch + 1 != offset:
            raise ValueError(f"a marker of batch {marker.batch} at offset {offset}")
        return marker


class SinkTransactions:
    """Blocking calls to begin, mark and end the transactions of a batch.

    All raise KafkaError, for example PRODUCER_FENCED if a later attempt of the task has begun or
    the transaction has timed out."""

    def __init__(self, cluster: Cluster) -> None:
        self._coordinators = BlockingCoordinators(cluster)

    def begin(self, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        """Initialize a transactional id: fence older attempts, and wait until their transaction has
        ended. The transaction times out after ``timeout_ms``."""
        call = init_producer_id(transactional_id, timeout_ms, NO_PRODUCER)
        return TransactionalProducer(transactional_id, *self._coordinators.call(call))

    def marker(self, group: str) -> Marker | None:
        """Return the last committed marker, None for none. Raises ValueError if the group has
        offsets that this sink did not write."""
        found = self._coordinators.call(offset_fetch(group, None, require_stable=True))
        if not found:
            return None
        last = max(found.values(), key=lambda committed: committed.offset)
        return Marker.of(last.offset, last.metadata)

    def add_partitions(
        self, producer: TransactionalProducer, partitions: Iterable[TopicPartition]
    ) -> None:
        self._call(add_partitions_to_txn(producer, partitions))

    def mark(self, producer: TransactionalProducer, group: str, topic: str, marker: Marker) -> None:
        """Add a marker to the open transaction, as an offset of partition 0 of ``topic``."""
        self._call(add_offsets_to_txn(producer, group))
        offset = OffsetAndMetadata(marker.batch + 1, json.dumps(asdict(marker)))
        offsets = {TopicPartition(topic, 0): offset}
        self._call(txn_offset_commit(producer, GroupMetadata(group), offsets))

    def end(self, producer: TransactionalProducer, committed: bool) -> None:
        self._call(end_txn(producer, committed))

    def _call(self, call: CoordinatorCall[None]) -> None:
        self._coordinators.call(call)
