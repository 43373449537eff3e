"""JoinGroup (key 11)."""

from __future__ import annotations

from uuid import UUID

from minikafka.broker.context import Reply, RequestContext
from minikafka.broker.group_coordination import GroupCoordination
from minikafka.core.group.joining import JoinFacts
from minikafka.kernel.ports import Entropy
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_THAT_REQUIRES_ID = 4
FIRST_VERSION_WITHOUT_PROTOCOL = 7  # null where none is chosen
FIRST_VERSION_WITH_SKIP = 9
LONGEST_REASON = 255


class JoinGroupHandler:
    """An ImmediateHandler. A member's id is its instance or client id and a random UUID."""

    def __init__(self, groups: GroupCoordination, entropy: Entropy) -> None:
        self._groups = groups
        self._entropy = entropy

    def __call__(self, context: RequestContext, request: JoinGroupRequest, reply: Reply) -> None:
        version = context.version
        instance = request.group_instance_id
        patience_ms = request.rebalance_timeout_ms
        if version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
            patience_ms = request.session_timeout_ms
        protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
        unique = UUID(bytes=self._entropy.random_bytes(16), version=4)
        facts = JoinFacts(
            request.member_id,
            instance,
            context.client_id,
            f"/{context.client_host}",
            patience_ms,
            request.session_timeout_ms,
            request.protocol_type,
            tuple(protocols.items()),
            f"{context.client_id if instance is None else instance}-{unique}",
            must_know_id=version >= FIRST_VERSION_THAT_REQUIRES_ID and instance is None,
            can_skip_assignment=version >= FIRST_VERSION_WITH_SKIP,
            reason=(request.reason or "not provided")[:LONGEST_REASON],
        )

        def answer(response: JoinGroupResponse) -> None:
            if version < FIRST_VERSION_WITHOUT_PROTOCOL:
                response.protocol_name = response.protocol_name or ""
            else:
                response.protocol_name = response.protocol_name or None
            reply(response)

        self._groups.join(request.group_id, facts, answer)
