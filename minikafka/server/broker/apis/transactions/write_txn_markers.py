"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from minikafka.core.log.append import AppendOrigin
from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import GROUP_METADATA_TOPIC, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Clock
from minikafka.kernel.slices import Slices
from minikafka.protocol.api_keys import ApiKey
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
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.guards import Admitted, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.record_appends import AppendEntry, AppendResult
from minikafka.server.broker.replication.replica_manager import ReplicaManager

REQUEST_TIMEOUT_MS: Final = 30_000  # the longest wait for the replication of a marker
ALL_IN_SYNC = -1
# Called when markers are replicated in partitions of ``__consumer_offsets``: with the producer id,
# the offset of the marker in each partition, and whether the transaction is committed.
OffsetsDecided: TypeAlias = Callable[[int, Mapping[int, int], bool], None]


class WriteTxnMarkersHandler:
    """Serves WriteTxnMarkers (an ``ImmediateHandler``).

    The response is sent when all in-sync replicas have the markers, or after
    ``request_timeout_ms``."""

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
        entries: list[AppendEntry] = []
        for marker in request.markers:
            batch = _batch(marker, now_ms)
            entries += [
                AppendEntry(
                    TopicPartition(topic.name, index),
                    batch,
                    transaction_version=marker.transaction_version,
                )
                for topic in marker.topics
                for index in topic.partition_indexes
            ]

        def respond(results: Sequence[AppendResult]) -> None:
            rest = iter(results)
            reply(WriteTxnMarkersResponse([self._result(m, rest) for m in request.markers]))

        if not entries:
            respond(())
            return
        self._replicas.appends.append(
            AppendOrigin.COORDINATOR, entries, ALL_IN_SYNC, self._request_timeout_ms, respond
        )

    def _result(
        self, marker: WritableTxnMarker, results: Iterator[AppendResult]
    ) -> WritableTxnMarkerResult:
        """Return the result of one marker, whose partitions come next in ``results``. Call
        ``offsets_decided`` with its markers in ``__consumer_offsets``."""
        marker_result = WritableTxnMarkerResult(marker.producer_id)
        decided: dict[int, int] = {}
        for topic in marker.topics:
            of_topic = WritableTxnMarkerTopicResult(topic.name)
            marker_result.topics.append(of_topic)
            for index in topic.partition_indexes:
                result = next(results)
                of_topic.partitions.append(WritableTxnMarkerPartitionResult(index, result.error))
                if topic.name == GROUP_METADATA_TOPIC and result.error is ErrorCode.NONE:
                    decided[index] = result.info.first_offset
        if decided:
            self._offsets_decided(marker.producer_id, decided, marker.transaction_result)
        return marker_result


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


async def _admit_markers(
    authorization: Authorization, context: RequestContext, request: WriteTxnMarkersRequest
) -> Admitted:
    """Tools that abort a hanging transaction need ALTER on the cluster, brokers CLUSTER_ACTION."""
    if authorization.on_cluster(context, AclOperation.ALTER, log_if_denied=False):
        return Admitted(request)
    if authorization.on_cluster(context, AclOperation.CLUSTER_ACTION):
        return Admitted(request)
    markers, slices = [], Slices()
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async for marker in slices.over(request.markers):
        topics = []
        async for topic in slices.over(marker.topics):
            rows = [
                WritableTxnMarkerPartitionResult(index, error)
                async for index in slices.over(topic.partition_indexes)
            ]
            topics.append(WritableTxnMarkerTopicResult(topic.name, rows))
        markers.append(WritableTxnMarkerResult(marker.producer_id, topics))
    return Admitted(None, response=WriteTxnMarkersResponse(markers=markers))


WRITE_TXN_MARKERS = Api(
    key=ApiKey.WRITE_TXN_MARKERS,
    handler=lambda broker: WriteTxnMarkersHandler(
        broker.replicas, broker.world.clock, broker.groups.transaction_ended, REQUEST_TIMEOUT_MS
    ),
    task=False,
    authorization=before(_admit_markers),
    quota=Quota.EXEMPT,
    changes_state=True,
    senders=Senders.CLIENTS_AND_BROKERS,
)
