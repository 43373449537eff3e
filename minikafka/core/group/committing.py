"""OffsetCommit, OffsetDelete and DeleteGroups: their checks, and the records to append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.core.coordinator_shard import (
    CoordinatorAppend,
    InTransaction,
    RespondError,
    in_batches,
)
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.heartbeat import require_member
from minikafka.core.group.group import Group, GroupConfig, GroupState
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.rebalance import session_timer
from minikafka.core.group.records import CommittedOffset, GroupRecord, OffsetCommitted
from minikafka.core.group.result import (
    UNKNOWN_MEMBER,
    AnyGroup,
    GroupAppend,
    GroupDeletion,
    GroupResult,
    OffsetCommit,
    OffsetDeletion,
    RespondOffsets,
    current_member_error,
)
from minikafka.core.group.streams.group import StreamsGroup
from minikafka.core.group.streams.member import NOT_JOINED
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """An OffsetCommit or TxnOffsetCommit request.

    ``generation_id`` is -1 for a client that is not a member: a consumer with manually assigned
    partitions, or an administrator. ``knows_epochs``: the version of the request has member epochs
    in the place of generations for the members of consumer groups.
    """

    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    transaction: InTransaction | None = None
    knows_epochs: bool = True


def commit(
    group: AnyGroup,
    facts: CommitFacts,
    respond: RespondOffsets,
    config: GroupConfig,
    result: GroupResult[None],
) -> None:
    """Append the offsets of a commit; ``respond`` gets an error code for each partition.

    Partitions whose metadata are too large are left out, with OFFSET_METADATA_TOO_LARGE. A
    commit of a member also counts as a heartbeat, except in a transaction.
    """
    error = _refusal(group, facts)
    transaction = facts.transaction
    if error is not None:
        result.reply(respond, dict.fromkeys(facts.offsets, error))
        return
    if isinstance(group, Group) and not group.is_empty and transaction is None:
        result.effects.append(session_timer(group, group.members[facts.member_id]))
    limit = config.offset_metadata_max_bytes
    accepted = {tp: o for tp, o in facts.offsets.items() if len(o.metadata) <= limit}
    errors = {
        tp: ErrorCode.NONE if tp in accepted else ErrorCode.OFFSET_METADATA_TOO_LARGE
        for tp in facts.offsets
    }
    if not accepted:
        result.reply(respond, errors)
        return
    if transaction is None:
        group.offsets.begin(accepted)
    else:
        group.offsets.begin_in_transaction(transaction.producer_id, accepted)
    records = tuple(OffsetCommitted(group.group_id, tp, o) for tp, o in accepted.items())
    purpose = OffsetCommit(group, respond, errors)
    result.appends.append(CoordinatorAppend(records, purpose, transaction=transaction))


def _refusal(group: AnyGroup, facts: CommitFacts) -> ErrorCode | None:
    """Return the error code of a commit that is not allowed, else None."""
    if isinstance(group, ConsumerGroup):
        return _consumer_refusal(group, facts)
    if isinstance(group, StreamsGroup):
        return _streams_refusal(group, facts)
    if not isinstance(group, Group):
        return ErrorCode.GROUP_ID_NOT_FOUND
    error = _classic_refusal(group, facts)
    syncing = group.state is GroupState.COMPLETING_REBALANCE and facts.transaction is None
    if error is None and syncing:
        return ErrorCode.REBALANCE_IN_PROGRESS  # a current member: it retries after SyncGroup
    return error


def _consumer_refusal(group: ConsumerGroup, facts: CommitFacts) -> ErrorCode | None:
    """A member commits in its current epoch; other clients while the group has no members, or in a
    transaction: producers before KIP-447 send no member id."""
    is_anybody = facts.member_id == UNKNOWN_MEMBER and facts.group_instance_id is None
    if facts.transaction is not None and facts.generation_id == -1 and is_anybody:
        return None
    member = group.members.get(facts.member_id)
    if not facts.knows_epochs and member is not None and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    error = epoch_error(group, facts.member_id, facts.group_instance_id, facts.generation_id)
    if error is ErrorCode.STALE_MEMBER_EPOCH and facts.transaction is not None:
        return ErrorCode.ILLEGAL_GENERATION  # the only one of the two that producers know
    return error


def epoch_error(
    group: ConsumerGroup, member_id: str, group_instance_id: str | None, member_epoch: int
) -> ErrorCode | None:
    """Return None if a client may commit or fetch offsets with this member epoch, else the error
    code: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH, for members of the classic
    protocol ILLEGAL_GENERATION."""
    if member_epoch < 0 and group.is_empty:
        return None
    try:
        known = require_member(group, member_id, group_instance_id)
    except KafkaError as error:
        return error.code
    if member_epoch == known.member_epoch:
        return None
    is_classic = group.members[member_id].classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def _streams_refusal(group: StreamsGroup, facts: CommitFacts) -> ErrorCode | None:
    """A member commits in its current epoch, or in one since it was assigned the tasks: a commit
    may be under way while its epoch rises. Other clients commit as in a consumer group."""
    is_anybody = facts.member_id == UNKNOWN_MEMBER and facts.group_instance_id is None
    if facts.generation_id < 0 and group.is_empty:
        return None
    if facts.transaction is not None and facts.generation_id == -1 and is_anybody:
        return None
    if facts.member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not facts.knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    if is_current(group, facts.member_id, facts.generation_id, facts.offsets):
        return None
    if facts.transaction is not None:
        return ErrorCode.ILLEGAL_GENERATION  # the only one of the two that producers know
    return ErrorCode.STALE_MEMBER_EPOCH


def is_current(
    group: StreamsGroup, member_id: str, member_epoch: int, partitions: Iterable[TopicPartition]
) -> bool:
    """Return whether a member has held the tasks of all ``partitions`` since ``member_epoch``."""
    current = group.current.get(member_id, NOT_JOINED)
    if member_epoch >= current.member_epoch:
        return member_epoch == current.member_epoch
    tasks = ((group.sources.get(tp.topic), tp.partition) for tp in partitions)
    return all(
        subtopology is not None
        and member_epoch >= current.epochs.get((subtopology, partition), member_epoch + 1)
        for subtopology, partition in tasks
    )


def _classic_refusal(group: Group, facts: CommitFacts) -> ErrorCode | None:
    """Return the error code of a commit that is not allowed, else None.

    A member commits in its current generation. Other clients commit only while the group has no
    members, or in a transaction: producers before KIP-447 send no member id.
    """
    empty = group.state is GroupState.EMPTY
    if facts.generation_id < 0 and empty:
        return None
    if (
        facts.generation_id < 0
        and facts.member_id == UNKNOWN_MEMBER
        and facts.group_instance_id is None
    ):
        return ErrorCode.UNKNOWN_MEMBER_ID if facts.transaction is None else None
    error = current_member_error(group, facts.member_id, facts.group_instance_id)
    if error is None and facts.generation_id != group.generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    return error


def delete_offsets(
    group: AnyGroup,
    topic_partitions: Iterable[TopicPartition],
    respond: RespondError | None,
    result: GroupResult[None],
) -> int:
    """Append tombstones for the committed offsets among ``topic_partitions``; return their
    number.

    An empty group that is left without offsets is deleted too, see ``may_delete_group``.
    """
    records: list[GroupRecord] = [
        OffsetCommitted(group.group_id, topic_partition, None)
        for topic_partition in topic_partitions
        if group.offsets.get(topic_partition) is not None
    ]
    count = len(records)
    deletion = OffsetDeletion(group, respond)
    leaves_nothing = (
        deletion.may_delete_group
        and group.is_vacant
        and not group.offsets.has_pending
        and count == len(group.offsets)
    )
    if leaves_nothing:
        records += group.tombstones()
    if records or leaves_nothing or respond is not None:
        result.appends += _tombstones(records, deletion)
    return count


def delete_group(group: AnyGroup, respond: RespondError, result: GroupResult[None]) -> int:
    """Append tombstones for an empty group and all its offsets; return the number of offsets.

    Offsets that are being appended, or belong to an open transaction, are deleted too.
    """
    offsets = group.offsets.everything()
    records: list[GroupRecord] = [OffsetCommitted(group.group_id, tp, None) for tp in offsets]
    records += group.tombstones()
    result.appends += _tombstones(records, GroupDeletion(group, respond))
    return len(offsets)


def _tombstones(
    records: list[GroupRecord], purpose: OffsetDeletion | GroupDeletion
) -> list[GroupAppend]:
    """Return appends of tombstones, as many as necessary; the last one has the ``purpose``.

    As in Kafka the batches need not be replicated: the next expiry repeats a lost tombstone.
    """
    batches = list(in_batches(records, _text_bytes)) or [()]
    intermediate = OffsetDeletion(purpose.group, None)
    appends: list[GroupAppend] = [
        CoordinatorAppend(batch, intermediate, replicated=False) for batch in batches[:-1]
    ]
    return [*appends, CoordinatorAppend(batches[-1], purpose, replicated=False)]


def _text_bytes(record: GroupRecord) -> int:
    topic = record.topic_partition.topic if isinstance(record, OffsetCommitted) else ""
    return len(record.group_id.encode()) + len(topic.encode())


def expire(group: AnyGroup, config: GroupConfig, now_ms: int, result: GroupResult[None]) -> int:
    """Append tombstones for the group's expired offsets; return their number."""
    if isinstance(group, ModernGroup) and not group.EXPIRES:
        return 0
    expired = group.expired_offsets(now_ms, config.offsets_retention_ms)
    return delete_offsets(group, expired, None, result)
