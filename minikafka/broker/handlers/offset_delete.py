"""OffsetDelete (key 47)."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.broker.cluster_view import ClusterView
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class OffsetDeleteHandler:
    """An ImmediateHandler. Offsets of topics that the group consumes are kept."""

    def __init__(self, groups: GroupCoordination, cluster: ClusterView) -> None:
        self._groups = groups
        self._cluster = cluster

    def __call__(self, context: RequestContext, request: OffsetDeleteRequest, reply: Reply) -> None:
        wanted = [
            TopicPartition(topic.name, asked.partition_index)
            for topic in request.topics
            for asked in topic.partitions
        ]
        known = [tp for tp in dict.fromkeys(wanted) if self._cluster.contains(tp)]
        errors = dict.fromkeys(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

        def answer(deleted: Mapping[TopicPartition, ErrorCode]) -> None:
            errors.update(deleted)
            topics: dict[str, OffsetDeleteResponseTopic] = {}
            for (name, index), error in errors.items():
                topic = topics.setdefault(name, OffsetDeleteResponseTopic(name))
                topic.partitions.append(OffsetDeleteResponsePartition(index, error))
            reply(OffsetDeleteResponse(topics=list(topics.values())))

        self._groups.delete_offsets(request.group_id, known, answer)
