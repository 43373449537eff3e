"""Guards of groups and of their offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.broker.requests.authorization.authorization import Authorization, denied
from minikafka.broker.requests.authorization.rows import TopicRows, Verdict, split
from minikafka.broker.requests.authorization.wrapping import Admitted, Guard, Serve, around, before
from minikafka.broker.requests.routes import RequestContext
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.messages import offset_commit, offset_delete, offset_fetch
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
from minikafka.protocol.messages.heartbeat import HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.messages.leave_group import LeaveGroupResponse
from minikafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from minikafka.protocol.messages.sync_group import SyncGroupResponse

REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
GROUP, TOPIC = AclResourceType.GROUP, AclResourceType.TOPIC
FIRST_VERSION_WITHOUT_PROTOCOL = 7


def _member_guard(refusal: Callable[[int], Any]) -> Guard:
    """Return the guard of a request of a group's member, which needs READ on the group. ``refusal``
    makes the response of a version."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        if authorization.is_allowed(context, AclOperation.READ, GROUP, request.group_id):
            return Admitted(request)
        return Admitted(None, response=refusal(context.version))

    return before(admit)


def _refused_join(version: int) -> JoinGroupResponse:
    named = "" if version < FIRST_VERSION_WITHOUT_PROTOCOL else None
    return JoinGroupResponse(error_code=REFUSED, protocol_name=named)


join = _member_guard(_refused_join)
sync = _member_guard(lambda _: SyncGroupResponse(error_code=REFUSED))
heartbeat = _member_guard(lambda _: HeartbeatResponse(error_code=REFUSED))
leave = _member_guard(lambda _: LeaveGroupResponse(error_code=REFUSED))


async def _filter_description(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeGroupsRequest,
    serve: Serve,
) -> DescribeGroupsResponse:
    names = request.groups
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, GROUP, names)
    refused = [DescribedGroup(REFUSED, name) for name in names if name not in allowed]
    request.groups = [name for name in names if name in allowed]
    with_operations, request.include_authorized_operations = (
        request.include_authorized_operations,
        False,
    )
    response: DescribeGroupsResponse = await serve(request)
    if with_operations:
        described = [group for group in response.groups if group.error_code == ErrorCode.NONE]
        fields = await authorization.operations(context, GROUP, [g.group_id for g in described])
        for group in described:
            group.authorized_operations = fields[group.group_id]
    response.groups = refused + response.groups
    return response


description = around(_filter_description)


async def _filter_listing(
    authorization: Authorization, context: RequestContext, request: ListGroupsRequest, serve: Serve
) -> ListGroupsResponse:
    """DESCRIBE on the cluster shows all groups; otherwise those are listed that the principal may
    describe."""
    shows_all = authorization.on_cluster(context, AclOperation.DESCRIBE, log_if_denied=False)
    response: ListGroupsResponse = await serve(request)
    if not shows_all:
        names = [group.group_id for group in response.groups]
        allowed = await authorization.allowed(
            context, AclOperation.DESCRIBE, GROUP, names, log_if_denied=False
        )
        response.groups = [group for group in response.groups if group.group_id in allowed]
    return response


listing = around(_filter_listing)


async def _admit_deletion(
    authorization: Authorization, context: RequestContext, request: DeleteGroupsRequest
) -> Admitted:
    names = list(dict.fromkeys(request.groups_names))
    allowed = await authorization.allowed(context, AclOperation.DELETE, GROUP, names)
    rows = [DeletableGroupResult(name, REFUSED) for name in names if name not in allowed]
    if not rows:
        return Admitted(request)
    request.groups_names = [name for name in names if name in allowed]
    if not request.groups_names:
        return Admitted(None, response=DeleteGroupsResponse(results=rows))

    def joined(response: Any) -> Any:
        if isinstance(response, DeleteGroupsResponse):
            response.results = response.results + rows
        return response

    return Admitted(request, joined)


deletion = before(_admit_deletion)


# --------------------------------------------------------------------------------- their offsets

_COMMIT = TopicRows(
    offset_commit.OffsetCommitResponse,
    offset_commit.OffsetCommitResponseTopic,
    lambda row, error: offset_commit.OffsetCommitResponsePartition(row.partition_index, error),
)


async def _reads_group(
    authorization: Authorization,
    context: RequestContext,
    request: offset_commit.OffsetCommitRequest,
) -> Verdict | ErrorCode:
    if authorization.is_allowed(context, AclOperation.READ, GROUP, request.group_id):
        return Verdict.TOPICS_DECIDE
    return REFUSED


