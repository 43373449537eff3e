"""The transactions of the exactly-once sink: begun by tasks, marked and ended by the driver."""

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
    """What a task commits in the same transaction as its rows: the offset ``batch + 1`` of a group,
    with these fields as its metadata. Where a marker is found, the rows are committed."""

    query: str
    batch: int
    tasks: int
    rows: int
    plan: str  # fingerprint of the columns and of the topic

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> Marker:
        """Decode a committed offset. Raises ValueError for one that this sink did not write."""
        try:
            fields = json.loads(metadata or "")
            marker = cls(**fields)
        except (ValueError, TypeError) as error:
            raise ValueError(f"a marker that is not of this sink: {metadata!r}") from error
        if marker.batch + 1 != offset:
            raise ValueError(f"a marker of batch {marker.batch} at offset {offset}")
        return marker


class SinkTransactions:
    """Blocking calls about the transactions of a batch. All raise KafkaError; a final one is for
    example PRODUCER_FENCED, when a later attempt has begun or the transaction has timed out."""

    def __init__(self, cluster: Cluster) -> None:
        self._coordinators = BlockingCoordinators(cluster)

    def begin(self, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        """Fence every older attempt, and wait until its transaction has ended."""
        call = init_producer_id(transactional_id, timeout_ms, NO_PRODUCER)
        return TransactionalProducer(transactional_id, *self._coordinators.call(call))

    def marker(self, group: str) -> Marker | None:
        """Return the last committed marker. Raises ValueError for one of another sink."""
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
        """Put the marker into the transaction, as an offset of partition 0 of ``topic``."""
        self._call(add_offsets_to_txn(producer, group))
        offset = OffsetAndMetadata(marker.batch + 1, json.dumps(asdict(marker)))
        offsets = {TopicPartition(topic, 0): offset}
        self._call(txn_offset_commit(producer, GroupMetadata(group), offsets))

    def end(self, producer: TransactionalProducer, committed: bool) -> None:
        self._call(end_txn(producer, committed))

    def _call(self, call: CoordinatorCall[None]) -> None:
        self._coordinators.call(call)
