"""WriteTxnMarkers (key 27): the ends of transactions, appended where this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.delayed_produce import AppendResult
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.core.log.append import AppendOrigin
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.protocol.records.control import (
    ControlRecordType,
    EndTxnMarker,
    encode_end_txn_marker,
)

ALL_IN_SYNC = -1

# Hears of the end of a transaction in partitions of ``__consumer_offsets``: producer id, where in
# which partition its marker lies, whether it is committed.
OffsetsDecided: TypeAlias = Callable[[int, Mapping[int, int], bool], None]


class WriteTxnMarkersHandler:
    """An ImmediateHandler: answered when the in-sync replicas have the markers, or
    ``request_timeout_ms`` is over."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        offsets_decided: OffsetsDecided,
        request_timeout_ms: int,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._offsets_decided = offsets_decided
        self._request_timeout_ms = request_timeout_ms

    def __call__(
        self, context: RequestContext, request: WriteTxnMarkersRequest, reply: Reply
    ) -> None:
        now_ms = self._clock.wall_ms()
        entries: list[tuple[TopicPartition, bytes]] = []
        for marker in request.markers:
            batch = _batch(marker, now_ms)
            entries += [
                (TopicPartition(topic.name, index), batch)
                for topic in marker.topics
                for index in topic.partition_indexes
            ]

        def answer(results: Sequence[AppendResult]) -> None:
            rest = iter(results)
            reply(WriteTxnMarkersResponse([self._told(m, rest) for m in request.markers]))

        if not entries:
            answer(())
            return
        self._replicas.append_records(
            entries,
            ALL_IN_SYNC,
            self._request_timeout_ms,
            answer,
            internal_topics_allowed=True,
            origin=AppendOrigin.COORDINATOR,
        )

    def _told(
        self, marker: WritableTxnMarker, results: Iterator[AppendResult]
    ) -> WritableTxnMarkerResult:
        answer = WritableTxnMarkerResult(marker.producer_id)
        decided: dict[int, int] = {}
        for topic in marker.topics:
            of_topic = WritableTxnMarkerTopicResult(topic.name)
            answer.topics.append(of_topic)
            for index in topic.partition_indexes:
                result = next(results)
                of_topic.partitions.append(WritableTxnMarkerPartitionResult(index, result.error))
                if topic.name == GROUP_METADATA_TOPIC and result.error is ErrorCode.NONE:
                    decided[index] = result.info.first_offset
        if decided:
            self._offsets_decided(marker.producer_id, decided, marker.transaction_result)
        return answer


def _batch(marker: WritableTxnMarker, now_ms: int) -> bytes:
    kind = ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT
    key, value = encode_end_txn_marker(EndTxnMarker(kind, marker.coordinator_epoch))
    return build_batch(
        [(now_ms, key, value, ())],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )
