"""OffsetFetch (key 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.broker.cluster_view import ClusterView
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.broker.zookeeper_offsets import ZookeeperOffsets
from minikafka.core.group.description import NOTHING_COMMITTED, FetchedOffset
from minikafka.core.group.records import CommittedOffset
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8


class OffsetFetchHandler:
    """An ImmediateHandler. Version 0 reads what is in ZooKeeper.

    Version 1 has no place for the error of a group: it stands at each partition that was asked for.
    (Kafka 3.9 answers such a request with no partitions at all.)
    """

    def __init__(
        self, groups: GroupCoordination, zookeeper: ZookeeperOffsets, cluster: ClusterView
    ) -> None:
        self._groups = groups
        self._zookeeper = zookeeper
        self._cluster = cluster

    def __call__(self, context: RequestContext, request: OffsetFetchRequest, reply: Reply) -> None:
        if context.version == 0:
            self._from_zookeeper(request, reply)
        elif context.version >= FIRST_VERSION_WITH_MANY_GROUPS:
            stable = request.require_stable
            groups = [self._group(g.group_id, g.topics, stable) for g in request.groups]
            reply(OffsetFetchResponse(groups=groups))
        else:
            reply(self._of_one_group(context.version, request))

    def _group(
        self,
        group_id: str,
        topics: Sequence[OffsetFetchRequestTopics] | None,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup:
        try:
            found = self._groups.fetch(group_id, _wanted(topics), require_stable)
        except KafkaError as error:
            return OffsetFetchResponseGroup(group_id, error_code=error.code)
        answers: dict[str, OffsetFetchResponseTopics] = {}
        for (name, index), committed, error_code in found:
            topic = answers.setdefault(name, OffsetFetchResponseTopics(name))
            topic.partitions.append(
                OffsetFetchResponsePartitions(
                    index,
                    committed.offset,
                    committed.leader_epoch,
                    committed.metadata,
                    error_code,
                )
            )
        return OffsetFetchResponseGroup(group_id, list(answers.values()))

    def _of_one_group(self, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        wanted = _wanted(request.topics)
        try:
            found = self._groups.fetch(request.group_id, wanted, request.require_stable)
        except KafkaError as error:
            if version >= FIRST_VERSION_WITH_ERROR:
                return OffsetFetchResponse(error_code=error.code)
            found = [FetchedOffset(tp, NOTHING_COMMITTED, error.code) for tp in wanted or ()]
        return _response(found)

    def _from_zookeeper(self, request: OffsetFetchRequest, reply: Reply) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wanted = _wanted(request.topics) or []
        known = [
            topic_partition for topic_partition in wanted if self._cluster.contains(topic_partition)
        ]

        def answer(found: Mapping[TopicPartition, int | ErrorCode | None]) -> None:
            offsets: list[FetchedOffset] = []
            for topic_partition in wanted:
                value = found.get(topic_partition)
                if value is None or isinstance(value, ErrorCode):
                    error = unknown if value is None else value
                    offsets.append(FetchedOffset(topic_partition, NOTHING_COMMITTED, error))
                else:
                    offsets.append(FetchedOffset(topic_partition, CommittedOffset(value)))
            reply(_response(offsets))

        self._zookeeper.fetch(request.group_id, known, answer)


def _wanted(
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [
        TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes
    ]


def _response(found: Sequence[FetchedOffset]) -> OffsetFetchResponse:
    topics: dict[str, OffsetFetchResponseTopic] = {}
    for (name, index), committed, error in found:
        topic = topics.setdefault(name, OffsetFetchResponseTopic(name))
        topic.partitions.append(
            OffsetFetchResponsePartition(
                index, committed.offset, committed.leader_epoch, committed.metadata, error
            )
        )
    return OffsetFetchResponse(topics=list(topics.values()))
