"""ListOffsets (key 2): the offset of a timestamp, or one of the special offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any, NamedTuple

from minikafka.core.log.time_search import SearchBudget
from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock, Workers
from minikafka.kernel.slices import Slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import TopicRows, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.fetch import offset_lookup
from minikafka.server.broker.fetch.offset_lookup import (
    ListedOffset,
    StartedLookup,
    ages,
    find_offset,
    offsets_before,
)
from minikafka.server.broker.fetch.reader import Isolation
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.replica_manager import ReplicaManager

READ_COMMITTED = 1
FIRST_VERSION_WITH_NOT_AVAILABLE = 5
FIRST_VERSION_WITH_EPOCH = 4
# The first version that knows each of the special timestamps.
SPECIAL_TIMESTAMPS = {
    offset_lookup.LATEST_TIMESTAMP: 0,
    offset_lookup.EARLIEST_TIMESTAMP: 0,
    offset_lookup.MAX_TIMESTAMP: 7,
    offset_lookup.EARLIEST_LOCAL_TIMESTAMP: 8,
    offset_lookup.LATEST_TIERED_TIMESTAMP: 9,
    offset_lookup.EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}


class _LongLookup(NamedTuple):
    """The lookup for one partition that takes too long for the event loop."""

    topic_partition: TopicPartition
    lookup: StartedLookup
    response: ListOffsetsPartitionResponse


class _Listing:
    """One ListOffsets request: how often it names each partition, what it may still search on the
    event loop, and the lookups that are left for workers."""

    __slots__ = ("budget", "counts", "left", "request", "version")

    def __init__(self, request: ListOffsetsRequest, version: int) -> None:
        self.request = request
        self.version = version
        self.counts: Counter[TopicPartition] = Counter()
        self.budget = SearchBudget()
        self.left: list[_LongLookup] = []


class ListOffsetsHandler:
    """Serves ListOffsets (an ``ImmediateHandler``).

    Version 0 requests several offsets, by the age of segment files. Lookups by timestamp search the
    records of batches. If there is much to search, workers do it, and the request waits. Many
    partitions are looked up in slices."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, workers: Workers) -> None:
        self._replicas = replicas
        self._clock = clock
        self._workers = workers

    def __call__(
        self, context: RequestContext, request: ListOffsetsRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        return begun(self._list(_Listing(request, context.header.api_version), reply), reply)

    async def _list(self, listing: _Listing, reply: Reply) -> None:
        slices = Slices()
        for topic in listing.request.topics:
            if slices.ended():
                await slices.pause()
            for requested in topic.partitions:
                if slices.ended():
                    await slices.pause()
                listing.counts[TopicPartition(topic.name, requested.partition_index)] += 1
        topics: list[ListOffsetsTopicResponse] = []
        for topic in listing.request.topics:
            if slices.ended():
                await slices.pause()
            topics.append(ListOffsetsTopicResponse(topic.name))
            for requested in topic.partitions:
                if slices.ended():
                    await slices.pause()
                topics[-1].partitions.append(self._row(listing, topic.name, requested))
        for each in listing.left:
            await self._finish(each, listing.version)
        reply(ListOffsetsResponse(topics=topics))

    def _row(
        self, listing: _Listing, topic: str, requested: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        """Return the response for one partition. A lookup that takes too long is added to
        ``listing.left``."""
        topic_partition = TopicPartition(topic, requested.partition_index)
        request, version = listing.request, listing.version
        if version == 0:
            return self._response_v0(topic_partition, requested, request)
        response = ListOffsetsPartitionResponse(requested.partition_index)
        if listing.counts[topic_partition] > 1:
            response.error_code = ErrorCode.INVALID_REQUEST
            return response
        try:
            lookup = self._lookup(topic_partition, requested, request, version)
            found = self._replicas.guarded(topic_partition, lambda: lookup.on_loop(listing.budget))
        except KafkaError as error:
            _put_error(response, error, version)
        else:
            if found is None:
                listing.left.append(_LongLookup(topic_partition, lookup, response))
            else:
                _put_offset(response, found, version)
        return response

    async def _finish(self, long: _LongLookup, version: int) -> None:
        try:
            found = await long.lookup.with_workers(self._workers)
        except KafkaError as error:
            _put_error(long.response, error, version)
        except OSError as error:
            self._replicas.disk_failed(long.topic_partition, error)
            _put_error(long.response, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), version)
        else:
            _put_offset(long.response, found, version)

    def _lookup(
        self,
        topic_partition: TopicPartition,
        requested: ListOffsetsPartition,
        request: ListOffsetsRequest,
        version: int,
    ) -> StartedLookup:
        """Start the lookup for one partition. Raises KafkaError."""
        timestamp = requested.timestamp
        if timestamp < 0 and SPECIAL_TIMESTAMPS.get(timestamp, version + 1) > version:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if request.replica_id != CONSUMER_REPLICA_ID:
            isolation = Isolation.LOG_END
        elif request.isolation_level == READ_COMMITTED:
            isolation = Isolation.TXN_COMMITTED
        else:
            isolation = Isolation.HIGH_WATERMARK
        partition = self._replicas.hosted.require(topic_partition)
        return StartedLookup(
            lambda: find_offset(
                partition,
                timestamp,
                isolation,
                requested.current_leader_epoch,
                leader_only=request.replica_id != DEBUGGING_REPLICA_ID,
            )
        )

    def _response_v0(
        self,
        topic_partition: TopicPartition,
        requested: ListOffsetsPartition,
        request: ListOffsetsRequest,
    ) -> ListOffsetsPartitionResponse:
        response = ListOffsetsPartitionResponse(requested.partition_index)
        try:
            response.old_style_offsets = self._replicas.guarded(
                topic_partition, lambda: self._offsets_before(topic_partition, requested, request)
            )
        except KafkaError as error:
            response.error_code = error.code
        return response

    def _offsets_before(
        self,
        topic_partition: TopicPartition,
        requested: ListOffsetsPartition,
        request: ListOffsetsRequest,
    ) -> list[int]:
        """Return the offsets of version 0 for one partition. Raises KafkaError and OSError."""
        if requested.timestamp < offset_lookup.EARLIEST_TIMESTAMP:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = self._replicas.hosted.require(topic_partition)
        leader_only = request.replica_id != DEBUGGING_REPLICA_ID
        known = ages(partition, leader_only, self._clock.wall_ms())
        from_consumer = request.replica_id == CONSUMER_REPLICA_ID
        bound = partition.high_watermark if from_consumer else partition.log.log_end_offset
        return offsets_before(known, requested.timestamp, requested.max_num_offsets, bound)


def _put_error(response: ListOffsetsPartitionResponse, error: KafkaError, version: int) -> None:
    response.error_code = error.code
    if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_VERSION_WITH_NOT_AVAILABLE:
        response.error_code = ErrorCode.LEADER_NOT_AVAILABLE


def _put_offset(response: ListOffsetsPartitionResponse, found: ListedOffset, version: int) -> None:
    response.offset = found.offset
    response.timestamp = found.timestamp
    if version >= FIRST_VERSION_WITH_EPOCH:
        response.leader_epoch = found.leader_epoch


_LIST_OFFSETS = TopicRows(
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    lambda row, error: ListOffsetsPartitionResponse(row.partition_index, error),
)


LIST_OFFSETS = Api(
    key=ApiKey.LIST_OFFSETS,
    handler=lambda broker: ListOffsetsHandler(
        broker.replicas, broker.world.clock, broker.world.workers
    ),
    task=False,
    authorization=before(_LIST_OFFSETS.gate(AclOperation.DESCRIBE)),
    quota=Quota.REQUESTS,
    changes_state=False,
    senders=Senders.CLIENTS_AND_BROKERS,
)
