"""One member of a group: what it asked for, what it got, what of it is waiting."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

# By what the shell knows a request that waits for its answer; nothing here looks into it.
Ticket: TypeAlias = object

# Name and metadata of each, by preference.
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


class Member:
    """``beats`` counts its signs of life: a heartbeat timer that was started at an earlier one is
    over. ``is_new`` until its first generation is complete."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "beats",
        "client_host",
        "client_id",
        "group_instance_id",
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
        self.awaiting_join: Ticket | None = None
        self.awaiting_sync: Ticket | None = None
        self.beats = 0
        self.is_new = False

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    def keeps_alive(self, beat: int) -> bool:
        """Whether the timer started at ``beat`` has nothing to say any more: there was a later
        sign of life, or the member waits for an answer of ours. One that is new has to be heard of
        even so: nobody can tell whether it is still there."""
        if self.beats != beat:
            return True
        waits = self.awaiting_join is not None or self.awaiting_sync is not None
        return waits and not self.is_new

    def metadata(self, protocol: str) -> bytes:
        """What it says under ``protocol``, which it must support."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Container[str]) -> str:
        """The one it likes best among ``candidates``."""
        return next(name for name, _ in self.protocols if name in candidates)
