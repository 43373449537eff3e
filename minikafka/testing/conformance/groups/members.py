"""Members of groups, as the checks of several files play them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey
from minikafka.testing.conformance.connection import Connection
from minikafka.testing.conformance.expectations import NotOffered, accepted
from minikafka.testing.conformance.subject import Subject, Versions, pause

SESSION_MS = 10_000
REBALANCE_MS = 10_000
PROTOCOLS = ("range",)


def subscription(name: str) -> bytes:
    """Return a subscription to no topic (ConsumerProtocolSubscription, version 0) with this text as
    its user data: Kafka's coordinator reads subscriptions."""
    return b"\0\0" + bytes(4) + len(name).to_bytes(4, "big") + name.encode()


class ScriptedMember:
    """A member of a classic group with a connection of its own, so that it can wait in JoinGroup.

    ``fields`` are more fields of JoinGroup, such as the group instance id."""

    def __init__(self, s: Subject, group: str, **fields: Any) -> None:
        self.s, self.group = s, group
        self.fields = fields
        self.member_id = ""
        self.generation = -1
        self._connection: Connection | None = None

    async def connection(self) -> Connection:
        if self._connection is None:
            self._connection = await self.s.connect(await self.s.coordinator_address(self.group))
        return self._connection

    async def try_join(
        self, versions: Versions = 1, protocols: Sequence[str] = PROTOCOLS, **fields: Any
    ) -> Any:
        """Send JoinGroup once and return its response."""
        request: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": subscription(name)} for name in protocols],
        }
        request |= {**self.fields, **fields}
        at = await self.connection()
        response = await self.s.ask(ApiKey.JOIN_GROUP, versions, at, **request)
        if response.member_id:
            self.s.at_end(partial(self._remove, response.member_id))
        return response

    async def join(self, versions: Versions = 1, **fields: Any) -> Any:
        """Join, with the member id that the coordinator demands (KIP-394), and again without one
        that it has forgotten, as clients do. Raises Broken for another error."""
        while True:
            response = await self.try_join(versions, **fields)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                await pause()
            else:
                break
        accepted(response)
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    async def sync(self, assignments: dict[str, bytes] | None = None, **fields: Any) -> Any:
        """Send SyncGroup; a leader has ``assignments`` by member id."""
        rows = [
            {"member_id": each, "assignment": data} for each, data in (assignments or {}).items()
        ]
        request = {
            "generation_id": self.generation,
            "assignments": rows,
            **self._identity,
            **fields,
        }
        if self.s.version(ApiKey.SYNC_GROUP) >= 5 and "protocol_type" not in request:
            request |= {"protocol_type": "consumer", "protocol_name": PROTOCOLS[0]}
        return await self.s.ask(ApiKey.SYNC_GROUP, 0, await self.connection(), **request)

    async def heartbeat(self, **fields: Any) -> int:
        request = {"generation_id": self.generation, **self._identity, **fields}
        at = await self.connection()
        response = await self.s.ask(ApiKey.HEARTBEAT, 0, at, **request)
        return int(response.error_code)

    async def leave(self) -> int:
        return await self._remove(self.member_id)

    async def _remove(self, member_id: str) -> int:
        """Leave by a connection that no join of the member holds up. Return the error."""
        version = self.s.version(ApiKey.LEAVE_GROUP)
        row = {"member_id": member_id}
        member: dict[str, Any] = {"members": [row]} if version >= 3 else row
        at = await self.s.coordinator(self.group)
        response = await self.s.ask(ApiKey.LEAVE_GROUP, 0, at, group_id=self.group, **member)
        row_error = response.members[0].error_code if version >= 3 else 0
        return int(response.error_code or row_error)

    @property
    def _identity(self) -> dict[str, Any]:
        identity: dict[str, Any] = {"group_id": self.group, "member_id": self.member_id}
        if "group_instance_id" in self.fields:
            identity["group_instance_id"] = self.fields["group_instance_id"]
        return identity


async def stable(s: Subject, group: str, assignment: bytes = b"all") -> ScriptedMember:
    """Return the only member of a new group that is stable."""
    member = ScriptedMember(s, group)
    await member.join()
    accepted(await member.sync({member.member_id: assignment}))
    return member


def refused_as_switched_off(response: Any, what: str) -> Any:
    """Return the response of a heartbeat. Raises NotOffered if the broker has the API, and the
    protocol is switched off."""
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise NotOffered(what)
    return response
