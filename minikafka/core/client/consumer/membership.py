"""The state of a consumer group's member: its requests, and how responses change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from minikafka.core.client.assignors.model import Assignor, Subscription
from minikafka.core.client.assignors.wire import (
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.core.client.offsets import NO_GENERATION, GroupMetadata
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
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
class GroupRebalanceConfig:
    """The consumer keys that concern group membership, under Kafka's names in snake case.

    ``strategy`` are the assignors in the order of preference.
    """

    group_id: str
    strategy: tuple[Assignor, ...]
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions while they join: only if all assignors are
        cooperative."""
        return all(assignor.cooperative for assignor in self.strategy)


class MemberState(Enum):
    """Kafka's ``AbstractCoordinator.MemberState``."""

    UNJOINED = auto()
    JOINING = auto()  # JoinGroup is in flight
    SYNCING = auto()  # the generation is known, the assignment is not yet
    STABLE = auto()


class Next(Enum):
    """The next step of a member after a response."""

    GO_ON = auto()
    AT_ONCE = auto()  # repeat the request at once
    LATER = auto()  # repeat the request after a backoff
    JOIN_AGAIN = auto()
    OTHER_COORDINATOR = auto()  # look the coordinator up, then repeat the request


class Membership:
    """The state of one member. It sends nothing: ``GroupMember`` sends its requests.

    ``rejoin_needed`` means that the member has to send JoinGroup. ``lost`` means that its
    generation has ended without it: other members may already own its partitions.
    """

    def __init__(self, config: GroupRebalanceConfig) -> None:
        self.config = config
        self.state = MemberState.UNJOINED
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.assignor: Assignor | None = None
        self.is_leader = False
        self.rejoin_needed = True
        self.rejoin_reason = "the first time"
        self.lost = False
        self.assigned: tuple[TopicPartition, ...] | None = (
            None  # for the assignors that remember it
        )
        self._members: Sequence[tuple[str, str | None, bytes]] = ()
        self._last_generation = NO_GENERATION  # of ``assigned``
        self._last_member_id = NO_MEMBER

    @property
    def last_owner(self) -> GroupMetadata:
        """Return this member as it was assigned its partitions, also when it has lost them since.
        The coordinator then rejects offsets of a transaction; without a generation it would not
        check them (KIP-447). Kafka's ``ConsumerCoordinator.groupMetadata``."""
        config = self.config
        return GroupMetadata(
            config.group_id, self._last_generation, self._last_member_id, config.group_instance_id
        )

    # -- joining

    def join_request(
        self, topics: Iterable[str], owned: Iterable[TopicPartition], rack_id: str | None = None
    ) -> JoinGroupRequest:
        """Build JoinGroup with a subscription for each assignor, and enter state JOINING.

        ``owned`` are the partitions that the member keeps; it is empty for an eager member.
        """
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

    def on_join(self, response: JoinGroupResponse) -> Next:
        """Process the JoinGroup response. Raises KafkaError for a final error."""
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            return self._joined(response)
        self.state = MemberState.UNJOINED
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return Next.AT_ONCE
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.lose("an unknown member id")
            return Next.AT_ONCE
        if code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS):
            return Next.LATER
        return _next_of_lost(code)

    def _joined(self, response: JoinGroupResponse) -> Next:
        names = {assignor.name: assignor for assignor in self.config.strategy}
        assignor = names.get(response.protocol_name or "")
        if assignor is None or response.protocol_type not in (None, PROTOCOL_TYPE):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the group agreed on {response.protocol_type or ''} {response.protocol_name}",
            )
        self.assignor = assignor
        self.state = MemberState.SYNCING
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.is_leader = response.leader == response.member_id and not response.skip_assignment
        self._members = [
            (row.member_id, row.group_instance_id, bytes(row.metadata)) for row in response.members
        ]
        self.rejoin_needed = False
        return Next.GO_ON

    def subscriptions(self) -> dict[str, Subscription]:
        """Return the subscriptions of all members by member id; only the leader has them.

        Raises DecodeError.
        """
        return {
            member: decode_subscription(metadata, instance)
            for member, instance, metadata in self._members
        }

    def sync_request(
        self, shares: Mapping[str, Sequence[TopicPartition]] | None = None
    ) -> SyncGroupRequest:
        """Build SyncGroup. The leader passes the partitions of every member in ``shares``."""
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

    def on_sync(self, response: SyncGroupResponse) -> Next:
        """Process the SyncGroup response. Raises KafkaError for a final error."""
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            if self.state is not MemberState.SYNCING:  # lost while the request was in flight
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
        """Store the member's assignment and its generation, for user data and the next
        subscription."""
        self.assigned = tuple(sorted(assigned))
        self._last_generation = self.generation
        self._last_member_id = self.member_id

    # -- staying

    @property
    def beats(self) -> bool:
        """Whether heartbeats have to be sent: while the member is in a generation and not
        joining."""
        return self.state in (MemberState.SYNCING, MemberState.STABLE)

    @property
    def heartbeat_interval_ms(self) -> int:
        return self.config.heartbeat_interval_ms

    @property
    def may_commit(self) -> bool:
        return self.generation != NO_GENERATION and self.state is not MemberState.UNJOINED

    def continues(self, generation: int) -> bool:
        """Whether a commit that began in ``generation`` may go on."""
        return self.may_commit and self.generation == generation

    def heartbeat_request(self) -> HeartbeatRequest:
        config = self.config
        return HeartbeatRequest(
            config.group_id, self.generation, self.member_id, config.group_instance_id
        )

    def on_heartbeat(self, code: ErrorCode, request: HeartbeatRequest) -> Next:
        """Process the error code of a Heartbeat response.

        It is ignored if ``request`` was sent in another generation. Raises KafkaError for a
        final error.
        """
        if (request.generation_id, request.member_id) != (self.generation, self.member_id):
            return Next.GO_ON
        if code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return Next.GO_ON
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.want_rejoin("the group is rebalancing")
            return Next.GO_ON
        return self._on_lost_generation(code)

    def on_commit(self, code: ErrorCode, generation: int) -> Next:
        """Process an error code of an offset commit that was sent in ``generation``.

        Raises KafkaError for a final error.
        """
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
        """Make the member send JoinGroup again. Only the first reason is sent to the
        coordinator."""
        if not self.rejoin_needed:
            self.rejoin_needed = True
            self.rejoin_reason = reason

    def lose(self, reason: str, keep_member_id: bool = False) -> None:
        """Leave the generation: from now on other members may own this member's partitions.

        Unless ``keep_member_id``, the member joins again without a member id.
        """
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
        """Build LeaveGroup; None if no request is needed.

        None for a consumer without a member id, and for a static member: it keeps its assignment
        until its session times out.
        """
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
