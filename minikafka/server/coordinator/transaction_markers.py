"""Sends transaction markers to the leaders of all partitions that a transaction wrote to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from minikafka.core.transaction.records import TransactionStored
from minikafka.core.transaction.result import TransactionAppendPurpose
from minikafka.core.transaction.shard import MarkerOutcome, TransactionShard, marker_outcome
from minikafka.core.transaction.transaction import EPOCH_OF_EACH_TRANSACTION, Markers
from minikafka.kernel.cluster import NO_LEADER, TRANSACTION_STATE_TOPIC, TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.schema import Message
from minikafka.server.coordinator.ports import PartitionLeaders
from minikafka.server.coordinator.runtime import CoordinatorContext

MARKER_RETRY_MS = 100
WITH_TRANSACTION_VERSION = 2  # of WriteTxnMarkers

TransactionContext: TypeAlias = CoordinatorContext[
    TransactionShard, TransactionStored, TransactionAppendPurpose, Markers
]


@dataclass(frozen=True, slots=True)
class MarkerItem:
    """The markers of one transaction for the partitions that one broker leads.

    ``sender`` processes the outcome.
    """

    sender: TransactionMarkers
    context: TransactionContext
    markers: Markers
    partitions: tuple[TopicPartition, ...]


class TransactionMarkers:
    """The sender of transaction markers (Kafka's ``TransactionMarkerChannelManager``).

    ``put`` queues an item for a broker; the response goes to ``complete_markers``. A marker is
    sent repeatedly until it is written, its partition is deleted, or another broker coordinates
    the transaction.
    """

    def __init__(
        self,
        clock: Clock,
        leaders: PartitionLeaders,
        put: Callable[[int, MarkerItem], None],
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._leaders = leaders
        self._put = put
        self._events = events
        self._sent_epochs: dict[int, int] = {}  # by partition of ``__transaction_state``
        self.num_retrying = 0  # transactions with partitions that are retried after a back-off

    def send(self, context: TransactionContext, markers: Markers) -> None:
        """Queue the markers of a transaction for the leaders of all its partitions."""
        self._send(context, markers, markers.partitions)

    def _send(
        self, context: TransactionContext, markers: Markers, partitions: Iterable[TopicPartition]
    ) -> None:
        if not context.shard.is_current(markers):
            return
        sent_epoch = self._sent_epochs.get(context.partition, context.epoch)
        assert context.epoch >= sent_epoch, f"coordinator epoch {context.epoch} after {sent_epoch}"
        self._sent_epochs[context.partition] = context.epoch
        deleted: list[TopicPartition] = []
        retried: list[TopicPartition] = []
        by_broker: dict[int, list[TopicPartition]] = {}
        # Without the partition of the transaction itself the metadata has not arrived yet.
        state_partition = TopicPartition(TRANSACTION_STATE_TOPIC, context.partition)
        has_metadata = self._leaders.partition_leader(state_partition) is not None
        for topic_partition in partitions:
            leader = self._leaders.partition_leader(topic_partition)
            if leader is None and has_metadata:
                deleted.append(topic_partition)
            elif leader is None or leader[0] == NO_LEADER:
                retried.append(topic_partition)
            else:
                by_broker.setdefault(leader[0], []).append(topic_partition)
        for broker_id, led in by_broker.items():
            self._put(broker_id, MarkerItem(self, context, markers, tuple(led)))
        self._send_later(context, markers, retried)
        if deleted:
            self._written(context, markers, deleted)

    def _send_later(
        self,
        context: TransactionContext,
        markers: Markers,
        partitions: Collection[TopicPartition],
    ) -> None:
        if not partitions:
            return
        self.num_retrying += 1

        def retry() -> None:
            self.num_retrying -= 1
            self._send(context, markers, partitions)

        self._clock.call_later(MARKER_RETRY_MS, retry)

    def _written(
        self, context: TransactionContext, markers: Markers, partitions: Iterable[TopicPartition]
    ) -> None:
        context.run(context.shard.markers_written(markers, partitions, context.now_ms()))

    def completed(self, item: MarkerItem, outcomes: Mapping[TopicPartition, MarkerOutcome]) -> None:
        """Process the outcomes of ``item``: retry failed markers, report written ones to the
        shard."""
        if MarkerOutcome.FENCED in outcomes.values():
            self._events.warning(
                "marker_fenced",
                transactional_id=item.markers.transactional_id,
                epoch=item.context.epoch,
            )
        retried = [tp for tp, outcome in outcomes.items() if outcome is MarkerOutcome.RETRY]
        written = [tp for tp, outcome in outcomes.items() if outcome is MarkerOutcome.WRITTEN]
        self._send_later(item.context, item.markers, retried)
        self._written(item.context, item.markers, written)


def complete_markers(items: Sequence[MarkerItem], response: WriteTxnMarkersResponse | None) -> None:
    """Process the response of a broker to these items; None if it has not responded.

    Markers without a response are sent again, whether or not they were written.
    """
    errors = {} if response is None else _errors(response)
    for item in items:
        outcomes: dict[TopicPartition, MarkerOutcome] = {}
        for topic_partition in item.partitions:
            error = errors.get((item.markers.producer_id, topic_partition))
            outcomes[topic_partition] = (
                MarkerOutcome.RETRY if error is None else marker_outcome(error)
            )
        item.sender.completed(item, outcomes)


def marker_key(item: MarkerItem) -> int:
    """Return the producer id: responses name only that, so a request has one marker of each id."""
    return item.markers.producer_id


def markers_request(
    items: Sequence[MarkerItem], protocol: InterBrokerProtocol = LATEST
) -> tuple[Message, int]:
    """Return the WriteTxnMarkers request for these items, and its version."""
    request = WriteTxnMarkersRequest([_marker(item) for item in items])
    version = protocol.write_txn_markers_version
    if any(marker.transaction_version >= EPOCH_OF_EACH_TRANSACTION for marker in request.markers):
        version = WITH_TRANSACTION_VERSION
    return request, version


def _marker(item: MarkerItem) -> WritableTxnMarker:
    markers = item.markers
    return WritableTxnMarker(
        markers.producer_id,
        markers.producer_epoch,
        markers.committed,
        [WritableTxnMarkerTopic(*of_topic) for of_topic in grouped(item.partitions).items()],
        item.context.epoch,
        item.context.shard.marker_version(markers),
    )


def _errors(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, result.partition_index)): ErrorCode(
            result.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for result in topic.partitions
    }
