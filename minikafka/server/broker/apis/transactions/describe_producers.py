"""DescribeProducers (key 61): the idempotent producers of partitions (KIP-664)."""

from __future__ import annotations

from typing import Any

from minikafka.core.security.acls import AclOperation
from minikafka.core.topic_names import name_problem, require_valid
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import MESSAGES, Authorization
from minikafka.server.broker.apis.guards import Admitted, TopicRows, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.metadata.cache import MetadataCache
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.hosted_partitions import HostedPartitions

NOT_HOSTED = "This server does not host this topic-partition."


class DescribeProducersHandler:
    """Serves DescribeProducers (an ``ImmediateHandler``). Followers serve it, too: a tool that
    looks for hanging transactions requests all replicas of one broker."""

    def __init__(self, hosted: HostedPartitions, cluster: MetadataCache) -> None:
        self._hosted = hosted
        self._cluster = cluster

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
        topic, index = topic_partition
        try:
            require_valid(topic)
            if not self._cluster.contains_topic(topic):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
            entries = self._hosted.require(topic_partition).log.producers.states.entries
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


_PRODUCERS = TopicRows(
    DescribeProducersResponse,
    TopicResponse,
    lambda index, error: PartitionResponse(index, error, MESSAGES[error]),
    partitions="partition_indexes",
)


async def _admit_describe_producers(
    authorization: Authorization, context: RequestContext, request: Any
) -> Admitted:
    """Names that no topic may have are refused by the handler, without a question."""
    valid: list[Any] = []
    invalid: list[Any] = []
    async for topic in in_slices(request.topics):
        (valid if name_problem(topic.name) is None else invalid).append(topic)
    request.topics = valid
    admitted = await _PRODUCERS.gate(AclOperation.READ, answers_alone=False)(
        authorization, context, request
    )
    request.topics = request.topics + invalid
    return admitted


DESCRIBE_PRODUCERS = Api(
    key=ApiKey.DESCRIBE_PRODUCERS,
    handler=lambda broker: DescribeProducersHandler(broker.replicas.hosted, broker.cache),
    task=False,
    authorization=before(_admit_describe_producers),
    quota=Quota.REQUESTS,
    changes_state=False,
)
