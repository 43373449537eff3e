"""Members of a consumer group that speak the classic protocol (KIP-848).

Their generation is the member epoch, the assignors of the server assign to them, and no request of
them is parked: JoinGroup takes a step towards the target, SyncGroup returns the partitions, and
Heartbeat says when there is another step to take.
"""

from __future__ import annotations

from minikafka.core.group.consumer.embedded import encoded_assignment
from minikafka.core.group.consumer.group import ConsumerGroup
from minikafka.core.group.consumer.heartbeat import (
    replace_member,
    require_member,
    store_metadata,
)
from minikafka.core.group.consumer.member import NOT_JOINED, ConsumerGroupMember
from minikafka.core.group.consumer.reconciliation import CurrentAssignment, MemberState
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.rebalance import SyncFacts
from minikafka.core.group.result import UNKNOWN_MEMBER
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_log import ClassicMemberMetadata, ClassicProtocol
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
)
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import MemberIdentity
from minikafka.protocol.messages.sync_group import SyncGroupResponse

# ---- JoinGroup


def check_protocols(group: ConsumerGroup, facts: JoinFacts) -> None:
    """Raise KafkaError (INCONSISTENT_GROUP_PROTOCOL) unless all members of the classic protocol
    support a protocol of the request."""
    known = [m.classic for m in group.members.values() if m.classic is not None]
    common = {name for name, _ in facts.protocols}
    for classic in known:
        common &= {protocol.name for protocol in classic.supported_protocols}
    if facts.protocol_type != PROTOCOL_TYPE or not common:
        problem = f"Member {facts.member_id}'s protocols are not supported."
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)


def admit(changes: GroupChanges[ConsumerGroup], facts: JoinFacts) -> str:
    """Return the id of the member that joins. A static member without an id takes the place of the
    one with its instance id, of either protocol.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group, instance = changes.group, facts.group_instance_id
    if facts.member_id != UNKNOWN_MEMBER:
        if instance is not None:
            require_member(group, facts.member_id, instance)
        return facts.member_id
    holder = None if instance is None else group.static_members.get(instance)
    if holder is not None:
        replace_member(changes, holder, facts.new_member_id)
    return facts.new_member_id


def subscribe(
    changes: GroupChanges[ConsumerGroup],
    member_id: str,
    facts: JoinFacts,
    subscription: ConsumerProtocolSubscription,
) -> bool:
    """Store what a member says in JoinGroup. Return whether its subscription has changed."""
    known = changes.group.members.get(member_id, ConsumerGroupMember())
    new = ConsumerGroupMember(
        instance_id=facts.group_instance_id or known.instance_id,
        rack_id=known.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=facts.client_id,
        client_host=facts.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=facts.rebalance_timeout_ms,
        server_assignor=known.server_assignor,
        classic=ClassicMemberMetadata(
            facts.session_timeout_ms,
            [ClassicProtocol(name, bytes(metadata)) for name, metadata in facts.protocols],
        ),
    )
    return store_metadata(changes, member_id, new)


def join_accepted(group: ConsumerGroup, member_id: str) -> JoinGroupResponse:
    """Return the response to JoinGroup. It names no leader: the members do not assign."""
    name, _ = _classic(group, member_id)
    generation = group.current.get(member_id, NOT_JOINED).member_epoch
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=name,
        member_id=member_id,
    )


# ---- SyncGroup, Heartbeat, LeaveGroup


def require_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> CurrentAssignment:
    """Return the assignment of a member of the classic protocol in this generation.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    current = require_member(group, member_id, instance_id)
    if group.members[member_id].classic is None:
        problem = f"Member {member_id} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, problem)
    if generation_id != current.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return current


def sync(group: ConsumerGroup, facts: SyncFacts, image: MetadataImage) -> SyncGroupResponse:
    """Return the response to SyncGroup: the partitions of a member, in the version of its
    subscription.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS. After the last one the member has to join
    again. One that is to revoke partitions has to know that first.
    """
    member_id = facts.member_id
    current = require_classic(group, member_id, facts.group_instance_id, facts.generation_id)
    name, subscription = _classic(group, member_id)
    for named, expected in ((facts.protocol_type, PROTOCOL_TYPE), (facts.protocol_name, name)):
        if named is not None and named != expected:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_to_revoke = current.state is MemberState.UNREVOKED_PARTITIONS
    if group.epoch > current.member_epoch and not is_to_revoke:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    assignment = encoded_assignment(current.assigned, subscription, image)
    return SyncGroupResponse(
        protocol_type=facts.protocol_type,
        protocol_name=facts.protocol_name,
        assignment=assignment,
    )


def must_rejoin(group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> bool:
    """Whether a heartbeat returns REBALANCE_IN_PROGRESS.

    A. The group has a later epoch.
    B. The member revokes partitions, and joins when it has.
    C. The partitions for which the member waits are free.
    """
    if current.member_epoch < group.epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True  # A, B
    waits = current.state is MemberState.UNRELEASED_PARTITIONS
    return waits and not group.awaits_others(member_id)  # C


def find_leaving(group: ConsumerGroup, who: MemberIdentity) -> str:
    """Return the id of a member named in LeaveGroup. It may speak either protocol, and an
    administrator may name a static member by its instance id alone.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member_id = who.member_id
    if member_id == UNKNOWN_MEMBER and who.group_instance_id is not None:
        member_id = group.static_members.get(who.group_instance_id, UNKNOWN_MEMBER)
    require_member(group, member_id, who.group_instance_id)
    return member_id


def session_timeout_of(group: ConsumerGroup, member_id: str, default_ms: int) -> int:
    """Return the session time-out of a member; those of the classic protocol bring their own."""
    classic = group.members[member_id].classic
    return default_ms if classic is None else classic.session_timeout_ms


def _classic(group: ConsumerGroup, member_id: str) -> tuple[str, bytes]:
    """Return the first protocol of a member, and its subscription for it."""
    classic = group.members[member_id].classic
    assert classic is not None, "a member of the classic protocol"
    first = classic.supported_protocols[0]
    return first.name, bytes(first.metadata)
