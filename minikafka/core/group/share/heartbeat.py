"""ShareGroupHeartbeat: members of a share group join, stay and leave (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from minikafka.core.group.modern.admission import check_member, check_room, fenced
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.metadata_hash import hash_of
from minikafka.core.group.modern.partitions import Partitions, of_topics, rows_of, union
from minikafka.core.group.share.assignor import assign_simple
from minikafka.core.group.share.config import ShareGroupConfig
from minikafka.core.group.share.group import ShareGroup
from minikafka.core.group.share.member import (
    NOT_JOINED,
    ShareAssignment,
    ShareGroupMember,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.share.states import NO_STATES, lacking, stored_states
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import (
    JOINS,
    LEAVES,
    Assignment,
    TopicPartitions,
)
from minikafka.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from minikafka.protocol.messages.share_group_membership_log import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)


class ShareHeartbeatFacts(NamedTuple):
    """A ShareGroupHeartbeat request. None in a field means: unchanged."""

    member_id: str
    member_epoch: int
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] | None = None


# ---- the request


def check_request(facts: ShareHeartbeatFacts) -> None:
    """Raise KafkaError (INVALID_REQUEST) for a request that no member may send."""
    problem = None
    if not facts.member_id:
        problem = "MemberId can't be empty."
    elif facts.rack_id == "":
        problem = "RackId can't be empty."
    elif facts.member_epoch == JOINS:
        if not facts.topics:
            problem = "SubscribedTopicNames must be set in first request."
    elif facts.member_epoch < LEAVES:
        problem = "MemberEpoch is invalid."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def heartbeat(
    changes: GroupChanges[ShareGroup],
    facts: ShareHeartbeatFacts,
    image: MetadataImage,
    config: ShareGroupConfig,
) -> ShareGroupHeartbeatResponse:
    """Process the heartbeat of a member that joins or stays, and return its response.

    The steps are Kafka's: the member's subscription, the group epoch, the target assignment, and
    the member's own assignment, each with its records. Raises KafkaError; then ``changes`` has no
    records.
    """
    group, member_id = changes.group, facts.member_id
    _admit(group, facts, config)
    before = group.current.get(member_id, NOT_JOINED)
    # As in Kafka, before the member counts.
    is_due = group.is_assignment_due(image)
    raised = _store_metadata(changes, facts) or is_due
    if raised or group.image is not image:
        raised = update_epoch(changes, image, raised=raised)
    _assign_if_due(changes, image)
    current = _reconcile(changes, member_id, image, subscription_changed=raised)
    is_full = facts.member_epoch == JOINS or facts.topics is not None
    tells = is_full or current.assigned != before.assigned
    return ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        assignment=_assignment(current) if tells else None,
    )


def _assignment(current: ShareAssignment) -> Assignment:
    return Assignment([TopicPartitions(*row) for row in rows_of(current.assigned)])


def _admit(group: ShareGroup, facts: ShareHeartbeatFacts, config: ShareGroupConfig) -> None:
    """Check that the group has room for the sender, and that its member epoch is known.

    Raises KafkaError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    member_id, epoch = facts.member_id, facts.member_epoch
    if member_id not in group.members:
        check_room(group, config.max_size)
    if epoch == JOINS:
        return
    known = require_member(group, member_id)
    if epoch > known.member_epoch:
        raise fenced(group, epoch, known.member_epoch)
    # A member with the previous epoch may have missed the response that raised it.
    previous = known.previous_member_epoch
    if epoch not in (known.member_epoch, previous):
        detail = f", and it does not match the previous member epoch ({previous})"
        raise fenced(group, epoch, known.member_epoch, detail)


def require_member(group: ShareGroup, member_id: str) -> ShareAssignment:
    """Return the assignment of a member. Raises KafkaError: UNKNOWN_MEMBER_ID."""
    check_member(group, member_id)
    return group.current.get(member_id, NOT_JOINED)


def _store_metadata(changes: GroupChanges[ShareGroup], facts: ShareHeartbeatFacts) -> bool:
    """Store the metadata of a member. Return whether its subscription has changed."""
    group, member_id = changes.group, facts.member_id
    known = group.members.get(member_id, ShareGroupMember())
    new = ShareGroupMember(
        known.rack_id if facts.rack_id is None else facts.rack_id,
        facts.client_id,
        facts.client_host,
        known.topics if facts.topics is None else tuple(sorted(set(facts.topics))),
    )
    if member_id in group.members and new == known:
        return False
    key = ShareGroupMemberMetadataKey(group.group_id, member_id)
    changes.write(key, stored_metadata(new))
    return new.topics != known.topics


