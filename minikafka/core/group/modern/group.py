"""``ModernGroup``: the state that consumer, share and streams groups share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Set
from enum import Enum
from typing import Any, ClassVar

from minikafka.core.group.eviction import Eviction
from minikafka.core.group.offsets import GroupOffsets
from minikafka.core.group.records import (
    GroupRecord,
    ModernGroupKey,
    ModernGroupRecord,
    ModernGroupValue,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.kernel.cluster import TopicPartition


class ModernGroup(ABC):
    """A group whose members the coordinator assigns (Kafka's ``ModernGroup``, ``StreamsGroup``).

    Its state is the values of its records: ``replay`` sets the value of a key, ``value_of`` returns
    it. ``members`` (metadata) and ``current`` (assignments), both by member id, are such values.

    ``image`` is the metadata with which ``metadata_hash`` was computed last. ``deadlines`` has for
    each member the monotonic time by which its next heartbeat is due; the timers keep it.
    """

    TYPE: ClassVar[str]
    """The group type in ListGroups and in error messages."""
    PROTOCOL_TYPE: ClassVar[str]
    """The protocol type in ListGroups."""
    MAY_BECOME_CLASSIC: ClassVar[bool]
    """Whether a classic group may take the place of one without members."""

    EXPIRES: ClassVar[bool] = True
    """Whether the coordinator deletes a group without members and offsets."""

    members: Mapping[str, Any]
    current: Mapping[str, Any]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.image: MetadataImage | None = None
        self.offsets = GroupOffsets()
        self.is_dead = False
        self.deadlines: dict[str, int] = {}
        self.last_eviction: Eviction | None = None

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The state; its value is the name in responses."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_vacant(self) -> bool:
        return not self.members

    @property
    def is_forgettable(self) -> bool:
        """Whether the group has neither members nor offsets."""
        return not self.members and self.offsets.is_empty

    @property
    @abstractmethod
    def has_records(self) -> bool:
        """Whether any key of the group has a value."""

    @abstractmethod
    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of the topics to which a member subscribes, existing or not."""

    def subscribed_among(self, topics: Set[str]) -> Set[str]:
        """Return those of ``topics`` to which a member subscribes."""
        return topics & self.subscribed_topics()

    def expired_offsets(self, now_ms: int, retention_ms: int) -> Collection[TopicPartition]:
        """Return the partitions to whose topics no member subscribes, and whose offsets were
        committed more than ``retention_ms`` ago."""
        return self.offsets.expired(now_ms, retention_ms, None, self.subscribed_topics())

    def must_revoke(self, member_id: str) -> bool:
        """Return whether a member has a rebalance time-out to revoke what its target lacks."""
        return False

    # -- its records

    @abstractmethod
    def value_of(self, key: ModernGroupKey) -> ModernGroupValue | None:
        """Return the current value of a key; None without one."""

    @abstractmethod
    def replay(self, key: ModernGroupKey, value: ModernGroupValue | None) -> None:
        """Set the value of a key. Keys come in any order: compaction does not keep theirs."""

    @abstractmethod
    def tombstone_keys(self) -> list[ModernGroupKey]:
        """Return the keys that ``tombstones`` deletes, in Kafka's order."""

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of all records of the group except its offsets."""
        return [ModernGroupRecord(key, None) for key in self.tombstone_keys()]

    # -- time

    def forget_timers(self, member_id: str) -> None:
        """Forget the timers of a member that has left."""
        self.deadlines.pop(member_id, None)
