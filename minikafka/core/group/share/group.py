"""The state of one share group of KIP-932: epochs, members, assignments, states of partitions."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import ClassVar
from uuid import UUID

from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.modern.partitions import Partitions
from minikafka.core.group.records import ModernGroupKey, ModernGroupValue
from minikafka.core.group.share.member import (
    ShareAssignment,
    ShareGroupMember,
    read_current,
    read_metadata,
    read_target,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.share.states import StatePartitions, read_states, stored_states
from minikafka.core.metadata_image import MetadataImage
from minikafka.protocol.messages.share_group_membership_log import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)


class ShareGroupState(Enum):
    """The states of a share group, by their names in responses. DEAD: the group is deleted, or
    another broker coordinates it."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup(ModernGroup):
    """A share group (Kafka's ``ShareGroup``). Several members may have the same partition.

    The group and target epochs, ``members``, ``targets``, ``current`` and ``states`` (None: never
    written) are the values of its records. ``initializing_since`` has the wall time at which this
    coordinator began to initialize a topic; without one, the next heartbeat begins again.
    """

    TYPE: ClassVar[str] = "share"
    PROTOCOL_TYPE: ClassVar[str] = "share"
    MAY_BECOME_CLASSIC: ClassVar[bool] = False
    EXPIRES: ClassVar[bool] = False

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: dict[str, ShareGroupMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, ShareAssignment] = {}
        self.states: StatePartitions | None = None
        self.initializing_since: dict[UUID, int] = {}
        self._subscriptions: Counter[tuple[str, ...]] = Counter()
        # Of the metadata with which it was computed last, since when no record has changed.
        self._is_due: tuple[MetadataImage, bool] | None = None

    # -- state

    @property
    def state(self) -> ShareGroupState:
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def has_records(self) -> bool:
        maps = (self.members, self.targets, self.current)
        return bool(self.epoch or self.target_epoch or self.states is not None or any(maps))

    @property
    def initialized(self) -> Partitions:
        """The share-partitions that have a state."""
        return {} if self.states is None else self.states.initialized

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*self._subscriptions)

    def is_assignment_due(self, image: MetadataImage) -> bool:
        """Whether the union of the targets differs from the initialized share-partitions of
        subscribed topics. Topics that do not exist are ignored: another coordinator may have missed
        their deletion."""
        if self._is_due is None or self._is_due[0] is not image:
            self._is_due = (image, self._compare_targets(image))
        return self._is_due[1]

    def _compare_targets(self, image: MetadataImage) -> bool:
        if self.states is None or not self.members:
            return False
        ids = {image.topic_ids.get(topic) for topic in self.subscribed_topics()}
        wanted = {topic: some for topic, some in self.initialized.items() if topic in ids}
        found: dict[UUID, set[int]] = {topic: set() for topic in wanted}
        for target in self.targets.values():
            for topic, partitions in target.items():
                if topic in found:
                    found[topic] |= partitions
        return found != wanted

    # -- its records

    def value_of(self, key: ModernGroupKey) -> ModernGroupValue | None:
        match key:
            case ShareGroupMetadataKey() if self.epoch > 0:
                return ShareGroupMetadataValue(self.epoch, self.metadata_hash)
            case ShareGroupTargetAssignmentMetadataKey() if self.target_epoch > 0:
                return ShareGroupTargetAssignmentMetadataValue(self.target_epoch)
            case ShareGroupMemberMetadataKey():
                member = self.members.get(key.member_id)
                return None if member is None else stored_metadata(member)
            case ShareGroupTargetAssignmentMemberKey():
                target = self.targets.get(key.member_id)
                return None if target is None else stored_target(target)
            case ShareGroupCurrentMemberAssignmentKey():
                current = self.current.get(key.member_id)
                return None if current is None else stored_current(current)
            case ShareGroupStatePartitionMetadataKey() if self.states is not None:
                return stored_states(self.states)
        return None

    def tombstone_keys(self) -> list[ModernGroupKey]:
        """Return the keys that ``tombstones`` deletes, in Kafka's order. It also deletes those of
        the group that have no value."""
        if not self.has_records:
            return []
        name = self.group_id
        return [
            *(ShareGroupCurrentMemberAssignmentKey(name, member) for member in self.current),
            *(ShareGroupTargetAssignmentMemberKey(name, member) for member in self.targets),
            ShareGroupTargetAssignmentMetadataKey(name),
            *(ShareGroupMemberMetadataKey(name, member) for member in self.members),
            ShareGroupStatePartitionMetadataKey(name),
            ShareGroupMetadataKey(name),
        ]

    def replay(self, key: ModernGroupKey, value: ModernGroupValue | None) -> None:
        self._is_due = None
        match key, value:
            case ShareGroupMetadataKey(), ShareGroupMetadataValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ShareGroupMetadataKey(), _:
                self.epoch, self.metadata_hash = 0, 0
            case (
                ShareGroupTargetAssignmentMetadataKey(),
                ShareGroupTargetAssignmentMetadataValue(),
            ):
                self.target_epoch = value.assignment_epoch
            case ShareGroupTargetAssignmentMetadataKey(), _:
                self.target_epoch = 0
            case ShareGroupMemberMetadataKey(), ShareGroupMemberMetadataValue():
                self._set_member(key.member_id, read_metadata(value))
            case ShareGroupMemberMetadataKey(), _:
                self._set_member(key.member_id, None)
            case ShareGroupTargetAssignmentMemberKey(), ShareGroupTargetAssignmentMemberValue():
                self.targets[key.member_id] = read_target(value)
            case ShareGroupTargetAssignmentMemberKey(), _:
                self.targets.pop(key.member_id, None)
            case ShareGroupCurrentMemberAssignmentKey(), ShareGroupCurrentMemberAssignmentValue():
                self.current[key.member_id] = read_current(value)
            case ShareGroupCurrentMemberAssignmentKey(), _:
                self.current.pop(key.member_id, None)
            case ShareGroupStatePartitionMetadataKey(), ShareGroupStatePartitionMetadataValue():
                self.states = read_states(value)
            case ShareGroupStatePartitionMetadataKey(), _:
                self.states = None

    def _set_member(self, member_id: str, member: ShareGroupMember | None) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self._subscriptions[before.topics] -= 1
            if not self._subscriptions[before.topics]:
                del self._subscriptions[before.topics]
        if member is not None:
            self.members[member_id] = member
            self._subscriptions[member.topics] += 1
