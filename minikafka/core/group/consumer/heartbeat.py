"""ConsumerGroupHeartbeat: members of a consumer group join, reconcile and leave (KIP-848)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from minikafka.core.group.consumer.assignors import ASSIGNORS, Subscriber
from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.consumer.group import ConsumerGroup, TopicFilter, all_topics
from minikafka.core.group.consumer.member import (
    NOT_JOINED,
    ConsumerGroupMember,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.consumer.reconciliation import CurrentAssignment, reconcile
from minikafka.core.group.modern.admission import check_member, check_room, fenced
from minikafka.core.group.modern.changes import GroupChanges
from minikafka.core.group.modern.metadata_hash import hash_of
from minikafka.core.group.modern.partitions import Partitions, rows_of
from minikafka.core.metadata_image import MetadataImage
from minikafka.core.regexes import SUBSCRIPTION, compile_regex
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import (
    JOINS,
    LEAVES,
    LEAVES_FOR_NOW,
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from minikafka.protocol.messages.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class HeartbeatFacts(NamedTuple):
    """A ConsumerGroupHeartbeat request.

    None, or -1 for ``rebalance_timeout_ms``, stands for what has not changed. ``owned`` are the
    partitions that the member has. ``describable`` finds the topics that it may describe.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    describable: TopicFilter = all_topics

    @property
    def describes_itself(self) -> bool:
        """Whether the request has more than the member's epoch and partitions."""
        return (
            self.rebalance_timeout_ms != -1
            or self.topics is not None
            or self.regex is not None
            or self.rack_id is not None
            or self.server_assignor is not None
        )

    @property
    def is_full(self) -> bool:
        """Whether the member says all: it joins, or its last response was lost."""
        if self.member_epoch == JOINS:
            return True
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


# ---- the request


def check_request(facts: HeartbeatFacts, assignors: Iterable[str]) -> None:
    """Raise KafkaError for a request that no member may send: INVALID_REQUEST,
    UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION."""
    for text, name in (
        (facts.instance_id, "InstanceId"),
        (facts.rack_id, "RackId"),
    ):
        if text == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if not facts.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if facts.member_epoch == JOINS:
        _check_joining(facts)
    elif facts.member_epoch == LEAVES_FOR_NOW:
        if facts.instance_id is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif facts.member_epoch < LEAVES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if facts.regex:
        compile_regex(facts.regex, SUBSCRIPTION)
    if facts.server_assignor is not None and facts.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {facts.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(assignors)}.",
        )


def _check_joining(facts: HeartbeatFacts) -> None:
    problem = None
    if facts.rebalance_timeout_ms == -1:
        problem = "RebalanceTimeoutMs must be provided in first request."
    elif facts.owned is None or facts.owned:
        problem = "TopicPartitions must be empty when (re-)joining."
    elif facts.topics is None and facts.regex is None:
        problem = (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def heartbeat(
    changes: GroupChanges[ConsumerGroup],
    facts: HeartbeatFacts,
    image: MetadataImage,
    config: ConsumerGroupConfig,
) -> ConsumerGroupHeartbeatResponse:
    """Process the heartbeat of a member that joins or stays, and return its response.

    The steps are Kafka's: the member's subscription, the group epoch, the target assignment, and
    the member's own assignment, each with its records. Raises KafkaError; then ``changes`` may
    have records, which the caller takes back.
    """
    group, member_id = changes.group, facts.member_id
    if member_id not in group.members:
        check_room(group, config.max_size)
    _admit(changes, facts)
    before = group.current.get(member_id, NOT_JOINED)
    known = group.members.get(member_id, ConsumerGroupMember())
    subscribes_anew = store_metadata(changes, member_id, _described(group, facts))
    refresh_epoch(changes, image, raised=subscribes_anew and _is_resolved(group, member_id, known))
    assign_if_due(changes, image, config)
    current = reconcile_member(changes, member_id, facts.owned, image, subscribes_anew)
    tells = facts.is_full or current.assigned != before.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        assignment=_assignment(current) if tells else None,
    )


def _is_resolved(group: ConsumerGroup, member_id: str, before: ConsumerGroupMember) -> bool:
    """Whether the topics of a member's new subscription are known, so that targets are worth
    computing. If its regular expression is another one, and new to the group, they are computed
    once it has been resolved, as in Kafka."""
    member = group.members[member_id]
    is_known = not member.regex or member.regex in group.regexes
    return not group.epoch or member.topics != before.topics or is_known


def reconcile_member(
    changes: GroupChanges[ConsumerGroup],
    member_id: str,
    owned: Partitions | None,
    image: MetadataImage,
    subscribes_anew: bool,
) -> CurrentAssignment:
    """Lead a member, which owns ``owned``, one step towards its target. Return its assignment.

    Raises KafkaError: FENCED_MEMBER_EPOCH.
    """
    group = changes.group
    before, target = group.current.get(member_id, NOT_JOINED), group.targets.get(member_id, {})
    if group.is_reconciled(member_id) and not subscribes_anew:
        return before
    topics = group.topic_ids_of(member_id, image)
    current = reconcile(
        before, group.target_epoch, target, group.is_free, owned, topics, subscribes_anew
    )
    if current is not before:
        key = ConsumerGroupCurrentMemberAssignmentKey(group.group_id, member_id)
        changes.write(key, stored_current(current))
    return current


