"""Guards of APIs that need one operation on the cluster, and of the look-up of coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikafka.broker.requests.authorization.authorization import MESSAGES, Authorization
from minikafka.broker.requests.authorization.facts import GuardFacts
from minikafka.broker.requests.authorization.wrapping import Admitted, Guard, Serve, around, before
from minikafka.broker.requests.routes import RequestContext
from minikafka.broker.requests.security.acls import require_known_codes
from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.cluster import CoordinatorType
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.slices import Slices
from minikafka.protocol.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from minikafka.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotasResult,
    DescribeClientQuotasResponse,
)
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TEXT = MESSAGES[REFUSED]
NOBODY = -1  # the node and the port of a coordinator that is not told


def needs(operation: AclOperation) -> Guard:
    """Return the guard of an API that needs ``operation`` on the cluster. The error is at the top
    of the response."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        authorization.require_on_cluster(context, operation)
        return Admitted(request)

    return before(admit)


def needs_or(
    operation: AclOperation,
    refusal: Callable[[RequestContext, Any], Any],
    check: Callable[[Any], None] = lambda request: None,
) -> Guard:
    """Return the guard of an API that needs ``operation`` on the cluster, and is refused by the
    response that ``refusal`` makes. ``check`` raises for a request that cannot be read."""

    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        check(request)
        if authorization.on_cluster(context, operation):
            return Admitted(request)
        return Admitted(None, response=refusal(context, request))

    return before(admit)


def _checked(operation: AclOperation) -> Guard:
    async def admit(
        authorization: Authorization, context: RequestContext, request: Any
    ) -> Admitted:
        require_known_codes(request)
        authorization.require_on_cluster(context, operation)
        return Admitted(request)

    return before(admit)


# ------------------------------------------------------------------------------------------- ACLs

describe_acls = _checked(AclOperation.DESCRIBE)


