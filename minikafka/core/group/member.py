"""One member of a group: its subscription, its assignment, its parked requests."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from minikafka.protocol.messages.join_group import JoinGroupResponse
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
