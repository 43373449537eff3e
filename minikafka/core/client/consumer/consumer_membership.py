"""A member of a consumer group of KIP-848: its heartbeats, and how responses change it.

The coordinator assigns partitions in the responses to heartbeats. The member gives up what it is
no longer assigned, takes what is new, and says in its next heartbeat what it owns now. Only then
may the coordinator assign to others what the member gave up. Kafka: ``ConsumerMembershipManager``,
``ConsumerHeartbeatRequestManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.client.consumer.membership import Next
from minikafka.core.client.errors import LOST_COORDINATOR
from minikafka.core.client.offsets import NO_GENERATION, GroupMetadata
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.consumer_group_heartbeat import (
    JOINS,
    LEAVES,
    LEAVES_FOR_NOW,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

IdPartition: TypeAlias = tuple[UUID, int]  # topic id and partition

_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


@dataclass(frozen=True, slots=True)
class ConsumerMembershipConfig:
    """The consumer keys that concern the membership, under Kafka's names in snake case.

    ``group_remote_assignor`` None lets the coordinator choose the assignor.
    """

    group_id: str
    group_instance_id: str | None = None
    max_poll_interval_ms: int = 300_000
    group_remote_assignor: str | None = None
    client_rack: str | None = None


class ConsumerMemberState(Enum):
    """OUT: not in the group. IN: joining or joined, so it heartbeats. LEAVING: it has sent its last
    heartbeat, and waits for the response."""

    OUT = auto()
    IN = auto()
    LEAVING = auto()


class _Sent(NamedTuple):
    """What the coordinator has been sent; the next heartbeat has only what differs. ``owned`` is
    None from an assignment on until the member has revoked what it has to: then it says what it
    owns, even if that is the same, since the coordinator may wait for the revocation of partitions
    that the member was assigned and has never owned."""

    topics: tuple[str, ...]
    regex: str
    owned: frozenset[IdPartition] | None


class ConsumerMembership:
    """The state of one member. It sends nothing: ``ConsumerMember`` sends its requests.

    ``owned`` are the partitions that the member consumes. ``lost`` means that the coordinator has
    removed the member, or that it left without giving up its partitions: other members may already
    own them. The owner of the partitions gives them up and calls ``join`` after that.
    ``member_id`` stays the same for the life of the consumer (KIP-1082).
    """

    def __init__(self, config: ConsumerMembershipConfig, member_id: str) -> None:
        self.config = config
        self.member_id = member_id
        self.state = ConsumerMemberState.OUT
        self.epoch = JOINS
        self.lost = False
        self.heartbeat_interval_ms = 0  # as the last response says
        self.owned: dict[IdPartition, TopicPartition] = {}
        self._assigned: frozenset[IdPartition] | None = None  # None until it is known
        self._reports = False  # whether ``take`` has to return, even if nothing is added
        self._sent: _Sent | None = None  # None: the next heartbeat says all
        self._in_flight: ConsumerGroupHeartbeatRequest | None = None
        self._had_regex = False
        self._last_epoch = NO_GENERATION

    @property
    def last_owner(self) -> GroupMetadata:
        """Return this member with its last epoch, see ``Membership.last_owner``."""
        config = self.config
        return GroupMetadata(
            config.group_id, self._last_epoch, self.member_id, config.group_instance_id
        )

    @property
    def generation(self) -> int:
        """The member epoch; -1 while the member has none."""
        return self.epoch if self.epoch > JOINS else NO_GENERATION

    @property
    def beats(self) -> bool:
        return self.state is ConsumerMemberState.IN

    @property
    def may_commit(self) -> bool:
        return self.epoch > JOINS

    def continues(self, generation: int) -> bool:
        """Whether a commit that began in the epoch ``generation`` may go on.

        It may: the epoch rises while the member keeps its partitions. Only ``join`` ends that, and
        the application does not join during its own commit.
        """
        return self.may_commit

    # -- heartbeats

    def join(self) -> None:
        """Start to heartbeat, with epoch 0."""
        assert self.state is ConsumerMemberState.OUT
        self.state = ConsumerMemberState.IN
        self._reports = True

    def heartbeat_request(
        self, topics: Iterable[str], regex: str = ""
    ) -> ConsumerGroupHeartbeatRequest:
        """Build the next heartbeat: all that the coordinator has to know, or what has changed.

        ``regex`` is a regular expression that the coordinator resolves, "" without one.
        """
        config, sent = self.config, self._sent
        revokes = sent is not None and sent.owned is None and self.to_revoke()
        owned = None if revokes else frozenset(self.owned)
        new = _Sent(tuple(sorted(topics)), regex, owned)
        self._had_regex = self._had_regex or bool(regex)
        request = ConsumerGroupHeartbeatRequest(
            config.group_id, self.member_id, self.epoch, config.group_instance_id
        )
        if sent is None:
            request.rack_id = config.client_rack
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.server_assignor = config.group_remote_assignor
        if sent is None or new.topics != sent.topics:
            request.subscribed_topic_names = list(new.topics)
        # "" takes back one that was sent before. Version 0 has none.
        if self._had_regex and (sent is None or regex != sent.regex):
            request.subscribed_topic_regex = regex
        if owned is not None and (sent is None or owned != sent.owned):
            request.topic_partitions = [
                TopicPartitions(topic_id, partitions)
                for topic_id, partitions in grouped(sorted(owned)).items()
            ]
        self._sent, self._in_flight = new, request
        return request

    def has_sent(self, topics: Iterable[str], regex: str) -> bool:
        """Whether the last heartbeat had this subscription."""
        return self._sent is not None and self._sent[:2] == (tuple(sorted(topics)), regex)

    def on_failure(self) -> None:
        """Note that a heartbeat got no response: the next one says all."""
        self._sent = self._in_flight = None

    def on_heartbeat(
        self, response: ConsumerGroupHeartbeatResponse, request: ConsumerGroupHeartbeatRequest
    ) -> Next:
        """Process the response to ``request``. Raises KafkaError for a final error.

        It is ignored if the member has left, or was lost, since the request was sent.
        """
        if request is not self._in_flight:
            return Next.GO_ON
        self._in_flight = None
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            self._accept(response)
            return Next.GO_ON
        self._sent = None
        if code in LOST_COORDINATOR:
            return Next.OTHER_COORDINATOR
        # Topics may become readable: Kafka's consumer stays in the group, and ``poll`` raises.
        if code.retriable or code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return Next.LATER
        self.lose(code.name)
        # The first heartbeat gets this one from a group of another type.
        is_forgotten = code is ErrorCode.GROUP_ID_NOT_FOUND and request.member_epoch > JOINS
        if code in _FENCED or is_forgotten:
            return Next.JOIN_AGAIN
        raise KafkaError(code, response.error_message)

    def _accept(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = self._last_epoch = response.member_epoch
        self.member_id = response.member_id or self.member_id
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self._assigned = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
            if self._sent is not None:
                self._sent = self._sent._replace(owned=None)

    def on_commit(self, code: ErrorCode, generation: int) -> Next:
        """Process an error code of an offset commit. Raises KafkaError for a final error.

        After STALE_MEMBER_EPOCH the commit is repeated with a newer epoch, which comes with the
        next heartbeat. A lost membership is left to the heartbeats, as in Kafka.
        """
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            return Next.JOIN_AGAIN
        if code in LOST_COORDINATOR:
            return Next.OTHER_COORDINATOR
        if code.retriable or code is ErrorCode.STALE_MEMBER_EPOCH:
            return Next.LATER
        raise KafkaError(code)

    # -- reconciliation

    def to_revoke(self) -> dict[IdPartition, TopicPartition]:
        """Return the owned partitions that the member is no longer assigned."""
        assigned = self._assigned
        if assigned is None:
            return {}
        return {key: tp for key, tp in self.owned.items() if key not in assigned}

    def release(self, partitions: Iterable[IdPartition]) -> None:
        """Own these no more: they have been given up."""
        for key in partitions:
            self.owned.pop(key, None)
        self._reports = True

    def take(self, names: Mapping[UUID, str]) -> list[TopicPartition] | None:
        """Own the assigned partitions whose topics are in ``names``, and return the new ones.

        The other ones wait for newer metadata. Return None if nothing has changed since the last
        call: the listener is not called, and no heartbeat is due. An empty list is returned after
        a revocation, and for a member that has joined and is assigned nothing.
        """
        if self._assigned is None:
            return None
        missing = self._assigned - self.owned.keys()
        new = {key: TopicPartition(names[key[0]], key[1]) for key in missing if key[0] in names}
        waits = bool(missing) and not self.owned and not new
        if not new and (waits or not self._reports):
            return None
        self._reports = False
        self.owned |= new
        return sorted(new.values())

    def lacks_names(self, names: Mapping[UUID, str]) -> bool:
        """Whether partitions are assigned whose topics are not in ``names``."""
        missing = (self._assigned or frozenset()) - self.owned.keys()
        return any(topic_id not in names for topic_id, _ in missing)

    # -- the end

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Build the last heartbeat; None if the member is not in the group. It heartbeats no more
        from now on.

        A static member leaves for now: it gets its partitions again if it returns in time.
        """
        if self.state is not ConsumerMemberState.IN:
            return None
        self.state, self._in_flight = ConsumerMemberState.LEAVING, None
        instance = self.config.group_instance_id
        epoch = LEAVES if instance is None else LEAVES_FOR_NOW
        return ConsumerGroupHeartbeatRequest(self.config.group_id, self.member_id, epoch, instance)

    def lose(self, reason: str) -> None:
        """Leave the group: from now on other members may own this member's partitions.

        ``reason`` is for readers of the caller only: the protocol has no field for it.
        """
        self.lost = self.lost or self.epoch > JOINS
        self.state = ConsumerMemberState.OUT
        self.epoch = JOINS
        self.owned = {}
        self._assigned = self._sent = self._in_flight = None