def _refused_creations(_: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    row = AclCreationResult(REFUSED, TEXT)
    return CreateAclsResponse(results=[row] * len(request.creations))


def _refused_deletions(_: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    row = DeleteAclsFilterResult(REFUSED, TEXT)
    return DeleteAclsResponse(filter_results=[row] * len(request.filters))


create_acls = needs_or(AclOperation.ALTER, _refused_creations, require_known_codes)
delete_acls = needs_or(AclOperation.ALTER, _refused_deletions, require_known_codes)

# ---------------------------------------------------------------------------------- log directories

describe_log_dirs = needs_or(
    AclOperation.DESCRIBE, lambda _, __: DescribeLogDirsResponse(error_code=REFUSED)
)


async def _admit_moves(
    authorization: Authorization, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Admitted:
    if authorization.on_cluster(context, AclOperation.ALTER):
        return Admitted(request)
    rows, slices = [], Slices()
    topics = (topic for directory in request.dirs for topic in directory.topics)
    async for topic in slices.over(topics):
        partitions = [
            AlterReplicaLogDirPartitionResult(index, REFUSED)
            async for index in slices.over(topic.partitions)
        ]
        rows.append(AlterReplicaLogDirTopicResult(topic.name, partitions))
    return Admitted(None, response=AlterReplicaLogDirsResponse(results=rows))


alter_replica_log_dirs = before(_admit_moves)

# ---------------------------------------------------------------------------------------- elections


async def _admit_elections(
    authorization: Authorization, context: RequestContext, request: ElectLeadersRequest
) -> Admitted:
    if authorization.on_cluster(context, AclOperation.ALTER):
        return Admitted(request)
    rows, slices = [], Slices()
    async for topic in slices.over(request.topic_partitions or ()):
        partitions = [
            ElectLeadersPartitionResult(index, REFUSED, None)
            async for index in slices.over(topic.partitions)
        ]
        rows.append(ElectLeadersTopicResult(topic.topic, partitions))
    error = REFUSED if context.version > 0 else ErrorCode.NONE  # version 0 has no place for it
    response = ElectLeadersResponse(error_code=error, replica_election_results=rows)
    return Admitted(None, response=response)


elect_leaders = before(_admit_elections)


async def _admit_reassignments(
    authorization: Authorization,
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> Admitted:
    if authorization.on_cluster(context, AclOperation.ALTER):
        return Admitted(request)
    rows, slices = [], Slices()
    async for topic in slices.over(request.topics):
        partitions = [
            ReassignablePartitionResponse(partition.partition_index, REFUSED, TEXT)
            async for partition in slices.over(topic.partitions)
        ]
        rows.append(ReassignableTopicResponse(topic.name, partitions))
    response = AlterPartitionReassignmentsResponse(0, REFUSED, TEXT, rows)
    return Admitted(None, response=response)


alter_partition_reassignments = before(_admit_reassignments)

# ------------------------------------------------------------------------------ users and clients

describe_client_quotas = needs_or(
    AclOperation.DESCRIBE_CONFIGS,
    lambda _, __: DescribeClientQuotasResponse(0, REFUSED, None, None),
)


def _refused_quotas(
    _: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    rows = [AlteredQuotasResult(REFUSED, TEXT, row.entity) for row in request.entries]
    return AlterClientQuotasResponse(entries=rows)


alter_client_quotas = needs_or(AclOperation.ALTER_CONFIGS, _refused_quotas)


def _refused_credentials(
    _: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """As in Kafka the rows do not name the users."""
    row = DescribeUserScramCredentialsResult("", REFUSED, None)
    rows = [row] * len(request.users or ())
    return DescribeUserScramCredentialsResponse(0, REFUSED, None, rows)


describe_user_scram_credentials = needs_or(AclOperation.DESCRIBE, _refused_credentials)


def alter_user_scram_credentials(facts: GuardFacts) -> Guard:
    async def admit(
        authorization: Authorization,
        context: RequestContext,
        request: AlterUserScramCredentialsRequest,
    ) -> Admitted:
        if not facts.is_controller() or authorization.on_cluster(context, AclOperation.ALTER):
            return Admitted(request)
        users = {row.name for row in request.deletions} | {row.name for row in request.upsertions}
        rows = [AlterUserScramCredentialsResult(user, REFUSED, None) for user in sorted(users)]
        return Admitted(None, response=AlterUserScramCredentialsResponse(results=rows))

    return before(admit)


# ----------------------------------------------------------------------------- cluster, coordinator


async def _filter_cluster(
    authorization: Authorization,
    context: RequestContext,
    request: DescribeClusterRequest,
    serve: Serve,
) -> DescribeClusterResponse:
    wants_operations = request.include_cluster_authorized_operations
    request.include_cluster_authorized_operations = False
    response: DescribeClusterResponse = await serve(request)
    if wants_operations and response.error_code == ErrorCode.NONE:
        response.cluster_authorized_operations = await authorization.cluster_operations(context)
    return response


describe_cluster = around(_filter_cluster)

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6


async def _admit_coordinator(
    authorization: Authorization, context: RequestContext, request: FindCoordinatorRequest
) -> Admitted:
    is_many = context.version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if is_many else [request.key]
    error, allowed = await _allowed_keys(authorization, context, request.key_type, keys)
    kept = [key for key in keys if key in allowed]
    if len(kept) == len(keys):
        return Admitted(request)
    if not is_many:
        refusal = FindCoordinatorResponse(
            error_code=error, error_message=MESSAGES[error], node_id=NOBODY, port=NOBODY
        )
        return Admitted(None, response=refusal)
    request.coordinator_keys = kept

    def join(response: Any) -> Any:
        if isinstance(response, FindCoordinatorResponse):
            found = iter(response.coordinators)
            response.coordinators = [
                next(found) if key in allowed else Coordinator(key, NOBODY, "", NOBODY, error)
                for key in keys
            ]
        return response

    return Admitted(request, join)


async def _allowed_keys(
    authorization: Authorization, context: RequestContext, key_type: int, keys: list[str]
) -> tuple[ErrorCode, set[str]]:
    """Return the error of the keys that are not allowed, and those that are."""
    if key_type == CoordinatorType.GROUP:
        error, kind = ErrorCode.GROUP_AUTHORIZATION_FAILED, AclResourceType.GROUP
    elif key_type == CoordinatorType.TRANSACTION:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        kind = AclResourceType.TRANSACTIONAL_ID
    elif key_type == CoordinatorType.SHARE and context.version >= FIRST_VERSION_WITH_SHARE_GROUPS:
        action = AclOperation.CLUSTER_ACTION
        return REFUSED, {key for key in keys if authorization.on_cluster(context, action)}
    else:
        return REFUSED, set(keys)
    return error, await authorization.allowed(context, AclOperation.DESCRIBE, kind, keys)


find_coordinator = before(_admit_coordinator)
