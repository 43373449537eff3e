"""Groups that change their protocol while they have members (KIP-848).

A classic group becomes a consumer group when a first member of that protocol joins, and a consumer
group becomes a classic one when its last member of that protocol has left. In between, the members
of the classic protocol are members of the consumer group, their generation being the member epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.embedded import (
    encoded_assignment,
    partitions_by_id,
    read_assignment,
    read_subscription,
)
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.member import (
    ConsumerGroupMember,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.consumer.reconciliation import CurrentAssignment, MemberState
from minikafka.core.group.group import ClassicGroupMember, Group, GroupConfig, GroupState
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.metadata_hash import hash_of
from minikafka.core.group.modern.partitions import Partitions
from minikafka.core.group.rebalance import (
    current_assignments,
    fail_parked_requests,
    group_record,
    prepare_rebalance,
    session_timer,
)
from minikafka.core.group.records import GroupStored
from minikafka.core.group.result import CheckHeartbeat, CheckJoin, CheckSync, GroupResult
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.codec import DecodeError
from minikafka.protocol.messages.consumer_group_log import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from minikafka.protocol.messages.consumer_protocol import PROTOCOL_TYPE

# ---- from classic to consumer


def check_upgrade(group: Group, config: ConsumerGroupConfig) -> None:
    """Raise KafkaError (GROUP_ID_NOT_FOUND) if a group with members must stay a classic one."""
    problem = None
    if not config.migration.allows_upgrade:
        problem = "online upgrade is disabled"
    elif not group.is_consumer_group:
        problem = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.max_size:
        problem = "the group size exceeds the consumer group maximum size"
    if problem is not None:
        raise _no_upgrade(group, problem)


def _no_upgrade(group: Group, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {problem}.",
    )


def upgrade(changes: GroupChanges[ConsumerGroup], classic: Group, image: MetadataImage) -> None:
    """Write the members of ``classic`` into a new consumer group, with Kafka's records.

    The generation becomes the epoch, and the assignments become those of the members and of the
    target. As in Kafka, a cooperative member counts as having revoked what its last assignment
    lacks. A member that has joined and has no generation yet has the epoch 0.

    Raises KafkaError (GROUP_ID_NOT_FOUND); then ``changes`` has no records.
    """
    try:
        found = [_converted(classic, member, image) for member in classic.members.values()]
    except DecodeError:
        raise _no_upgrade(classic, "the embedded consumer protocol is malformed") from None
    name, epoch = classic.group_id, classic.generation_id
    topics = {topic for _, metadata, _ in found for topic in metadata.topics}
    changes.records.append(GroupStored(name, None))
    for member_id, metadata, _ in found:
        changes.write(ConsumerGroupMemberMetadataKey(name, member_id), stored_metadata(metadata))
    changes.write(
        ConsumerGroupMetadataKey(name), ConsumerGroupMetadataValue(epoch, hash_of(topics, image))
    )
    for member_id, _, assigned in found:
        target = ConsumerGroupTargetAssignmentMemberKey(name, member_id)
        changes.write(target, stored_target(assigned))
    changes.write(
        ConsumerGroupTargetAssignmentMetadataKey(name),
        ConsumerGroupTargetAssignmentMetadataValue(epoch),
    )
    for member_id, _, assigned in found:
        current = CurrentAssignment(MemberState.STABLE, epoch, epoch, assigned, {})
        key = ConsumerGroupCurrentMemberAssignmentKey(name, member_id)
        changes.write(key, stored_current(current))


def _converted(
    group: Group, member: ClassicGroupMember, image: MetadataImage
) -> tuple[str, ConsumerGroupMember, Partitions]:
    """Return id, metadata and assignment of a member. Raises DecodeError, KafkaError."""
    protocol = group.protocol_name or group.select_protocol()
    subscription = read_subscription(member.metadata(protocol))
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        # A server-side assignor would lose them.
        problem = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch"
            " to a default assignor before re-attempting the upgrade"
        )
        raise _no_upgrade(group, problem)
    metadata = ConsumerGroupMember(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            member.session_timeout_ms,
            [ClassicProtocol(name, metadata) for name, metadata in member.protocols],
        ),
    )
    return member.member_id, metadata, partitions_by_id(assignment.assigned_partitions, image)


def retire(classic: Group, error: ErrorCode, now_ms: int, result: GroupResult[None]) -> None:
    """End a classic group whose members are in a group of the other protocol: parked requests get
    ``error``, and no timer has an effect any more."""
    classic.transition_to(GroupState.DEAD, now_ms)
    for member in classic.members.values():
        fail_parked_requests(classic, member, error, result)
    for member_id in (*classic.members, *classic.pending_members):
        result.effects.append(CheckHeartbeat(classic, member_id))
    result.effects += (CheckJoin(classic), CheckSync(classic))


def revived(retired: Group, config: GroupConfig, now_ms: int, result: GroupResult[None]) -> Group:
    """Return a group with the members of a retired one, whose upgrade was not stored. It
    rebalances, since the parked requests of its members have failed."""
    group = Group(retired.group_id, now_ms)
    group.generation_id = retired.generation_id
    group.protocol_name = retired.protocol_name
    group.offsets = retired.offsets
    group.leader_id = retired.leader_id
    for member in retired.members.values():
        group.add(member)
        result.effects.append(session_timer(group, member))
    group.learn_subscriptions()
    group.state = GroupState.STABLE
    prepare_rebalance(group, "the upgrade of the group was not stored", config, now_ms, result)
    return group


# ---- from consumer to classic


def can_downgrade(group: ConsumerGroup, leaving: Collection[str], config: GroupConfig) -> bool:
    """Whether a group becomes a classic one without the members ``leaving``: some are left, and all
    of them speak the classic protocol."""
    left = [member for name, member in group.members.items() if name not in leaving]
    return bool(left) and len(left) <= config.group_max_size and _can_be_classic(left, config)


def can_downgrade_for(group: ConsumerGroup, replaced: str, config: GroupConfig) -> bool:
    """Whether a group becomes a classic one if a member of the classic protocol takes the place of
    the static member ``replaced``."""
    left = [member for name, member in group.members.items() if name != replaced]
    is_small = len(group.members) <= config.group_max_size
    return is_small and group.members[replaced].classic is None and _can_be_classic(left, config)


def _can_be_classic(members: Collection[ConsumerGroupMember], config: GroupConfig) -> bool:
    if not config.consumer.migration.allows_downgrade:
        return False
    common: set[str] | None = None
    for member in members:
        if member.classic is None:
            return False
        names = {protocol.name for protocol in member.classic.supported_protocols}
        common = names if common is None else common & names
    return common is None or bool(common)


def downgrade(
    changes: GroupChanges[ConsumerGroup],
    leaving: Collection[str],
    generation_id: int,
    image: MetadataImage,
    now_ms: int,
) -> Group:
    """Return the classic group of a consumer group's members but ``leaving``, and write Kafka's
    records: the tombstones of the consumer group, and the generation.

    Each member has the assignment of its target.
    """
    consumer, name = changes.group, changes.group.group_id
    group = Group(name, now_ms)
    group.offsets = consumer.offsets
    group.generation_id = generation_id
    for member_id, metadata in consumer.members.items():
        if member_id not in leaving:
            group.add(_classic_member(member_id, metadata))
    group.protocol_name = group.select_protocol()
    for member in group.members.values():
        target = consumer.targets.get(member.member_id, {})
        with suppress(DecodeError):  # a malformed subscription: it has nothing until it joins
            subscription = member.metadata(group.protocol_name)
            member.assignment = encoded_assignment(target, subscription, image)
    group.state = GroupState.STABLE
    group.learn_subscriptions()
    for key in consumer.tombstone_keys():
        changes.write(key, None)
    changes.records.append(group_record(group, current_assignments(group)))
    return group


def _classic_member(member_id: str, metadata: ConsumerGroupMember) -> ClassicGroupMember:
    assert metadata.classic is not None, "all members speak the classic protocol"
    return ClassicGroupMember(
        member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        metadata.classic.session_timeout_ms,
        PROTOCOL_TYPE,
        tuple((row.name, bytes(row.metadata)) for row in metadata.classic.supported_protocols),
    )
