"""Fetch: reads for consumers and followers alike, parks while there is too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from minikafka.broker.cluster_view import ClusterView
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.current_leader import leader_hint
from minikafka.broker.fetch_reader import FetchEntry, FetchParams, Isolation, ReadResult
from minikafka.broker.record_formats import FETCH_FORMATS, FetchFormat, in_format, limited
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

FIRST_VERSION_WITH_STORAGE_ERROR = 6
FIRST_VERSION_WITH_FOLLOWER_FETCH = 11
FIRST_VERSION_BY_ID = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_LEADER = 16
READ_COMMITTED = 1
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Kafka's ``fetch.max.bytes``: the broker's own limit for one response."""

    fetch_max_bytes: int = 55 * 1024 * 1024


class FetchHandler:
    """An ImmediateHandler. Every fetch is a full one: the broker opens no fetch sessions, says so
    by session id 0 as Kafka does when its cache is full, and knows none that a client names."""

    def __init__(self, replicas: ReplicaManager, cluster: ClusterView, config: FetchConfig) -> None:
        self._replicas = replicas
        self._cluster = cluster
        self._config = config

    def __call__(self, context: RequestContext, request: FetchRequest, reply: Reply) -> None:
        version = context.header.api_version
        if request.session_epoch > 0:
            reply(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
            return
        params = self._params(request, version)
        entries: list[FetchEntry] = []
        refused: dict[int, ReadResult] = {}  # by place in the request
        keys: list[tuple[str, UUID]] = []
        place = 0
        for topic in request.topics:
            name: str | None = topic.topic
            topic_id = None
            if version >= FIRST_VERSION_BY_ID:
                topic_id = topic.topic_id
                name = self._replicas.topic_name(topic_id)
            for wanted in topic.partitions:
                topic_partition = TopicPartition(name or "", wanted.partition)
                if name is None:
                    refused[place] = ReadResult(topic_partition, ErrorCode.UNKNOWN_TOPIC_ID)
                else:
                    entries.append(
                        FetchEntry(
                            topic_partition,
                            topic_id,
                            wanted.fetch_offset,
                            max(0, wanted.partition_max_bytes),
                            wanted.current_leader_epoch,
                            wanted.last_fetched_epoch,
                            wanted.log_start_offset,
                        )
                    )
                keys.append((topic.topic, topic.topic_id))
                place += 1

        wanted_format = FETCH_FORMATS[version]
        if wanted_format.is_converted and entries:
            params, entries = limited(params, entries, wanted_format)

        def answer(results: Sequence[ReadResult]) -> None:
            if not wanted_format.is_any:
                results = self._in_format(results, entries, params, wanted_format)
            if refused:
                rest = iter(results)
                results = [refused.get(i) or next(rest) for i in range(place)]
            reply(self._response(context, params, keys, results))

        if entries:
            self._replicas.fetch(params, entries, answer)
        else:
            answer(())

    def _params(self, request: FetchRequest, version: int) -> FetchParams:
        replica_id = request.replica_id
        if version >= FIRST_VERSION_WITH_REPLICA_STATE:
            state = request.replica_state
            replica_id = state.replica_id if state is not None else CONSUMER_REPLICA_ID
        if replica_id >= 0:
            isolation = Isolation.LOG_END  # whatever it asks for: a follower copies everything
        elif request.isolation_level == READ_COMMITTED:
            isolation = Isolation.TXN_COMMITTED
        else:
            isolation = Isolation.HIGH_WATERMARK
        max_bytes = max(0, min(request.max_bytes, self._config.fetch_max_bytes))
        return FetchParams(
            replica_id,
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            isolation,
            leader_only=replica_id >= 0 or version < FIRST_VERSION_WITH_FOLLOWER_FETCH,
        )

    def _in_format(
        self,
        results: Sequence[ReadResult],
        entries: Sequence[FetchEntry],
        params: FetchParams,
        wanted: FetchFormat,
    ) -> list[ReadResult]:
        configs = self._replicas.topic_configs
        return [
            result
            if result.error
            else in_format(
                result,
                entry,
                wanted,
                configs.get(entry.topic_partition.topic).log,
                params.is_from_follower,
            )
            for result, entry in zip(results, entries, strict=True)
        ]

    def _response(
        self,
        context: RequestContext,
        params: FetchParams,
        keys: Sequence[tuple[str, UUID]],
        results: Sequence[ReadResult],
    ) -> FetchResponse:
        version = context.header.api_version
        response = FetchResponse()
        topic: FetchableTopicResponse | None = None
        last_key = None
        committed = params.isolation is Isolation.TXN_COMMITTED
        aborted: list[AbortedTransaction] | None = None  # null to those that read all
        for key, result in zip(keys, results, strict=True):
            if topic is None or key != last_key:
                topic, last_key = FetchableTopicResponse(*key), key
                response.responses.append(topic)
            error = result.error
            if committed:
                aborted = [
                    AbortedTransaction(t.producer_id, t.first_offset) for t in result.aborted
                ]
            data = PartitionData(
                partition_index=result.topic_partition.partition,
                error_code=error,
                high_watermark=result.high_watermark,
                last_stable_offset=result.last_stable_offset,
                log_start_offset=result.log_start_offset,
                aborted_transactions=aborted,
                records=result.records,
            )
            if result.diverging is not None:
                data.diverging_epoch = EpochEndOffset(*result.diverging)
            if error in _LEADER_ERRORS and version >= FIRST_VERSION_WITH_LEADER:
                self._name_leader(context, result.topic_partition, data, response)
            if (
                error is ErrorCode.KAFKA_STORAGE_ERROR
                and version < FIRST_VERSION_WITH_STORAGE_ERROR
            ):
                # Clients of that age do not know the error and would give up instead of looking
                # for another leader.
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            topic.partitions.append(data)
        return response

    def _name_leader(
        self,
        context: RequestContext,
        topic_partition: TopicPartition,
        data: PartitionData,
        response: FetchResponse,
    ) -> None:
        hint = leader_hint(self._cluster, topic_partition, context.listener)
        data.current_leader = LeaderIdAndEpoch(hint.leader, hint.leader_epoch)
        if (
            hint.endpoint is not None
            and hint.broker is not None
            and all(node.node_id != hint.leader for node in response.node_endpoints)
        ):
            response.node_endpoints.append(
                NodeEndpoint(hint.leader, hint.endpoint.host, hint.endpoint.port, hint.broker.rack)
            )
