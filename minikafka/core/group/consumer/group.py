"""The state of one consumer group of KIP-848: epochs, members, target assignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.group.consumer.member import (
    NOT_JOINED,
    ConsumerGroupMember,
    read_current,
    read_metadata,
    read_target,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.consumer.reconciliation import CurrentAssignment, MemberState
from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern.partitions import Partitions, difference
from minikafka.core.group.records import ConsumerGroupKey, ModernGroupKey, ModernGroupValue
from minikafka.core.metadata_image import MetadataImage
from minikafka.protocol.messages.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from minikafka.protocol.messages.consumer_protocol import PROTOCOL_TYPE


class ConsumerGroupState(Enum):
    """The states of a consumer group, by their names in responses.

    ASSIGNING: the target assignment is older than the group epoch. RECONCILING: some member has not
    reached the target assignment yet. DEAD: the group is deleted, or another broker coordinates it.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicRequest(Enum):
    """A request that a member of the classic protocol must send in time."""

    JOIN_GROUP = "JoinGroup"
    SYNC_GROUP = "SyncGroup"


class Resolution(NamedTuple):
    """The metadata in which regular expressions were looked up, and the wall time of that."""

    image: MetadataImage
    at_ms: int


# Returns those of the given topics that a member may describe.
TopicFilter: TypeAlias = Callable[[Sequence[str]], Awaitable[Collection[str]]]


async def all_topics(topics: Sequence[str]) -> Collection[str]:
    return topics


