"""OffsetForLeaderEpoch (key 23): where a leader epoch ends in the log."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from minikafka.core.security.acls import AclOperation
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.slices import Slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from minikafka.server.broker.apis.api import Api, Senders
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import TopicRows, Verdict, before
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.quotas import Quota
from minikafka.server.broker.replication.replica_manager import ReplicaManager


class OffsetForLeaderEpochHandler:
    """Serves OffsetForLeaderEpoch (an ``ImmediateHandler``).

    Followers respond with NOT_LEADER_OR_FOLLOWER. Many partitions are looked up in slices."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def __call__(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest, reply: Reply
    ) -> Coroutine[Any, Any, None] | None:
        return begun(self._respond(request, reply), reply)

    async def _respond(self, request: OffsetForLeaderEpochRequest, reply: Reply) -> None:
        topics: list[OffsetForLeaderTopicResult] = []
        slices = Slices()
        for topic in request.topics:
            if slices.ended():
                await slices.pause()
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic))
            for requested in topic.partitions:
                if slices.ended():
                    await slices.pause()
                topic_partition = TopicPartition(topic.topic, requested.partition)
                topics[-1].partitions.append(self._response(topic_partition, requested))
        reply(OffsetForLeaderEpochResponse(topics=topics))

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


async def _brokers_or_topics(
    authorization: Authorization, context: RequestContext, request: object
) -> Verdict:
    """Followers may ask about all topics, and consumers about those that they may describe."""
    if authorization.on_cluster(context, AclOperation.CLUSTER_ACTION, log_if_denied=False):
        return Verdict.ALL_ALLOWED
    return Verdict.TOPICS_DECIDE


_EPOCHS = TopicRows(
    OffsetForLeaderEpochResponse,
    lambda name, rows: OffsetForLeaderTopicResult(name, rows),
    lambda row, error: EpochEndOffset(error, row.partition),
    name="topic",
)


OFFSET_FOR_LEADER_EPOCH = Api(
    key=ApiKey.OFFSET_FOR_LEADER_EPOCH,
    handler=lambda broker: OffsetForLeaderEpochHandler(broker.replicas),
    task=False,
    authorization=before(_EPOCHS.gate(AclOperation.DESCRIBE, _brokers_or_topics)),
    quota=Quota.REQUESTS,
    changes_state=False,
    senders=Senders.CLIENTS_AND_BROKERS,
)
