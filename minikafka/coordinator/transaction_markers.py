"""The ends of transactions, on their way to the leaders of all partitions that they wrote to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from minikafka.coordinator.transaction_runtime import TransactionRuntime
from minikafka.core.transaction.answers import MarkerOutcome, marker_outcome
from minikafka.core.transaction.result import Markers
from minikafka.kernel.cluster import NO_LEADER, TRANSACTION_STATE_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.events import EventLog
from minikafka.kernel.grouping import grouped
from minikafka.kernel.ports import Clock
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.releases import Release
from minikafka.protocol.schema import Message

RETRY_MS = 100
WRITE_TXN_MARKERS_VERSION = 1


class Leaders(Protocol):
    """What this broker knows of who leads what."""

    def partition_leader(self, topic_partition: TopicPartition) -> tuple[int, int] | None:
        """Broker and leader epoch; None for a partition that does not exist."""
        ...


@dataclass(frozen=True, slots=True)
class MarkerItem:
    """Markers of one transaction for one broker."""

    runtime: TransactionRuntime
    markers: Markers
    partitions: tuple[TopicPartition, ...]


class TransactionMarkers:
    """Kafka's ``TransactionMarkerChannelManager``. ``put`` queues an item for a broker; what comes
    of it is told to ``answered``. A marker is sent until it is written, or its partition is gone,
    or another broker coordinates the transaction."""

    def __init__(
        self,
        clock: Clock,
        leaders: Leaders,
        put: Callable[[int, MarkerItem], None],
        events: EventLog,
    ) -> None:
        self._clock = clock
        self._leaders = leaders
        self._put = put
        self._events = events
        self.waiting = 0  # transactions with partitions that will be tried again

    def send(self, runtime: TransactionRuntime, markers: Markers) -> None:
        self._send(runtime, markers, markers.partitions)

    def _send(
        self,
        runtime: TransactionRuntime,
        markers: Markers,
        partitions: Iterable[TopicPartition],
    ) -> None:
        if markers.transaction.markers is not markers:
            return  # this broker does not coordinate it any more
        gone: list[TopicPartition] = []
        later: list[TopicPartition] = []
        by_broker: dict[int, list[TopicPartition]] = {}
        own = TopicPartition(TRANSACTION_STATE_TOPIC, runtime.partition)
        knows = self._leaders.partition_leader(own) is not None  # else it knows of none yet
        for topic_partition in partitions:
            leader = self._leaders.partition_leader(topic_partition)
            if leader is None and knows:
                gone.append(topic_partition)
            elif leader is None or leader[0] == NO_LEADER:
                later.append(topic_partition)
            else:
                by_broker.setdefault(leader[0], []).append(topic_partition)
        for broker_id, theirs in by_broker.items():
            self._put(broker_id, MarkerItem(runtime, markers, tuple(theirs)))
        self._send_later(runtime, markers, later)
        if gone:
            runtime.markers_written(markers, gone)

    def _send_later(
        self,
        runtime: TransactionRuntime,
        markers: Markers,
        partitions: Collection[TopicPartition],
    ) -> None:
        if not partitions:
            return
        self.waiting += 1

        def again() -> None:
            self.waiting -= 1
            self._send(runtime, markers, partitions)

        self._clock.call_later(RETRY_MS, again)

    def answered(
        self, items: Sequence[MarkerItem], response: WriteTxnMarkersResponse | None
    ) -> None:
        errors = {} if response is None else _errors(response)
        for item in items:
            written: list[TopicPartition] = []
            again: list[TopicPartition] = []
            fenced = False
            for topic_partition in item.partitions:
                error = errors.get((item.markers.producer_id, topic_partition))
                # A broker that does not answer: whatever was written is written once more.
                outcome = MarkerOutcome.RETRY if error is None else marker_outcome(error)
                fenced = fenced or outcome is MarkerOutcome.FENCED
                if outcome is MarkerOutcome.WRITTEN:
                    written.append(topic_partition)
                elif outcome is MarkerOutcome.RETRY:
                    again.append(topic_partition)
            if fenced:
                self._events.warning(
                    "marker_fenced",
                    transactional_id=item.markers.transaction.transactional_id,
                    epoch=item.runtime.epoch,
                )
            self._send_later(item.runtime, item.markers, again)
            item.runtime.markers_written(item.markers, written)


def marker_key(item: MarkerItem) -> int:
    """The answer tells markers apart by this."""
    return item.markers.producer_id


def markers_request(
    items: Sequence[MarkerItem], release: Release = Release.KAFKA_3_9
) -> tuple[Message, int]:
    version = release.at_most(ApiKey.WRITE_TXN_MARKERS, WRITE_TXN_MARKERS_VERSION)
    return WriteTxnMarkersRequest([_marker(item) for item in items]), version


def _marker(item: MarkerItem) -> WritableTxnMarker:
    markers = item.markers
    return WritableTxnMarker(
        markers.producer_id,
        markers.producer_epoch,
        markers.committed,
        [WritableTxnMarkerTopic(*of_topic) for of_topic in grouped(item.partitions).items()],
        item.runtime.epoch,
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