class ConsumerGroup(ModernGroup):
    """A consumer group of the protocol of KIP-848 (Kafka's ``ConsumerGroup``).

    The group and target epochs, ``members``, ``targets`` and ``current`` (by member id) and the
    topics that match each of ``regexes`` are the values of its records; ``static_members`` (member
    ids by instance id) and the holders of partitions are found from them.

    ``awaited`` has the running timer of each request for which a member of the classic protocol has
    a time. ``resolution`` says when the topics of ``regexes`` were looked up last, ``is_resolving``
    whether they are now.
    """

    TYPE: ClassVar[str] = "consumer"
    PROTOCOL_TYPE: ClassVar[str] = PROTOCOL_TYPE
    MAY_BECOME_CLASSIC: ClassVar[bool] = True

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        self.static_members: dict[str, str] = {}
        self.awaited: dict[tuple[str, ClassicRequest], object] = {}
        self.resolution: Resolution | None = None
        self.is_resolving = False
        self._holders: dict[UUID, dict[int, str]] = {}
        # How many members have each subscription: topics, and a regular expression or "".
        self._subscriptions: Counter[tuple[tuple[str, ...], str]] = Counter()

    # -- what it is

    @property
    def state(self) -> ConsumerGroupState:
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current.get(member_id, NOT_JOINED)
        return current.state is MemberState.STABLE and current.member_epoch == self.target_epoch

    @property
    def has_records(self) -> bool:
        maps = (self.members, self.targets, self.current, self.regexes)
        return bool(self.epoch or self.target_epoch or any(maps))

    def must_revoke(self, member_id: str) -> bool:
        current = self.current.get(member_id, NOT_JOINED)
        is_revoking = current.state is MemberState.UNREVOKED_PARTITIONS
        return is_revoking and self.members[member_id].classic is None

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        """Whether no member has the partition, or has still to revoke it."""
        holders = self._holders.get(topic_id)
        return holders is None or partition not in holders

    def awaits_others(self, member_id: str) -> bool:
        """Whether another member still has a partition of the member's target."""
        assigned = self.current.get(member_id, NOT_JOINED).assigned
        missing = difference(self.targets.get(member_id, {}), assigned)
        return any(not self.is_free(topic, p) for topic, some in missing.items() for p in some)

    @property
    def regexes_in_use(self) -> set[str]:
        return {regex for _, regex in self._subscriptions if regex}

    def topics_of(self, topics: tuple[str, ...], regex: str) -> frozenset[str]:
        """Return the names of the topics of a subscription, existing or not."""
        matched = self.regexes.get(regex)
        return frozenset(topics if matched is None else (*topics, *matched.topics))

    def topic_ids_of(self, member_id: str, image: MetadataImage) -> frozenset[UUID]:
        """Return the ids of the existing topics to which a member subscribes."""
        member = self.members[member_id]
        names = self.topics_of(member.topics, member.regex)
        return frozenset(image.topic_ids[name] for name in names if name in image.topic_ids)

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(self.topics_of(*each) for each in self._subscriptions))

    # -- its records

    def value_of(self, key: ModernGroupKey) -> ModernGroupValue | None:
        match key:
            case ConsumerGroupMetadataKey() if self.epoch > 0:
                return ConsumerGroupMetadataValue(self.epoch, self.metadata_hash)
            case ConsumerGroupTargetAssignmentMetadataKey() if self.target_epoch > 0:
                return ConsumerGroupTargetAssignmentMetadataValue(self.target_epoch)
            case ConsumerGroupRegularExpressionKey():
                return self.regexes.get(key.regular_expression)
            case ConsumerGroupMemberMetadataKey():
                metadata = self.members.get(key.member_id)
                return None if metadata is None else stored_metadata(metadata)
            case ConsumerGroupTargetAssignmentMemberKey():
                target = self.targets.get(key.member_id)
                return None if target is None else stored_target(target)
            case ConsumerGroupCurrentMemberAssignmentKey():
                current = self.current.get(key.member_id)
                return None if current is None else stored_current(current)
        return None

    def keys(self) -> list[ConsumerGroupKey]:
        """Return all keys that have a value, members' first, as Kafka writes their tombstones."""
        name = self.group_id
        return [
            *(ConsumerGroupCurrentMemberAssignmentKey(name, member) for member in self.current),
            *(ConsumerGroupTargetAssignmentMemberKey(name, member) for member in self.targets),
            *([ConsumerGroupTargetAssignmentMetadataKey(name)] if self.target_epoch else ()),
            *(ConsumerGroupMemberMetadataKey(name, member) for member in self.members),
            *(ConsumerGroupRegularExpressionKey(name, regex) for regex in self.regexes),
            *([ConsumerGroupMetadataKey(name)] if self.epoch else ()),
        ]

    def tombstone_keys(self) -> list[ModernGroupKey]:
        """Return the keys that ``tombstones`` deletes, in Kafka's order. A coordinator of Kafka
        4.0 may have left subscription metadata, too."""
        keys: list[ModernGroupKey] = [*self.keys()]
        if self.epoch:
            keys.insert(-1, ConsumerGroupPartitionMetadataKey(self.group_id))
        return keys

    def replay(self, key: ModernGroupKey, value: ModernGroupValue | None) -> None:
        match key, value:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMetadataKey(), _:
                self.epoch, self.metadata_hash = 0, 0
            case (
                ConsumerGroupTargetAssignmentMetadataKey(),
                ConsumerGroupTargetAssignmentMetadataValue(),
            ):
                self.target_epoch = value.assignment_epoch
            case ConsumerGroupTargetAssignmentMetadataKey(), _:
                self.target_epoch = 0
            case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
                self.regexes[key.regular_expression] = value
            case ConsumerGroupRegularExpressionKey(), _:
                self.regexes.pop(key.regular_expression, None)
            case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
                self._set_member(key.member_id, read_metadata(value))
            case ConsumerGroupMemberMetadataKey(), _:
                self._set_member(key.member_id, None)
            case (
                ConsumerGroupTargetAssignmentMemberKey(),
                ConsumerGroupTargetAssignmentMemberValue(),
            ):
                self.targets[key.member_id] = read_target(value)
            case ConsumerGroupTargetAssignmentMemberKey(), _:
                self.targets.pop(key.member_id, None)
            case (
                ConsumerGroupCurrentMemberAssignmentKey(),
                ConsumerGroupCurrentMemberAssignmentValue(),
            ):
                self._set_current(key.member_id, read_current(value))
            case ConsumerGroupCurrentMemberAssignmentKey(), _:
                self._set_current(key.member_id, None)

    # -- time

    def forget_timers(self, member_id: str) -> None:
        super().forget_timers(member_id)
        for request in ClassicRequest:
            self.awaited.pop((member_id, request), None)

    # -- what is found from the records

    def _set_member(self, member_id: str, metadata: ConsumerGroupMember | None) -> None:
        before = self.members.get(member_id)
        self._count_subscription(before, -1)
        self._count_subscription(metadata, 1)
        instance = None if before is None else before.instance_id
        if instance is not None and self.static_members.get(instance) == member_id:
            del self.static_members[instance]
        if metadata is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = metadata
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id

    def _count_subscription(self, member: ConsumerGroupMember | None, amount: int) -> None:
        if member is not None:
            subscription = (member.topics, member.regex)
            self._subscriptions[subscription] += amount
            if not self._subscriptions[subscription]:
                del self._subscriptions[subscription]

    def _set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        before = self.current.pop(member_id, None)
        if before is not None:
            self._release(member_id, before.assigned)
            self._release(member_id, before.pending_revocation)
        if current is not None:
            self.current[member_id] = current
            self._hold(member_id, current.assigned)
            self._hold(member_id, current.pending_revocation)

    def _hold(self, member_id: str, partitions: Partitions) -> None:
        for topic_id, indices in partitions.items():
            self._holders.setdefault(topic_id, {}).update(dict.fromkeys(indices, member_id))

    def _release(self, member_id: str, partitions: Partitions) -> None:
        for topic_id, indices in partitions.items():
            holders = self._holders.get(topic_id, {})
            for index in indices:
                if holders.get(index) == member_id:
                    del holders[index]
            if not holders:
                self._holders.pop(topic_id, None)
