"""The state of one group: members, generation, offsets, limits, and the table of group states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from dataclasses import field
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.eviction import Eviction
from minikafka.core.group.offsets import GroupOffsets
from minikafka.core.group.records import GroupRecord, GroupStored
from minikafka.core.group.share.config import ShareGroupConfig
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.codec import DecodeError, decode
from minikafka.protocol.messages.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
)
from minikafka.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minikafka.protocol.messages.sync_group import SyncGroupResponse

# Each sends the response to one request, and is called exactly once.
RespondJoin: TypeAlias = Callable[[JoinGroupResponse], None]
RespondSync: TypeAlias = Callable[[SyncGroupResponse], None]

# Name and metadata of each protocol, in the order of preference.
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


class ClassicGroupMember:
    """One member of a group as its coordinator knows it (Kafka's ``MemberMetadata``).

    ``awaiting_join`` and ``awaiting_sync`` are its parked JoinGroup and SyncGroup requests.
    ``beats`` counts heartbeats: a session timer started at an earlier count has no effect.
    ``heartbeat_deadline_ms`` is the wall time by which the next heartbeat is due, for operators.
    ``is_new`` is True until the end of its first joining phase.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "beats",
        "client_host",
        "client_id",
        "group_instance_id",
        "heartbeat_deadline_ms",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: RespondJoin | None = None
        self.awaiting_sync: RespondSync | None = None
        self.beats = 0
        self.heartbeat_deadline_ms: int | None = None
        self.is_new = False

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def keeps_alive(self, beat: int) -> bool:
        """Whether the session timer that was started at ``beat`` must not remove the member.

        That is after a later heartbeat, or while a request of the member is parked. A parked
        JoinGroup does not protect a new member, since its client may have disconnected
        unnoticed.
        """
        if self.beats != beat:
            return True
        waits = self.awaiting_join is not None or self.awaiting_sync is not None
        return waits and not self.is_new

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for ``protocol``, which it must support."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Container[str]) -> str:
        """Return the member's most preferred protocol among ``candidates``."""
        return next(name for name, _ in self.protocols if name in candidates)


_VERSION_BYTES = 2


class GroupState(Enum):
    """The states of a group, by their names in DescribeGroups and ListGroups responses.

    EMPTY: the group has no members. It is new, or kept for its offsets.
    PREPARING_REBALANCE: JoinGroup requests are parked until all members have joined.
    COMPLETING_REBALANCE: SyncGroup requests are parked until the leader sends the assignments.
    STABLE: every member has its assignment.
    DEAD: the group is deleted, or another broker coordinates it. Final.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Mapping[GroupState, frozenset[GroupState]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.PREPARING_REBALANCE: frozenset(
            {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
        ),
        GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
        GroupState.DEAD: frozenset(GroupState),
    }
)


class Group:
    """A consumer group (Kafka's ``GroupMetadata``). ``members`` are in the order of joining.

    ``state_since_ms`` is wall time, None if the stored record lacks it. ``static_members`` maps
    instance ids to member ids. ``pending_members`` have received a member id and have not yet
    joined with it. ``pending_sync`` are the members that have not sent SyncGroup in this
    generation. ``phase_deadline_ms`` is the wall time at which the last joining or syncing phase
    ends at the latest, for operators. ``awaiting_join`` counts the members with a parked JoinGroup.
    ``subscribed`` is None if the subscribed topics are unknown; then every topic counts as
    subscribed.
    """

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
        self.new_member_added = False
        self.subscribed: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self.last_eviction: Eviction | None = None
        self.phase_deadline_ms: int | None = None
        self.awaiting_join = 0
        self._supporters: dict[str, int] = {}

    # -- state

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.group_id}: {self.state}>{state}"
        self.state = state
        self.state_since_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    @property
    def is_dead(self) -> bool:
        return self.state is GroupState.DEAD

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_vacant(self) -> bool:
        """Whether the group has no members, and expects none."""
        return self.is_empty and not self.pending_members

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def is_forgettable(self) -> bool:
        """Whether the group is empty: no members, no pending members, no offsets."""
        return self.is_vacant and self.offsets.is_empty

    def tombstones(self) -> list[GroupRecord]:
        """Return what deletes the group's records but offsets, if it has any."""
        return [GroupStored(self.group_id, None)] if self.generation_id > 0 else []

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of all members, in milliseconds."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        """Whether every member has a parked JoinGroup and no pending member is expected."""
        return len(self.members) == self.awaiting_join and not self.pending_members

    def subscribed_among(self, topics: Set[str]) -> Set[str]:
        """Return those of ``topics`` to which a member may be subscribed."""
        return topics if self.subscribed is None else topics & self.subscribed

    # -- members

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member. The first member determines the protocol type and becomes the leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "one per instance id"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        assert member.member_id not in self.members
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member or pending member, if it exists.

        The caller has responded to its parked requests. If it was the leader, the first
        remaining member becomes the leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.awaiting_join is None, "its JoinGroup has no response"
            assert member.awaiting_sync is None, "its SyncGroup has no response"
            self._count(member.protocols, -1)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def update(
        self,
        member: ClassicGroupMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Replace the protocols and time-outs of a member that joins again."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename(self, member: ClassicGroupMember, new_member_id: str) -> None:
        """Change the member id of a static member, which keeps its place in the order of
        members."""
        assert member.group_instance_id is not None
        old_member_id = member.member_id
        member.member_id = new_member_id
        self.members = {m.member_id: m for m in self.members.values()}
        self.static_members[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync:
            del self.pending_sync[old_member_id]
            self.pending_sync[new_member_id] = None

    def await_join(self, member: ClassicGroupMember, respond: RespondJoin) -> RespondJoin | None:
        """Park a JoinGroup of the member; return the parked one that it replaces, if any."""
        before, member.awaiting_join = member.awaiting_join, respond
        self.awaiting_join += before is None
        return before

    def take_join(self, member: ClassicGroupMember) -> RespondJoin | None:
        """Remove and return the member's parked JoinGroup, if any. The caller sends the
        response."""
        respond, member.awaiting_join = member.awaiting_join, None
        self.awaiting_join -= respond is not None
        return respond

    def not_yet_rejoined(self) -> list[ClassicGroupMember]:
        return [member for member in self.members.values() if member.awaiting_join is None]

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member with a parked JoinGroup; return False if none
        is."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    # -- protocols

    def _count(self, protocols: Protocols, amount: int) -> None:
        for name, _ in protocols:
            left = self._supporters.get(name, 0) + amount
            if left:
                self._supporters[name] = left
            else:
                del self._supporters[name]

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: all members support one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support.

        Each member votes for the one it prefers. In a tie the protocol of the earliest vote
        wins; in Kafka, the first in the order of a hash map.
        """
        candidates = {n for n, count in self._supporters.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    # -- generations

    def begin_generation(self, now_ms: int) -> None:
        """Begin the next generation with the current members; without members the group is
        EMPTY."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition_to(GroupState.EMPTY, now_ms)
        self.learn_subscriptions()
        self.pending_sync = dict.fromkeys(self.members)

    def learn_subscriptions(self) -> None:
        """Set ``subscribed`` from the members' metadata for the current protocol."""
        protocol = self.protocol_name
        metadata: Iterable[bytes] = ()
        if protocol is not None:
            metadata = (member.metadata(protocol) for member in self.members.values())
        self.subscribed = subscribed_topics(self.protocol_type, protocol, metadata)

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """Return the member rows of the leader's JoinGroup response."""
        assert self.protocol_name is not None, "before the first generation"
        return [
            JoinGroupResponseMember(
                member.member_id, member.group_instance_id, member.metadata(self.protocol_name)
            )
            for member in self.members.values()
        ]

    # -- expiry

    def expired_offsets(self, now_ms: int, retention_ms: int) -> Collection[TopicPartition]:
        """Return the partitions whose committed offsets have expired (KIP-211).

        A. The group is empty: the retention counts from the time at which it became empty.
        B. A stable consumer group: offsets of unsubscribed topics expire, from their commit on.
        C. The group never had members: the retention counts from each commit.

        In other states no offset expires.
        """
        offsets = self.offsets
        if self.protocol_type is None:
            return offsets.expired(now_ms, retention_ms, None)  # C
        if self.state is GroupState.EMPTY:
            return offsets.expired(now_ms, retention_ms, self.state_since_ms)  # A
        if self.subscribed is not None and self.state is GroupState.STABLE:
            return offsets.expired(now_ms, retention_ms, None, self.subscribed)  # B
        return ()


def subscribed_topics(
    protocol_type: str | None, protocol: str | None, metadata: Iterable[bytes]
) -> frozenset[str] | None:
    """Return the topics in the members' ``metadata`` for the chosen ``protocol``.

    None if the group is not a consumer group, or if the metadata of a member cannot be decoded.
    """
    subscriptions = list(metadata)
    if protocol_type != PROTOCOL_TYPE or (subscriptions and protocol is None):
        return None
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            # Every later version begins with the fields of version 0.
            read = decode(ConsumerProtocolSubscription, 0, subscription, _VERSION_BYTES)
        except DecodeError:
            return None
        topics.update(read.topics)
    return frozenset(topics)


# How long a JoinGroup of a new member is parked at most: it cannot send heartbeats yet.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's configuration of groups and its defaults; times in milliseconds.

    ``offset_metadata_max_bytes`` counts characters, as in Kafka.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    share: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)
    inter_broker_protocol: InterBrokerProtocol = LATEST
