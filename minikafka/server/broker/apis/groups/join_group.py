"""JoinGroup (key 11): become a member, and wait for the others."""

from __future__ import annotations

from uuid import UUID

from minikafka.core.group.joining import JoinFacts
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Entropy
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.groups.member_guard import member_guard
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.ports import GroupCoordination
from minikafka.server.broker.quotas import Quota

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_THAT_REQUIRES_ID = 4
FIRST_VERSION_WITHOUT_PROTOCOL = 7  # null if none is chosen; before, an empty text
FIRST_VERSION_WITH_SKIP = 9
LONGEST_REASON = 255


class JoinGroupHandler:
    """Serves JoinGroup (an ``ImmediateHandler``).

    A new member id is the instance or client id and a random UUID."""

    def __init__(self, groups: GroupCoordination, entropy: Entropy) -> None:
        self._groups = groups
        self._entropy = entropy

    def __call__(self, context: RequestContext, request: JoinGroupRequest, reply: Reply) -> None:
        version = context.version
        instance = request.group_instance_id
        rebalance_timeout_ms = request.rebalance_timeout_ms
        if version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
            rebalance_timeout_ms = request.session_timeout_ms
        protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
        unique = UUID(bytes=self._entropy.random_bytes(16), version=4)
        facts = JoinFacts(
            request.member_id,
            instance,
            context.client_id,
            f"/{context.client_host}",
            rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            tuple(protocols.items()),
            f"{context.client_id if instance is None else instance}-{unique}",
            must_know_id=version >= FIRST_VERSION_THAT_REQUIRES_ID and instance is None,
            can_skip_assignment=version >= FIRST_VERSION_WITH_SKIP,
            reason=(request.reason or "not provided")[:LONGEST_REASON],
        )

        def respond(response: JoinGroupResponse) -> None:
            if version < FIRST_VERSION_WITHOUT_PROTOCOL:
                response.protocol_name = response.protocol_name or ""
            else:
                response.protocol_name = response.protocol_name or None
            reply(response)

        self._groups.join(request.group_id, facts, respond)


def _refused_join(version: int) -> JoinGroupResponse:
    named = "" if version < FIRST_VERSION_WITHOUT_PROTOCOL else None
    return JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=named)


JOIN_GROUP = Api(
    key=ApiKey.JOIN_GROUP,
    handler=lambda broker: JoinGroupHandler(broker.groups, broker.world.entropy),
    task=False,
    authorization=member_guard(_refused_join),
    quota=Quota.REQUESTS,
    changes_state=True,
)
