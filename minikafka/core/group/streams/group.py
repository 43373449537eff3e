"""The state of one streams group (KIP-1071): epochs, topology, members, target assignments."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from minikafka.core.group.modern.group import ModernGroup
from minikafka.core.group.records import ModernGroupKey, ModernGroupValue
from minikafka.core.group.streams.member import (
    NOT_JOINED,
    StreamsGroupMember,
    read_current,
    read_metadata,
    read_target,
    stored_current,
    stored_metadata,
    stored_target,
)
from minikafka.core.group.streams.reconciliation import (
    CurrentTasks,
    StreamsMemberState,
    TaskHolders,
)
from minikafka.core.group.streams.tasks import TaskAssignment
from minikafka.core.group.streams.topology import ConfiguredTopology, source_topics
from minikafka.protocol.messages.streams_group_log import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from minikafka.protocol.messages.streams_topology import KeyValue

NOT_VALIDATED = -1


class StreamsGroupState(Enum):
    """The states of a streams group, by their names in responses.

    NOT_READY: topics of the topology are missing or have wrong partition counts. The other states
    are those of a consumer group.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup(ModernGroup):
    """A streams group (Kafka's ``StreamsGroup``).

    The values of its records are the group and target epochs, ``topology``, the topology epoch
    whose topics were valid (``validated_epoch``), the configuration of the last assignment
    (``assignment_configs``), ``members``, ``targets`` and ``current`` (by member id). ``sources``,
    the subtopology of each topic that tasks read, and ``holders`` are computed from them.

    The other attributes are in no record. ``configured`` is the topology with the partition counts
    of the topics in ``image``. ``endpoint_epoch`` rises with each assignment of a member that has
    an endpoint. ``shutdown_by`` is the member that has requested the shutdown of the application.
    ``delay`` is the running timer for which the first assignment waits.
    """

    TYPE: ClassVar[str] = "streams"
    PROTOCOL_TYPE: ClassVar[str] = "streams"
    MAY_BECOME_CLASSIC: ClassVar[bool] = True

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_epoch = NOT_VALIDATED
        self.assignment_configs: dict[str, str] = {}
        self.topology: StreamsGroupTopologyValue | None = None
        self.members: dict[str, StreamsGroupMember] = {}
        self.targets: dict[str, TaskAssignment] = {}
        self.current: dict[str, CurrentTasks] = {}
        self.sources: dict[str, str] = {}
        self.holders = TaskHolders()
        self.configured: ConfiguredTopology | None = None
        self.endpoint_epoch = 0
        self.shutdown_by: str | None = None
        self.delay: object | None = None

    @property
    def state(self) -> StreamsGroupState:
        if self.is_dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(self.is_reconciled(member_id) for member_id in self.members):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current.get(member_id, NOT_JOINED)
        return (
            current.state is StreamsMemberState.STABLE and current.member_epoch == self.target_epoch
        )

    def must_revoke(self, member_id: str) -> bool:
        return self.current.get(member_id, NOT_JOINED).state is StreamsMemberState.UNREVOKED_TASKS

    @property
    def has_records(self) -> bool:
        maps = (self.members, self.targets, self.current)
        return bool(self.epoch or self.target_epoch or self.topology or any(maps))

    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(self.sources if self.members else ())

    # -- its records

    def value_of(self, key: ModernGroupKey) -> ModernGroupValue | None:
        match key:
            case StreamsGroupMetadataKey() if self.epoch > 0:
                return StreamsGroupMetadataValue(
                    self.epoch,
                    self.metadata_hash,
                    self.validated_epoch,
                    [KeyValue(*config) for config in self.assignment_configs.items()],
                )
            case StreamsGroupTargetAssignmentMetadataKey() if self.target_epoch > 0:
                return StreamsGroupTargetAssignmentMetadataValue(self.target_epoch)
            case StreamsGroupTopologyKey():
                return self.topology
            case StreamsGroupMemberMetadataKey():
                metadata = self.members.get(key.member_id)
                return None if metadata is None else stored_metadata(metadata)
            case StreamsGroupTargetAssignmentMemberKey():
                target = self.targets.get(key.member_id)
                return None if target is None else stored_target(target)
            case StreamsGroupCurrentMemberAssignmentKey():
                current = self.current.get(key.member_id)
                return None if current is None else stored_current(current)
        return None

    def tombstone_keys(self) -> list[ModernGroupKey]:
        """Return the keys that ``tombstones`` deletes: those of the group without condition, as
        in Kafka."""
        name = self.group_id
        return [
            *(StreamsGroupCurrentMemberAssignmentKey(name, member) for member in self.current),
            *(StreamsGroupTargetAssignmentMemberKey(name, member) for member in self.targets),
            StreamsGroupTargetAssignmentMetadataKey(name),
            *(StreamsGroupMemberMetadataKey(name, member) for member in self.members),
            StreamsGroupMetadataKey(name),
            StreamsGroupTopologyKey(name),
        ]

    def replay(self, key: ModernGroupKey, value: ModernGroupValue | None) -> None:
        match key, value:
            case StreamsGroupMetadataKey(), StreamsGroupMetadataValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_epoch = value.validated_topology_epoch
                configs = value.last_assignment_configs or ()
                self.assignment_configs = {config.key: config.value for config in configs}
            case StreamsGroupMetadataKey(), _:
                self.epoch, self.metadata_hash = 0, 0
                self.validated_epoch, self.assignment_configs = NOT_VALIDATED, {}
            case (
                StreamsGroupTargetAssignmentMetadataKey(),
                StreamsGroupTargetAssignmentMetadataValue(),
            ):
                self.target_epoch = value.assignment_epoch
            case StreamsGroupTargetAssignmentMetadataKey(), _:
                self.target_epoch = 0
            case StreamsGroupTopologyKey(), StreamsGroupTopologyValue():
                self.topology, self.sources = value, source_topics(value)
            case StreamsGroupTopologyKey(), _:
                self.topology, self.sources = None, {}
            case StreamsGroupMemberMetadataKey(), StreamsGroupMemberMetadataValue():
                self._set_member(key.member_id, read_metadata(value))
            case StreamsGroupMemberMetadataKey(), _:
                self._set_member(key.member_id, None)
            case (
                StreamsGroupTargetAssignmentMemberKey(),
                StreamsGroupTargetAssignmentMemberValue(),
            ):
                self.targets[key.member_id] = read_target(value)
            case StreamsGroupTargetAssignmentMemberKey(), _:
                self.targets.pop(key.member_id, None)
            case (
                StreamsGroupCurrentMemberAssignmentKey(),
                StreamsGroupCurrentMemberAssignmentValue(),
            ):
                self._set_current(key.member_id, read_current(value))
            case StreamsGroupCurrentMemberAssignmentKey(), _:
                self._set_current(key.member_id, None)

    def _set_member(self, member_id: str, metadata: StreamsGroupMember | None) -> None:
        """Set a member. Its tasks count for its process, whose id this record may change."""
        current = self.current.get(member_id)
        self._set_current(member_id, None)
        if metadata is None:
            self.members.pop(member_id, None)
            if not self.members:
                self.shutdown_by = None
        else:
            self.members[member_id] = metadata
        self._set_current(member_id, current)

    def _set_current(self, member_id: str, current: CurrentTasks | None) -> None:
        member = self.members.get(member_id)
        process_id = "" if member is None else member.process_id
        before = self.current.pop(member_id, None)
        if before is not None:
            self.holders.remove(process_id, before)
        if current is not None:
            self.current[member_id] = current
            self.holders.add(process_id, current)