def _assignment(current: CurrentAssignment) -> Assignment:
    return Assignment([TopicPartitions(*row) for row in rows_of(current.assigned)])


# ---- admission


def _admit(changes: GroupChanges[ConsumerGroup], facts: HeartbeatFacts) -> None:
    """Check that the sender is the member that it says it is, or make room for it.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID.
    """
    group, member_id, instance = changes.group, facts.member_id, facts.instance_id
    holder = None if instance is None else group.static_members.get(instance)
    if facts.member_epoch == JOINS:
        if holder is not None and holder != member_id:
            is_away = group.current.get(holder, NOT_JOINED).member_epoch == LEAVES_FOR_NOW
            if not is_away and group.members[holder].classic is None:
                raise KafkaError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance} cannot join the group "
                    f"because the instance id is owned by {holder} member.",
                )
            replace_member(changes, holder, member_id)
        return
    known = require_member(group, member_id, instance)
    if facts.member_epoch != known.member_epoch and not _lost_response(known, facts):
        raise fenced(group, facts.member_epoch, known.member_epoch)


def require_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> CurrentAssignment:
    """Return the assignment of a member.

    Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member "
                f"{holder}.",
            )
    check_member(group, member_id)
    return group.current.get(member_id, NOT_JOINED)


def _lost_response(known: CurrentAssignment, facts: HeartbeatFacts) -> bool:
    """Whether the member may have missed the response that raised its epoch."""
    is_previous = facts.member_epoch == known.previous_member_epoch < known.member_epoch
    return is_previous and _is_within(facts.owned, known.assigned)


def _is_within(owned: Partitions | None, assigned: Partitions) -> bool:
    return owned is not None and all(
        partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items()
    )


def replace_member(changes: GroupChanges[ConsumerGroup], old: str, new: str) -> None:
    """Give a static member its new member id: it keeps its subscription and its assignment."""
    group, name = changes.group, changes.group.group_id
    metadata, target = group.members[old], group.targets.get(old, {})
    before = group.current.get(old, NOT_JOINED)
    remove_member(changes, old)
    current = CurrentAssignment(before.state, 0, 0, before.assigned, before.pending_revocation)
    changes.write(ConsumerGroupMemberMetadataKey(name, new), stored_metadata(metadata))
    changes.write(ConsumerGroupTargetAssignmentMemberKey(name, new), stored_target(target))
    changes.write(ConsumerGroupCurrentMemberAssignmentKey(name, new), stored_current(current))


# ---- subscriptions and the group epoch


def _described(group: ConsumerGroup, facts: HeartbeatFacts) -> ConsumerGroupMember:
    """Return what the member says of itself, and what is known of it where it says nothing."""
    known = group.members.get(facts.member_id, ConsumerGroupMember())
    client = (known.client_id, known.client_host)
    if not facts.describes_itself and client == (facts.client_id, facts.client_host):
        return known
    return ConsumerGroupMember(
        instance_id=known.instance_id if facts.instance_id is None else facts.instance_id,
        rack_id=known.rack_id if facts.rack_id is None else facts.rack_id,
        client_id=facts.client_id,
        client_host=facts.client_host,
        topics=known.topics if facts.topics is None else tuple(sorted(set(facts.topics))),
        regex=known.regex if facts.regex is None else facts.regex,
        rebalance_timeout_ms=(
            known.rebalance_timeout_ms
            if facts.rebalance_timeout_ms == -1
            else facts.rebalance_timeout_ms
        ),
        server_assignor=(
            known.server_assignor if facts.server_assignor is None else facts.server_assignor
        ),
    )


def store_metadata(
    changes: GroupChanges[ConsumerGroup], member_id: str, new: ConsumerGroupMember
) -> bool:
    """Store what a member says of itself. Return whether its subscription has changed. A regular
    expression is forgotten with its last member."""
    group = changes.group
    known = group.members.get(member_id, ConsumerGroupMember())
    if new is known or new == known:
        return False
    key = ConsumerGroupMemberMetadataKey(group.group_id, member_id)
    changes.write(key, stored_metadata(new))
    if new.regex != known.regex:
        forget_regexes(changes)
    return new.topics != known.topics or new.regex != known.regex


def forget_regexes(changes: GroupChanges[ConsumerGroup]) -> None:
    """Remove the regular expressions to which no member subscribes."""
    group = changes.group
    for regex in sorted(group.regexes.keys() - group.regexes_in_use):
        changes.write(ConsumerGroupRegularExpressionKey(group.group_id, regex), None)


def refresh_epoch(
    changes: GroupChanges[ConsumerGroup], image: MetadataImage, *, raised: bool
) -> None:
    """Raise the group epoch if ``raised``, or if new metadata change the subscribed topics."""
    if raised or changes.group.image is not image:
        update_epoch(changes, image, raised=raised)


def update_epoch(
    changes: GroupChanges[ConsumerGroup], image: MetadataImage, *, raised: bool
) -> None:
    """Raise the group epoch if ``raised``, or if the subscribed topics are not what they were."""
    group = changes.group
    seen = hash_of(group.subscribed_topics(), image)
    if raised or seen != group.metadata_hash:
        key = ConsumerGroupMetadataKey(group.group_id)
        changes.write(key, ConsumerGroupMetadataValue(group.epoch + 1, seen))
    group.image = image


# ---- the target assignment


def assign_if_due(
    changes: GroupChanges[ConsumerGroup], image: MetadataImage, config: ConsumerGroupConfig
) -> None:
    """Compute the target assignment of a new group epoch, and store what has changed of it."""
    group, name = changes.group, changes.group.group_id
    if group.epoch <= group.target_epoch:
        return
    assign = ASSIGNORS[preferred_assignor(group, config)]
    targets = assign(*_assignor_input(group, image))
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            key = ConsumerGroupTargetAssignmentMemberKey(name, member_id)
            changes.write(key, stored_target(target))
    changes.write(
        ConsumerGroupTargetAssignmentMetadataKey(name),
        ConsumerGroupTargetAssignmentMetadataValue(group.epoch),
    )


def preferred_assignor(group: ConsumerGroup, config: ConsumerGroupConfig) -> str:
    """Return the name of the assignor that most members prefer, else the default."""
    votes = Counter(m.server_assignor for m in group.members.values())
    del votes[None]
    wanted = [name for name, _ in votes.most_common() if name in config.assignors]
    return wanted[0] if wanted else config.assignors[0]


def _assignor_input(
    group: ConsumerGroup, image: MetadataImage
) -> tuple[dict[str, Subscriber], dict[UUID, int]]:
    """Return the subscriptions of all members, and the partition counts of their topics."""
    ids: dict[tuple[tuple[str, ...], str], frozenset[UUID]] = {}
    counts: dict[UUID, int] = {}
    subscribers: dict[str, Subscriber] = {}
    taken: dict[UUID, set[int]] = {}
    for member_id, member in group.members.items():
        subscription = (member.topics, member.regex)
        topic_ids = ids.get(subscription)
        if topic_ids is None:
            existing = [
                topic for topic in group.topics_of(*subscription) if topic in image.topic_ids
            ]
            counts.update((image.topic_ids[t], len(image.topics[t])) for t in existing)
            topic_ids = ids[subscription] = frozenset(image.topic_ids[t] for t in existing)
        target = _sound(group.targets.get(member_id, {}), topic_ids, counts, taken)
        subscribers[member_id] = Subscriber(topic_ids, member.rack_id, target, member.instance_id)
    return subscribers, counts


def _sound(
    target: Partitions,
    topic_ids: frozenset[UUID],
    counts: dict[UUID, int],
    taken: dict[UUID, set[int]],
) -> Partitions:
    """Return a target without partitions that do not exist or that are ``taken``, and take them.

    Assignors rely on it. Only records that somebody else has written can say otherwise.
    """
    sound = target
    for topic_id, partitions in target.items():
        if topic_id not in topic_ids:
            continue
        others, count = taken.setdefault(topic_id, set()), counts[topic_id]
        kept = partitions
        if min(kept) < 0 or max(kept) >= count or not others.isdisjoint(kept):
            kept = frozenset(p for p in partitions if 0 <= p < count and p not in others)
            sound = {**sound, topic_id: kept}
        others |= kept
    return target if sound is target else {t: some for t, some in sound.items() if some}


# ---- members that leave


def leave_for_now(
    changes: GroupChanges[ConsumerGroup], facts: HeartbeatFacts
) -> ConsumerGroupHeartbeatResponse:
    """Process a heartbeat of a static member that will be back. Raises KafkaError."""
    group, member_id = changes.group, facts.member_id
    current = require_member(group, member_id, facts.instance_id)
    away = CurrentAssignment(
        current.state, LEAVES_FOR_NOW, current.previous_member_epoch, current.assigned, {}
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group.group_id, member_id)
    changes.write(key, stored_current(away))
    return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVES_FOR_NOW)


def fence_members(
    changes: GroupChanges[ConsumerGroup], member_ids: Iterable[str], image: MetadataImage
) -> None:
    """Remove members. The group epoch rises, so that the next heartbeat computes new targets."""
    for member_id in member_ids:
        remove_member(changes, member_id)
    forget_regexes(changes)
    update_epoch(changes, image, raised=True)


def remove_member(changes: GroupChanges[ConsumerGroup], member_id: str) -> None:
    """Write the tombstones of a member, in Kafka's order."""
    name = changes.group.group_id
    changes.write(ConsumerGroupCurrentMemberAssignmentKey(name, member_id), None)
    changes.write(ConsumerGroupTargetAssignmentMemberKey(name, member_id), None)
    changes.write(ConsumerGroupMemberMetadataKey(name, member_id), None)
