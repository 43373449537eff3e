"""Offsets of logs: ListOffsets, OffsetForLeaderEpoch and DeleteRecords (keys 2, 23, 21)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minikafka.broker.fetch import offset_lookup
from minikafka.broker.fetch.offset_lookup import ListedOffset, ages, find_offset, offsets_before
from minikafka.broker.fetch.reader import Isolation
from minikafka.broker.replication.record_deletion import DeletionResult, RecordDeletion
from minikafka.broker.replication.replica_manager import ReplicaManager
from minikafka.broker.requests.apis import Reply, RequestContext
from minikafka.kernel.cluster import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    TopicPartition,
    grouped,
)
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock
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


class ListOffsetsHandler:
    """Serves ListOffsets (an ``ImmediateHandler``).

    Version 0 requests several offsets, by the age of segment files."""

    def __init__(self, replicas: ReplicaManager, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock

    def __call__(self, context: RequestContext, request: ListOffsetsRequest, reply: Reply) -> None:
        version = context.header.api_version
        counts = Counter(
            TopicPartition(topic.name, partition.partition_index)
            for topic in request.topics
            for partition in topic.partitions
        )
        respond = self._response_v0 if version == 0 else self._response
        reply(
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        topic.name,
                        [
                            respond(
                                TopicPartition(topic.name, requested.partition_index),
                                requested,
                                request,
                                version,
                                counts,
                            )
                            for requested in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def _response(
        self,
        topic_partition: TopicPartition,
        requested: ListOffsetsPartition,
        request: ListOffsetsRequest,
        version: int,
        counts: Counter[TopicPartition],
    ) -> ListOffsetsPartitionResponse:
        response = ListOffsetsPartitionResponse(requested.partition_index)
        if counts[topic_partition] > 1:
            response.error_code = ErrorCode.INVALID_REQUEST
            return response
        try:
            found = self._find(topic_partition, requested, request, version)
        except KafkaError as error:
            response.error_code = error.code
            if (
                error.code is ErrorCode.OFFSET_NOT_AVAILABLE
                and version < FIRST_VERSION_WITH_NOT_AVAILABLE
            ):
                response.error_code = ErrorCode.LEADER_NOT_AVAILABLE
            return response
        response.offset = found.offset
        response.timestamp = found.timestamp
        if version >= FIRST_VERSION_WITH_EPOCH:
            response.leader_epoch = found.leader_epoch
        return response

    def _find(
        self,
        topic_partition: TopicPartition,
        requested: ListOffsetsPartition,
        request: ListOffsetsRequest,
        version: int,
    ) -> ListedOffset:
        """Find the offset for one partition. Raises KafkaError."""
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
        return self._replicas.guarded(
            topic_partition,
            lambda: find_offset(
                partition,
                timestamp,
                isolation,
                requested.current_leader_epoch,
                leader_only=request.replica_id != DEBUGGING_REPLICA_ID,
            ),
        )

    def _response_v0(
        self,
        topic_partition: TopicPartition,
        requested: ListOffsetsPartition,
        request: ListOffsetsRequest,
        version: int,
        counts: Counter[TopicPartition],
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
