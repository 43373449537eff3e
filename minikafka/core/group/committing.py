"""Offsets: who may commit them, what is told of them, which are to be deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from minikafka.core.group.answers import UNKNOWN_MEMBER, current_member_error
from minikafka.core.group.config import GroupConfig
from minikafka.core.group.group import Group
from minikafka.core.group.member import Ticket
from minikafka.core.group.rebalance import schedule_heartbeat
from minikafka.core.group.records import CommittedOffset, GroupRecord, GroupStored, OffsetCommitted
from minikafka.core.group.result import CoordinatorResult, InTransaction, Write
from minikafka.core.group.states import GroupState
from minikafka.core.tombstones import in_batches
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """An OffsetCommit or TxnOffsetCommit request. ``generation_id`` -1: from somebody who assigns
    partitions himself, or an administrator."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    transaction: InTransaction | None = None


@dataclass(frozen=True, slots=True)
class OffsetsStored:
    """After the write: the offsets in it are committed. ``errors``: those that were refused."""

    ticket: Ticket
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class Tombstoned:
    """After the write: what it deletes is gone. ``ticket`` None: nobody asked for it."""

    ticket: Ticket | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """After the write: the group is gone."""

    ticket: Ticket


def commit(
    group: Group, facts: CommitFacts, ticket: Ticket, config: GroupConfig, result: CoordinatorResult
) -> None:
    """The answer is an error code for each partition."""
    error = _refusal(group, facts)
    transaction = facts.transaction
    if error is None and transaction is None and group.state is GroupState.COMPLETING_REBALANCE:
        error = ErrorCode.REBALANCE_IN_PROGRESS  # it knows its generation, and will hear more
    if error is not None:
        result.reply(ticket, dict.fromkeys(facts.offsets, error))
        return
    if group.state is not GroupState.EMPTY and transaction is None:
        schedule_heartbeat(group, group.members[facts.member_id], result)
    limit = config.offset_metadata_max_bytes
    accepted = {tp: o for tp, o in facts.offsets.items() if len(o.metadata) <= limit}
    errors = {
        tp: ErrorCode.NONE if tp in accepted else ErrorCode.OFFSET_METADATA_TOO_LARGE
        for tp in facts.offsets
    }
    if not accepted:
        result.reply(ticket, errors)
        return
    if transaction is None:
        group.offsets.begin(accepted)
    else:
        group.offsets.begin_in_transaction(transaction.producer_id, accepted)
    records = tuple(OffsetCommitted(group.group_id, tp, o) for tp, o in accepted.items())
    then = OffsetsStored(ticket, errors)
    result.writes.append(Write(group, records, then, transaction=transaction))


def _refusal(group: Group, facts: CommitFacts) -> ErrorCode | None:
    """Members commit in their generation; anybody else only while there are no members, or in a
    transaction, as its producer did not say who it is before KIP-447."""
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


def tombstones(group: Group, topic_partitions: Iterable[TopicPartition]) -> list[GroupRecord]:
    """That delete those of the offsets which there are."""
    return [
        OffsetCommitted(group.group_id, topic_partition, None)
        for topic_partition in topic_partitions
        if group.offsets.get(topic_partition) is not None
    ]


def delete_offsets(
    group: Group,
    topic_partitions: Iterable[TopicPartition],
    ticket: Ticket | None,
    result: CoordinatorResult,
) -> int:
    """Of an empty group whose last offsets these are, the group goes too. Returns the number of
    offsets. The last of the writes answers."""
    records = tombstones(group, topic_partitions)
    count = len(records)
    leaves_nothing = (
        group.state is GroupState.EMPTY
        and not group.pending_members
        and not group.offsets.has_pending
        and count == len(group.offsets)
    )
    if leaves_nothing and group.generation_id > 0:  # else it has no record of its own
        records.append(GroupStored(group.group_id, None))
    if records or leaves_nothing or ticket is not None:
        _write_tombstones(group, records, Tombstoned(ticket), result)
    return count


def delete_group(group: Group, ticket: Ticket, result: CoordinatorResult) -> int:
    """An empty group goes with all that it has: also with what is on its way or in a transaction,
    and with those who were given an id to join with. Returns the number of offsets."""
    offsets = group.offsets.everything()
    records: list[GroupRecord] = [OffsetCommitted(group.group_id, tp, None) for tp in offsets]
    if group.generation_id > 0:
        records.append(GroupStored(group.group_id, None))
    _write_tombstones(group, records, Deleted(ticket), result)
    return len(offsets)


def _write_tombstones(
    group: Group,
    records: list[GroupRecord],
    last: Tombstoned | Deleted,
    result: CoordinatorResult,
) -> None:
    """Not replicated before they count, as in Kafka: one that is lost is written again by the next
    look for what has expired."""
    parts = list(in_batches(records, _text_bytes)) or [()]
    for part in parts:
        then = last if part is parts[-1] else Tombstoned()
        result.writes.append(Write(group, part, then, replicated=False))


def _text_bytes(record: GroupRecord) -> int:
    topic = record.topic_partition.topic if isinstance(record, OffsetCommitted) else ""
    return len(record.group_id.encode()) + len(topic.encode())


def expire(group: Group, config: GroupConfig, now_ms: int, result: CoordinatorResult) -> int:
    """Have deleted what has expired. Returns the number of offsets."""
    expired = group.expired_offsets(now_ms, config.offsets_retention_ms)
    return delete_offsets(group, expired, None, result)
