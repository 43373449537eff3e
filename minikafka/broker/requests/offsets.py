"""Offsets of logs: ListOffsets, OffsetForLeaderEpoch and DeleteRecords (keys 2, 23, 21)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from minikafka.broker.fetch import offset_lookup
from minikafka.broker.fetch.offset_lookup import (
    ListedOffset,
    StartedLookup,
    ages,
    find_offset,
    offsets_before,
)
from minikafka.broker.fetch.reader import Isolation
from minikafka.broker.replication.record_deletion import DeletionResult, RecordDeletion
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.broker.requests.apis import Reply, RequestContext
from minikafka.core.log.time_search import SearchBudget
from minikafka.kernel.cluster import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    TopicPartition,
    grouped,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock, Workers
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

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
}


class _LongLookup(NamedTuple):
    """The lookup for one partition that takes too long for the event loop."""

    topic_partition: TopicPartition
    lookup: StartedLookup
    response: ListOffsetsPartitionResponse


class ListOffsetsHandler:
    """Serves ListOffsets (an ``ImmediateHandler``).

    Version 0 requests several offsets, by the age of segment files. Lookups by timestamp search the
    records of batches. If there is much to search, workers do it, and the request waits."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, workers: Workers) -> None:
        self._replicas = replicas
        self._clock = clock
        self._workers = workers
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def __call__(self, context: RequestContext, request: ListOffsetsRequest, reply: Reply) -> None:
        version = context.header.api_version
        counts = Counter(
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        )
        budget, left = SearchBudget(), list[_LongLookup]()

        def respond(
            topic_partition: TopicPartition, requested: ListOffsetsPartition
        ) -> ListOffsetsPartitionResponse:
            if version == 0:
                return self._response_v0(topic_partition, requested, request)
            response = ListOffsetsPartitionResponse(requested.partition_index)
            if counts[topic_partition] > 1:
                response.error_code = ErrorCode.INVALID_REQUEST
                return response
            try:
                lookup = self._lookup(topic_partition, requested, request, version)
                found = self._replicas.guarded(topic_partition, lambda: lookup.on_loop(budget))
            except KafkaError as error:
                _put_error(response, error, version)
            else:
                if found is None:
                    left.append(_LongLookup(topic_partition, lookup, response))
                else:
                    _put_offset(response, found, version)
            return response

        response = ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        respond(TopicPartition(topic.name, requested.partition_index), requested)
                        for requested in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
        if not left:
            reply(response)
            return

        async def finish() -> None:
            for each in left:
                await self._finish(each, version)
            reply(response)

        assert self._tasks is not None, "requests are served after start"
        self._tasks.create_task(finish(), name="list-offsets")

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


class OffsetForLeaderEpochHandler:
    """Serves OffsetForLeaderEpoch (an ``ImmediateHandler``).

    Followers respond with NOT_LEADER_OR_FOLLOWER."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def __call__(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest, reply: Reply
    ) -> None:
        reply(
            OffsetForLeaderEpochResponse(
                topics=[
                    OffsetForLeaderTopicResult(
                        topic=topic.topic,
                        partitions=[
                            self._response(
                                TopicPartition(topic.topic, requested.partition), requested
                            )
                            for requested in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def _response(
        self, topic_partition: TopicPartition, requested: OffsetForLeaderPartition
    ) -> EpochEndOffset:
        response = EpochEndOffset(partition=requested.partition)
        try:
            partition = self._replicas.hosted.require(topic_partition)
            end = partition.end_offset_for_epoch(
                requested.current_leader_epoch, requested.leader_epoch, leader_only=True
            )
        except KafkaError as error:
            response.error_code = error.code
        else:
            response.leader_epoch = end.epoch
            response.end_offset = end.end_offset
        return response


class DeleteRecordsHandler:
    """Serves DeleteRecords (an ``ImmediateHandler``).

    A partition that is named twice has one result, for its last offset."""

    def __init__(self, deletion: RecordDeletion) -> None:
        self._deletion = deletion

    def __call__(
        self, context: RequestContext, request: DeleteRecordsRequest, reply: Reply
    ) -> None:
        offsets = {
            TopicPartition(topic.name, requested.partition_index): requested.offset
            for topic in request.topics
            for requested in topic.partitions
        }

        def respond(results: Sequence[DeletionResult]) -> None:
            reply(_response(results))

        self._deletion.delete(offsets, request.timeout_ms, respond)


def _response(results: Sequence[DeletionResult]) -> DeleteRecordsResponse:
    rows = (
        (
            result.topic_partition.topic,
            DeleteRecordsPartitionResult(
                result.topic_partition.partition, result.low_watermark, result.error
            ),
        )
        for result in results
    )
    topics = [DeleteRecordsTopicResult(*of_topic) for of_topic in grouped(rows).items()]
    return DeleteRecordsResponse(topics=topics)
