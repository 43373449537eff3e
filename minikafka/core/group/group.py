"""One group: its state, its members, its generation, its offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from minikafka.core.group.member import Member, Protocols, Ticket
from minikafka.core.group.offsets import GroupOffsets
from minikafka.core.group.states import VALID_PREVIOUS_STATES, GroupState
from minikafka.core.group.subscription import subscribed_topics
from minikafka.kernel.cluster import TopicPartition
from minikafka.protocol.messages.consumer_protocol import PROTOCOL_TYPE
from minikafka.protocol.messages.join_group import JoinGroupResponseMember


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why a member was put out: what an operator looks for when a group rebalances."""

    member_id: str
    reason: str
    at_ms: int


class Group:
    """Kafka's ``GroupMetadata``. Members in the order in which they came; the first one leads.

    ``state_since_ms`` is wall time, None where an old record does not tell. ``pending_members``
    have been given an id and are to join with it. ``pending_sync`` have not synced yet in this
    generation. ``subscribed`` None: unknown, so anything may be subscribed to.
    """

    def __init__(self, group_id: str, now_ms: int | None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
        self.new_member_added = False
        self.subscribed: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self.last_eviction: Eviction | None = None
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
    def is_consumer_group(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def is_forgettable(self) -> bool:
        """Nobody would miss it."""
        return self.state is GroupState.EMPTY and not self.pending_members and self.offsets.is_empty

    @property
    def rebalance_timeout_ms(self) -> int:
        """That of the most patient member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join and not self.pending_members

    def may_be_subscribed_to(self, topic: str) -> bool:
        return self.subscribed is None or topic in self.subscribed

    # -- members

    def add(self, member: Member, ticket: Ticket | None = None) -> None:
        """The first one settles the protocol type, and leads."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, "one per instance id"
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending_members.pop(member.member_id, None)
        if ticket is not None:
            self.await_join(member, ticket)

    def remove(self, member_id: str) -> Member | None:
        """A member or one that was to become one. The lead goes to the first of those who stay."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.awaiting_join is None, "its JoinGroup is answered first"
            self._count(member.protocols, -1)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        return member

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename(self, member: Member, new_member_id: str) -> None:
        """A static member came back under a new id; it keeps its place."""
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

    def await_join(self, member: Member, ticket: Ticket) -> Ticket | None:
        """Its JoinGroup waits. Returns the one that waited before: nobody reads its answer."""
        before, member.awaiting_join = member.awaiting_join, ticket
        self.awaiting_join += before is None
        return before

    def take_join(self, member: Member) -> Ticket | None:
        """Its JoinGroup is about to be answered."""
        ticket, member.awaiting_join = member.awaiting_join, None
        self.awaiting_join -= ticket is not None
        return ticket

    def not_yet_rejoined(self) -> list[Member]:
        return [member for member in self.members.values() if member.awaiting_join is None]

    def elect_joined_leader(self) -> bool:
        """Let one who has joined lead, if the leader has not. False when nobody leads, or nobody
        has joined."""
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
        """Whether somebody who knows these can be a member."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Each member votes for its favourite among those that all know; most votes win, the
        earlier voted for in a tie (in Kafka a tie ends as the hash map has it)."""
        candidates = {n for n, count in self._supporters.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    # -- generations

    def begin_generation(self, now_ms: int) -> None:
        """All who are members now are of it; without any, the group is empty."""
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
        protocol = self.protocol_name
        metadata: Iterable[bytes] = ()
        if protocol is not None:
            metadata = (member.metadata(protocol) for member in self.members.values())
        self.subscribed = subscribed_topics(self.protocol_type, protocol, metadata)

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        assert self.protocol_name is not None, "there is a generation"
        return [
            JoinGroupResponseMember(
                member.member_id, member.group_instance_id, member.metadata(self.protocol_name)
            )
            for member in self.members.values()
        ]

    # -- expiry

    def expired_offsets(self, now_ms: int, retention_ms: int) -> Collection[TopicPartition]:
        """What nobody consumes any more. Case A: no members; the time runs since it has been empty.
        B: a stable consumer group; the topics that nobody subscribes to, since their commit. C: a
        group only for its offsets; since their commit. Otherwise nothing."""
        offsets = self.offsets
        if self.protocol_type is None:
            return offsets.expired(now_ms, retention_ms, None)  # C
        if self.state is GroupState.EMPTY:
            return offsets.expired(now_ms, retention_ms, self.state_since_ms)  # A
        if self.subscribed is not None and self.state is GroupState.STABLE:
            return offsets.expired(now_ms, retention_ms, None, self.subscribed)  # B
        return ()
