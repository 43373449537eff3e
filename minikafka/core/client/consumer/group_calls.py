"""The calls that commit and fetch a group's offsets (OffsetCommit, OffsetFetch)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from minikafka.core.client.calls import (
    Call,
    CoordinatorCall,
    CoordinatorKey,
    error_of,
    raise_for,
    raise_gravest,
)
from minikafka.core.client.errors import COORDINATOR_ERRORS
from minikafka.core.client.offsets import GroupMetadata, OffsetAndMetadata
from minikafka.kernel.cluster import CoordinatorType, TopicPartition, grouped
from minikafka.kernel.errors import KafkaError
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

# OffsetFetch can leave out the offsets of open transactions from this version on (KIP-447).
STABLE_OFFSETS_VERSION: Final = 7

_ONE_GROUP_VERSION: Final = 7  # of OffsetFetch
MANY_GROUPS_VERSION: Final = 8  # from this one on a request names several groups
_LAST_VERSION_WITH_NAMES: Final = 9  # of OffsetCommit and OffsetFetch; later ones have topic ids

PartitionErrors: TypeAlias = dict[TopicPartition, KafkaError | None]
Offsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata]


def group_key(group_id: str) -> CoordinatorKey:
    """Return the coordinator key of a consumer group."""
    return CoordinatorKey(CoordinatorType.GROUP, group_id)


def offset_commit(
    group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> CoordinatorCall[PartitionErrors]:
    """Build an OffsetCommit call. Its result is the error of each partition, or None.

    The call raises the KafkaError if an error concerns the coordinator as a whole.
    """

    def read(response: OffsetCommitResponse) -> PartitionErrors:
        errors: PartitionErrors = {}
        for topic in response.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.name, row.partition_index)
                errors[tp] = error_of(row.error_code, str(tp))
        raise_gravest(e for e in errors.values() if e is not None and e.code in COORDINATOR_ERRORS)
        return errors

    rows = (
        (
            tp.topic,
            OffsetCommitRequestPartition(
                tp.partition, at.offset, at.leader_epoch, committed_metadata=at.metadata
            ),
        )
        for tp, at in sorted(offsets.items())
    )
    request = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(name, partitions=found)
            for name, found in grouped(rows).items()
        ],
    )
    return CoordinatorCall(
        request, read, _LAST_VERSION_WITH_NAMES, coordinator=group_key(group.group_id)
    )


def offset_fetch(
    group_id: str, partitions: Iterable[TopicPartition] | None, require_stable: bool
) -> CoordinatorCall[Offsets]:
    """Build an OffsetFetch call for ``partitions``, or for all committed offsets if None.

    Partitions without a committed offset are missing from the result; the call raises the
    KafkaError of any partition. With ``require_stable`` the coordinator responds with
    UNSTABLE_OFFSET_COMMIT for a partition with a commit in an open transaction (KIP-447); that
    needs request version ``STABLE_OFFSETS_VERSION``.
    """

    def read(response: OffsetFetchResponse) -> Offsets:
        raise_for(response.error_code, group_id)
        return _committed(response.topics)

    topics = None
    if partitions is not None:
        by_topic = grouped(sorted(partitions))
        topics = [OffsetFetchRequestTopic(name, numbers) for name, numbers in by_topic.items()]
    request = OffsetFetchRequest(group_id, topics, require_stable=require_stable)
    return CoordinatorCall(request, read, _ONE_GROUP_VERSION, coordinator=group_key(group_id))


def offset_fetch_of_groups(group_ids: Iterable[str]) -> Call[dict[str, Offsets | KafkaError]]:
    """Build an OffsetFetch call for all committed offsets of groups with the same coordinator,
    which must support ``MANY_GROUPS_VERSION`` (KIP-709). The result has the offsets of each group,
    or its KafkaError."""

    def read(response: OffsetFetchResponse) -> dict[str, Offsets | KafkaError]:
        found: dict[str, Offsets | KafkaError] = {}
        for group in response.groups:
            try:
                raise_for(group.error_code, group.group_id)
                found[group.group_id] = _committed(group.topics)
            except KafkaError as error:
                found[group.group_id] = error
        return found

    groups = [OffsetFetchRequestGroup(group_id, topics=None) for group_id in group_ids]
    return Call(OffsetFetchRequest(groups=groups), read, _LAST_VERSION_WITH_NAMES)


def _committed(
    topics: Iterable[OffsetFetchResponseTopic] | Iterable[OffsetFetchResponseTopics],
) -> Offsets:
    """Return the offsets of a response, without partitions that have none. Raises KafkaError."""
    rows = [
        (TopicPartition(topic.name, row.partition_index), row)
        for topic in topics
        for row in topic.partitions
    ]
    raise_gravest(error_of(row.error_code, str(tp)) for tp, row in rows)
    return {
        tp: OffsetAndMetadata(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
        for tp, row in sorted(rows, key=lambda found: found[0])
        if row.committed_offset >= 0
    }
