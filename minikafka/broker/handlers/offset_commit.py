"""OffsetCommit (key 8)."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.broker.cluster_view import ClusterView
from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.broker.zookeeper_offsets import ZookeeperOffsets
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.records import NO_TIMESTAMP, CommittedOffset
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Clock
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

DEFAULT_RETENTION = -1


class OffsetCommitHandler:
    """An ImmediateHandler. Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; the others
    are committed. Version 0 commits to ZooKeeper, as consumers before 0.9 did."""

    def __init__(
        self,
        groups: GroupCoordination,
        zookeeper: ZookeeperOffsets,
        cluster: ClusterView,
        clock: Clock,
        metadata_max_bytes: int,
    ) -> None:
        self._groups = groups
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._clock = clock
        self._metadata_max_bytes = metadata_max_bytes

    def __call__(self, context: RequestContext, request: OffsetCommitRequest, reply: Reply) -> None:
        errors: dict[TopicPartition, ErrorCode] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        now_ms = self._clock.wall_ms()
        retention_ms = request.retention_time_ms
        expire_ms = NO_TIMESTAMP if retention_ms == DEFAULT_RETENTION else now_ms + retention_ms
        for topic in request.topics:
            for asked in topic.partitions:
                topic_partition = TopicPartition(topic.name, asked.partition_index)
                errors[topic_partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if self._cluster.contains(topic_partition):
                    given_ms = asked.commit_timestamp
                    offsets[topic_partition] = CommittedOffset(
                        asked.committed_offset,
                        asked.committed_leader_epoch,
                        asked.committed_metadata or "",
                        now_ms if given_ms == NO_TIMESTAMP else given_ms,
                        expire_ms,
                    )

        def answer(committed: Mapping[TopicPartition, ErrorCode]) -> None:
            errors.update(committed)
            reply(_response(errors))

        if not offsets:
            answer({})
        elif context.version == 0:
            self._commit_to_zookeeper(request.group_id, offsets, answer)
        else:
            facts = CommitFacts(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                offsets,
            )
            self._groups.commit(request.group_id, facts, answer)

    def _commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], answer: Reply
    ) -> None:
        too_large = {
            topic_partition: ErrorCode.OFFSET_METADATA_TOO_LARGE
            for topic_partition, given in offsets.items()
            if len(given.metadata) > self._metadata_max_bytes
        }
        wanted = {tp: given.offset for tp, given in offsets.items() if tp not in too_large}
        self._zookeeper.commit(
            group_id, wanted, lambda committed: answer({**too_large, **committed})
        )


def _response(errors: Mapping[TopicPartition, ErrorCode]) -> OffsetCommitResponse:
    topics: dict[str, OffsetCommitResponseTopic] = {}
    for (name, index), error in errors.items():
        topic = topics.setdefault(name, OffsetCommitResponseTopic(name))
        topic.partitions.append(OffsetCommitResponsePartition(index, error))
    return OffsetCommitResponse(topics=list(topics.values()))
