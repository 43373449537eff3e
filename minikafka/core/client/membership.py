"""Membership in a group as its member sees it: what to ask next, and what an answer means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from minikafka.core.client.assignors.model import NO_GENERATION, Assignor, Subscription
from minikafka.core.client.assignors.wire import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_protocol import PROTOCOL_TYPE
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

NO_MEMBER = ""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The consumer's keys of the same names; ``strategy`` by preference."""

    group_id: str
    strategy: tuple[Assignor, ...]
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000

    @property
    def cooperative(self) -> bool:
        """Whether members keep what they own while they join: only if all strategies can."""
        return all(assignor.cooperative for assignor in self.strategy)


class MemberState(Enum):
    """Kafka's ``AbstractCoordinator.MemberState``."""

    UNJOINED = auto()
    JOINING = auto()  # JoinGroup is under way
    SYNCING = auto()  # the generation is there, what is assigned is not yet
    STABLE = auto()


class Next(Enum):
    """What an answer asks for."""

    GO_ON = auto()
    AT_ONCE = auto()  # the same step again
    LATER = auto()  # the same step again, after a backoff
    JOIN_AGAIN = auto()
    OTHER_COORDINATOR = auto()  # find out who coordinates, then again


class Membership:
    """One member. ``rejoin_needed`` says that it is to join at the next chance; ``lost`` that its
    generation is over and with it all that it owned, which others may have by now."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.assignor: Assignor | None = None
        self.is_leader = False
        self.rejoin_needed = True
        self.rejoin_reason = "the first time"
        self.lost = False
        self.assigned: tuple[TopicPartition, ...] | None = None  # as the assignors remember it
        self._members: Sequence[tuple[str, str | None, bytes]] = ()
        self._last_generation = NO_GENERATION  # of ``assigned``

    # -- joining

    def join_request(
        self, topics: Iterable[str], owned: Iterable[TopicPartition], rack_id: str | None = None
    ) -> JoinGroupRequest:
        config = self.config
        self.state = MemberState.JOINING
        held, names = tuple(owned), tuple(sorted(topics))
        protocols = []
        for assignor in config.strategy:
            subscription = Subscription(
                names,
                held,
                self._last_generation if held else NO_GENERATION,
                assignor.user_data(self.assigned, self._last_generation),
                rack_id=rack_id,
            )
            protocols.append(
                JoinGroupRequestProtocol(assignor.name, encode_subscription(subscription))
            )
        return JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self.rejoin_reason[:255],
        )

    def on_join(self, answer: JoinGroupResponse) -> Next:
        """Raises KafkaError for what is final."""
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            return self._joined(answer)
        self.state = MemberState.UNJOINED
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return Next.AT_ONCE
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.lose("an unknown member id")
            return Next.AT_ONCE
        if code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS):
            return Next.LATER
        return _next_of_lost(code)

    def _joined(self, answer: JoinGroupResponse) -> Next:
        names = {assignor.name: assignor for assignor in self.config.strategy}
        assignor = names.get(answer.protocol_name or "")
        if assignor is None or answer.protocol_type not in (None, PROTOCOL_TYPE):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group agreed on {answer.protocol_type or ''} {answer.protocol_name}",
            )
        self.assignor = assignor
        self.state = MemberState.SYNCING
        self.member_id = answer.member_id
        self.generation = answer.generation_id
        self.is_leader = answer.leader == answer.member_id and not answer.skip_assignment
        self._members = [
            (row.member_id, row.group_instance_id, bytes(row.metadata)) for row in answer.members
        ]
        self.rejoin_needed = False
        return Next.GO_ON

    def subscriptions(self) -> dict[str, Subscription]:
        """What all members said, for the leader. Raises DecodeError."""
        return {
            member: decode_subscription(metadata, instance)
            for member, instance, metadata in self._members
        }

    def sync_request(
        self, shares: Mapping[str, Sequence[TopicPartition]] | None = None
    ) -> SyncGroupRequest:
        """``shares`` of all members, from the leader."""
        assert self.assignor is not None
        return SyncGroupRequest(
            group_id=self.config.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.assignor.name,
            assignments=[
                SyncGroupRequestAssignment(member, encode_assignment(share))
                for member, share in sorted((shares or {}).items())
            ],
        )

    def on_sync(self, answer: SyncGroupResponse) -> Next:
        """Raises KafkaError for what is final."""
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            if self.state is not MemberState.SYNCING:  # lost while it was under way
                return Next.JOIN_AGAIN
            self.state = MemberState.STABLE
            return Next.GO_ON
        self.state = MemberState.UNJOINED
        self.want_rejoin(f"the sync failed: {code.name}")
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return Next.JOIN_AGAIN
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.lose(code.name, keep_member_id=code is ErrorCode.ILLEGAL_GENERATION)
            return Next.JOIN_AGAIN
        return _next_of_lost(code)

    def remember(self, assigned: Iterable[TopicPartition]) -> None:
        """What this generation brought."""
        self.assigned = tuple(sorted(assigned))
        self._last_generation = self.generation

    # -- staying

    @property
    def beats(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state in (MemberState.SYNCING, MemberState.STABLE)

    def heartbeat_request(self) -> HeartbeatRequest:
        config = self.config
        return HeartbeatRequest(
            config.group_id, self.generation, self.member_id, config.group_instance_id
        )

    def on_heartbeat(self, code: ErrorCode, asked: HeartbeatRequest) -> Next:
        """``asked`` is what was answered: an answer to an older generation says nothing. Raises
        KafkaError for what is final."""
        if (asked.generation_id, asked.member_id) != (self.generation, self.member_id):
            return Next.GO_ON
        if code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return Next.GO_ON
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.want_rejoin("the group is rebalancing")
            return Next.GO_ON
        return self._on_lost_generation(code)

    def on_commit(self, code: ErrorCode, generation: int) -> Next:
        """A commit of ``generation`` was refused. Raises KafkaError for what is final."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.want_rejoin("a commit met a rebalance")
            return Next.JOIN_AGAIN
        if code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            return Next.LATER
        if generation != self.generation:
            return Next.JOIN_AGAIN
        return self._on_lost_generation(code)

    def _on_lost_generation(self, code: ErrorCode) -> Next:
        if code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID):
            self.lose(code.name, keep_member_id=code is ErrorCode.ILLEGAL_GENERATION)
            return Next.JOIN_AGAIN
        return _next_of_lost(code)

    def want_rejoin(self, reason: str) -> None:
        if not self.rejoin_needed:
            self.rejoin_needed = True
            self.rejoin_reason = reason

    def lose(self, reason: str, keep_member_id: bool = False) -> None:
        """The generation is over for this member."""
        self.lost = self.lost or self.generation != NO_GENERATION
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        if not keep_member_id:
            self.member_id = NO_MEMBER
        self.is_leader = False
        self.rejoin_needed = True
        self.rejoin_reason = reason

    # -- leaving

    def leave_request(self, reason: str, version: int) -> LeaveGroupRequest | None:
        """None for who need not say good-bye: no member, or a static one, which comes again."""
        if self.member_id == NO_MEMBER or self.config.group_instance_id is not None:
            return None
        if version < 3:
            return LeaveGroupRequest(self.config.group_id, self.member_id)
        member = MemberIdentity(self.member_id, None, reason[:255])
        return LeaveGroupRequest(self.config.group_id, members=[member])


def _next_of_lost(code: ErrorCode) -> Next:
    if code in LOST_COORDINATOR:
        return Next.OTHER_COORDINATOR
    raise KafkaError(code)
