"""OffsetForLeaderEpoch: where an epoch ended, for whoever has to truncate."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.replica_manager import ReplicaManager
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class OffsetForLeaderEpochHandler:
    """An ImmediateHandler. Only the leader answers."""

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
                            self._answer(TopicPartition(topic.topic, wanted.partition), wanted)
                            for wanted in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def _answer(
        self, topic_partition: TopicPartition, wanted: OffsetForLeaderPartition
    ) -> EpochEndOffset:
        answer = EpochEndOffset(partition=wanted.partition)
        try:
            partition = self._replicas.hosted.require(topic_partition)
            end = partition.end_offset_for_epoch(
                wanted.current_leader_epoch, wanted.leader_epoch, leader_only=True
            )
        except KafkaError as error:
            answer.error_code = error.code
        else:
            answer.leader_epoch = end.epoch
            answer.end_offset = end.end_offset
        return answer
