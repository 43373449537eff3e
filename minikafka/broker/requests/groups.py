"""The APIs of groups and their members (keys 11 to 16, 42)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from minikafka.broker.requests.authorized_operations import GROUP_OPERATIONS
from minikafka.broker.requests.routes import Reply, RequestContext
from minikafka.core.group.committing import CommitFacts
from minikafka.core.group.description import FetchedOffset
from minikafka.core.group.joining import JoinFacts
from minikafka.core.group.member import RespondJoin, RespondSync
from minikafka.core.group.result import RespondOffsets
from minikafka.core.group.syncing import SyncFacts
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.ports import Entropy
from minikafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from minikafka.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class GroupCoordination(Protocol):
    """The interface of the group coordinator for request handlers.

    ``respond`` arguments are called exactly once, now or later. Methods that return a response
    raise KafkaError for an error of the whole request."""

    def join(self, group_id: str, facts: JoinFacts, respond: RespondJoin) -> None: ...

    def sync(self, group_id: str, facts: SyncFacts, respond: RespondSync) -> None: ...

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode: ...

    def leave(
        self, group_id: str, identities: Sequence[MemberIdentity]
    ) -> list[MemberResponse]: ...

    def commit(self, group_id: str, facts: CommitFacts, respond: RespondOffsets) -> None: ...

    def partition_for(self, group_id: str) -> int: ...

    def fetch(
        self, group_id: str, topic_partitions: Sequence[TopicPartition], require_stable: bool
    ) -> list[FetchedOffset]: ...

    def fetch_all(self, group_id: str, require_stable: bool) -> list[FetchedOffset]: ...

    def delete_offsets(
        self, group_id: str, topic_partitions: Sequence[TopicPartition], respond: RespondOffsets
    ) -> None: ...

    def describe(self, group_id: str) -> DescribedGroup: ...

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]: ...

    def delete_groups(
        self, group_ids: Iterable[str], respond: Callable[[Mapping[str, ErrorCode]], None]
    ) -> None: ...


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


FIRST_VERSION_WITH_PROTOCOL = 5  # and requires it


class SyncGroupHandler:
    """Serves SyncGroup (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: SyncGroupRequest, reply: Reply) -> None:
        named = request.protocol_type is not None and request.protocol_name is not None
        if context.version >= FIRST_VERSION_WITH_PROTOCOL and not named:
            reply(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        facts = SyncFacts(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {given.member_id: given.assignment for given in request.assignments},
        )
        self._groups.sync(request.group_id, facts, reply)


class HeartbeatHandler:
    """Serves Heartbeat (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: HeartbeatRequest, reply: Reply) -> None:
        error = self._groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
        reply(HeartbeatResponse(error_code=error))


FIRST_VERSION_WITH_MANY_MEMBERS = 3


class LeaveGroupHandler:
    """Serves LeaveGroup (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: LeaveGroupRequest, reply: Reply) -> None:
        many = context.version >= FIRST_VERSION_WITH_MANY_MEMBERS
        leaving = request.members if many else [MemberIdentity(request.member_id)]
        responses = self._groups.leave(request.group_id, leaving)
        if many:
            reply(LeaveGroupResponse(members=responses))
        else:
            reply(LeaveGroupResponse(error_code=responses[0].error_code))


class DescribeGroupsHandler:
    """Serves DescribeGroups (an ``ImmediateHandler``).

    An unknown group is described as Dead."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(
        self, context: RequestContext, request: DescribeGroupsRequest, reply: Reply
    ) -> None:
        groups = [self._groups.describe(group_id) for group_id in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = GROUP_OPERATIONS
        reply(DescribeGroupsResponse(groups=groups))


class ListGroupsHandler:
    """Serves ListGroups (an ``ImmediateHandler``)."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: ListGroupsRequest, reply: Reply) -> None:
        error, groups = self._groups.list_groups(request.states_filter, request.types_filter)
        reply(ListGroupsResponse(error_code=error, groups=groups))


class DeleteGroupsHandler:
    """Serves DeleteGroups (an ``ImmediateHandler``).

    A group named twice has one result."""

    def __init__(self, groups: GroupCoordination) -> None:
        self._groups = groups

    def __call__(self, context: RequestContext, request: DeleteGroupsRequest, reply: Reply) -> None:
        def respond(errors: Mapping[str, ErrorCode]) -> None:
            results = [DeletableGroupResult(name, error) for name, error in errors.items()]
            reply(DeleteGroupsResponse(results=results))

        self._groups.delete_groups(request.groups_names, respond)