# ---- epochs and assignments


def update_epoch(changes: GroupChanges[ShareGroup], image: MetadataImage, *, raised: bool) -> bool:
    """Raise the group epoch if ``raised``, or if the hash of the subscribed topics has changed.
    Return whether it rose."""
    group = changes.group
    seen = hash_of(group.subscribed_topics(), image)
    rises = raised or seen != group.metadata_hash
    if rises:
        key = ShareGroupMetadataKey(group.group_id)
        changes.write(key, ShareGroupMetadataValue(group.epoch + 1, seen))
    group.image = image
    return rises


def _assign_if_due(changes: GroupChanges[ShareGroup], image: MetadataImage) -> None:
    """Compute the target assignment of a new group epoch, and store changed targets. Only
    share-partitions that have a state are assigned."""
    group, name = changes.group, changes.group.group_id
    if group.epoch <= group.target_epoch:
        return
    ids: dict[tuple[str, ...], frozenset[UUID]] = {}
    for member in group.members.values():
        if member.topics not in ids:
            ids[member.topics] = _topic_ids(member, image)
    subscriptions = {member_id: ids[m.topics] for member_id, m in group.members.items()}
    for member_id, target in assign_simple(subscriptions, group.targets, group.initialized).items():
        if group.targets.get(member_id) != target:
            key = ShareGroupTargetAssignmentMemberKey(name, member_id)
            changes.write(key, stored_target(target))
    changes.write(
        ShareGroupTargetAssignmentMetadataKey(name),
        ShareGroupTargetAssignmentMetadataValue(group.epoch),
    )


def _topic_ids(member: ShareGroupMember, image: MetadataImage) -> frozenset[UUID]:
    found = (image.topic_ids.get(topic) for topic in member.topics)
    return frozenset(topic_id for topic_id in found if topic_id is not None)


def _reconcile(
    changes: GroupChanges[ShareGroup],
    member_id: str,
    image: MetadataImage,
    *,
    subscription_changed: bool,
) -> ShareAssignment:
    """Give a member its target at once: no other member has to revoke a shared partition."""
    group = changes.group
    before = group.current.get(member_id, NOT_JOINED)
    is_new = before.member_epoch != group.target_epoch
    if not is_new and not subscription_changed:
        return before
    topics = _topic_ids(group.members[member_id], image)
    assigned = of_topics(group.targets.get(member_id, {}), topics)
    current = before._replace(assigned=assigned)
    if is_new:
        current = ShareAssignment(group.target_epoch, before.member_epoch, assigned)
    if current != before:
        key = ShareGroupCurrentMemberAssignmentKey(group.group_id, member_id)
        changes.write(key, stored_current(current))
    return current


# ---- initialization of share-partitions


def begin_states(
    changes: GroupChanges[ShareGroup], image: MetadataImage, retry_interval_ms: int, now_ms: int
) -> Partitions:
    """Return the subscribed partitions whose states are to be initialized now, and store them as
    initializing. A partition is initialized again if it is not done after
    ``retry_interval_ms``."""
    group = changes.group
    states = group.states or NO_STATES
    since = group.initializing_since
    fresh = {
        topic: partitions
        for topic, partitions in states.initializing.items()
        if now_ms - since.get(topic, now_ms - retry_interval_ms) < retry_interval_ms
    }
    present = union(states.initialized, fresh)
    partitions = lacking(group.subscribed_topics(), present, image)
    if partitions:
        key = ShareGroupStatePartitionMetadataKey(group.group_id)
        changes.write(key, stored_states(states.begin(partitions, image)))
        since.update(dict.fromkeys(partitions, now_ms))
    return partitions


# ---- members that leave


def fence_members(
    changes: GroupChanges[ShareGroup], member_ids: Iterable[str], image: MetadataImage
) -> None:
    """Remove members. The group epoch rises, so that the next heartbeat computes new targets."""
    name = changes.group.group_id
    for member_id in member_ids:
        changes.write(ShareGroupCurrentMemberAssignmentKey(name, member_id), None)
        changes.write(ShareGroupTargetAssignmentMemberKey(name, member_id), None)
        changes.write(ShareGroupMemberMetadataKey(name, member_id), None)
    update_epoch(changes, image, raised=True)
