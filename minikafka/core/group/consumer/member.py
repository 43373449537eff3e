"""What a consumer group stores of a member, and how that is written in ``__consumer_offsets``."""

from __future__ import annotations

from typing import Final

from minikafka.core.group.consumer.reconciliation import CurrentAssignment, MemberState
from minikafka.core.group.modern.partitions import Partitions, read_rows, rows_of
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_group_log import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartitions,
)

NOT_JOINED: Final = CurrentAssignment(MemberState.STABLE, 0, -1, {}, {})


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """What a member says of itself.

    ``topics`` are the names to which it subscribes, sorted; ``regex`` is "" if it subscribes by no
    regular expression. ``classic`` is set for a member of the classic protocol. Kafka:
    ``ConsumerGroupMember``.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


def stored_metadata(metadata: ConsumerGroupMember) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.topics),
        subscribed_topic_regex=metadata.regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor,
        classic_member_metadata=metadata.classic,
    )


def read_metadata(value: ConsumerGroupMemberMetadataValue) -> ConsumerGroupMember:
    """A member that supports no classic protocol has the consumer protocol: if the field is
    missing, its default is such a member."""
    classic = value.classic_member_metadata
    return ConsumerGroupMember(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(sorted(set(value.subscribed_topic_names))),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        classic if classic is not None and classic.supported_protocols else None,
    )


def stored_target(target: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=_rows(target))


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    return read_rows(value.topic_partitions)


def stored_current(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=current.state,
        assigned_partitions=_rows(current.assigned),
        partitions_pending_revocation=_rows(current.pending_revocation),
    )


def read_current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    """An unknown state, of a later Kafka, is UNKNOWN, as in Kafka."""
    known = value.state in MemberState.__members__.values()
    return CurrentAssignment(
        MemberState(value.state) if known else MemberState.UNKNOWN,
        value.member_epoch,
        value.previous_member_epoch,
        read_rows(value.assigned_partitions),
        read_rows(value.partitions_pending_revocation),
    )


def _rows(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(*row) for row in rows_of(partitions)]
