"""DescribeProducers (key 61): the producers that this broker knows of partitions that it leads."""

from __future__ import annotations

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.hosted_partitions import HostedPartitions
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class DescribeProducersHandler:
    """An ImmediateHandler."""

    def __init__(self, hosted: HostedPartitions) -> None:
        self._hosted = hosted

    def __call__(
        self, context: RequestContext, request: DescribeProducersRequest, reply: Reply
    ) -> None:
        reply(
            DescribeProducersResponse(
                topics=[
                    TopicResponse(
                        topic.name,
                        [
                            self._of_partition(TopicPartition(topic.name, index))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )

    def _of_partition(self, topic_partition: TopicPartition) -> PartitionResponse:
        index = topic_partition.partition
        try:
            partition = self._hosted.require(topic_partition)
            if not partition.is_leader:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            entries = partition.log.producers.states.entries
        except KafkaError as error:
            return PartitionResponse(index, error.code, error.message)
        return PartitionResponse(
            index,
            active_producers=[
                ProducerState(
                    entry.producer_id,
                    entry.producer_epoch,
                    entry.last_sequence,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    entry.current_txn_first_offset,
                )
                for entry in entries
            ],
        )