commit_of_offsets = before(_COMMIT.gate(AclOperation.READ, _reads_group))

_DELETE = TopicRows(
    offset_delete.OffsetDeleteResponse,
    offset_delete.OffsetDeleteResponseTopic,
    lambda row, error: offset_delete.OffsetDeleteResponsePartition(row.partition_index, error),
)


async def _deletes_group(
    authorization: Authorization,
    context: RequestContext,
    request: offset_delete.OffsetDeleteRequest,
) -> Verdict:
    if not authorization.is_allowed(context, AclOperation.DELETE, GROUP, request.group_id):
        raise denied(REFUSED)
    return Verdict.TOPICS_DECIDE


deletion_of_offsets = before(_DELETE.gate(AclOperation.READ, _deletes_group, answers_alone=False))

FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_MANY_GROUPS = 8
_FETCH = TopicRows(
    offset_fetch.OffsetFetchResponse,
    offset_fetch.OffsetFetchResponseTopic,
    lambda index, error: offset_fetch.OffsetFetchResponsePartition(index, -1, error_code=error),
    partitions="partition_indexes",
)
_FETCH_OF_GROUP = TopicRows(
    offset_fetch.OffsetFetchResponseGroup,
    offset_fetch.OffsetFetchResponseTopics,
    lambda index, error: offset_fetch.OffsetFetchResponsePartitions(index, -1, error_code=error),
    partitions="partition_indexes",
)


async def _filter_fetched_offsets(
    authorization: Authorization,
    context: RequestContext,
    request: offset_fetch.OffsetFetchRequest,
    serve: Serve,
) -> offset_fetch.OffsetFetchResponse:
    """DESCRIBE is needed on the groups, and on the topics. Topics of a request for all offsets are
    left out if they are not allowed."""
    if context.version >= FIRST_VERSION_WITH_MANY_GROUPS:
        return await _filter_groups(authorization, context, request, serve)
    if not authorization.is_allowed(context, AclOperation.DESCRIBE, GROUP, request.group_id):
        if context.version == 0:
            response: offset_fetch.OffsetFetchResponse = await _FETCH.refuse_all(request, REFUSED)
            return response
        # Version 1 has no field for the error: as in Kafka it gets an empty response.
        error = REFUSED if context.version >= FIRST_VERSION_WITH_ERROR else ErrorCode.NONE
        return offset_fetch.OffsetFetchResponse(error_code=error)
    refused = await _take_refused_topics(authorization, context, request)
    is_all = request.topics is None
    response = await serve(request)
    if response.error_code == ErrorCode.NONE:
        rows = await _FETCH.refused(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        response.topics = response.topics + rows
        if is_all:
            await _leave_out(authorization, context, response)
    return response


async def _filter_groups(
    authorization: Authorization,
    context: RequestContext,
    request: offset_fetch.OffsetFetchRequest,
    serve: Serve,
) -> offset_fetch.OffsetFetchResponse:
    groups = request.groups
    names = [group.group_id for group in groups]
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, GROUP, names)
    request.groups = [group for group in groups if group.group_id in allowed]
    refused = [
        await _take_refused_topics(authorization, context, group) for group in request.groups
    ]
    is_all = [group.topics is None for group in request.groups]
    response: offset_fetch.OffsetFetchResponse = await serve(request)
    for group, topics, leaves_out in zip(response.groups, refused, is_all, strict=True):
        if group.error_code == ErrorCode.NONE:
            rows = await _FETCH_OF_GROUP.refused(topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            group.topics = group.topics + rows
            if leaves_out:
                await _leave_out(authorization, context, group)
    served = iter(response.groups)
    response.groups = [
        next(served)
        if name in allowed
        else offset_fetch.OffsetFetchResponseGroup(name, error_code=REFUSED)
        for name in names
    ]
    return response


async def _take_refused_topics(
    authorization: Authorization, context: RequestContext, asked: Any
) -> list[Any]:
    """Remove the topics that are not allowed from a request or a group of it, and return them."""
    if asked.topics is None:
        return []
    names = [topic.name for topic in asked.topics]
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, TOPIC, names)
    asked.topics, refused = await split(asked.topics, "name", allowed)
    return refused


async def _leave_out(authorization: Authorization, context: RequestContext, found: Any) -> None:
    """Remove the topics that are not allowed from a response or a group of it."""
    names = [topic.name for topic in found.topics]
    allowed = await authorization.allowed(context, AclOperation.DESCRIBE, TOPIC, names)
    found.topics, _ = await split(found.topics, "name", allowed)


fetch_of_offsets = around(_filter_fetched_offsets)
