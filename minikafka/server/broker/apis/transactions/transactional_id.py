"""What the APIs of transactional ids share: the right to write, and the errors of old clients."""

from __future__ import annotations

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.kernel.errors import ErrorCode
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.request import RequestContext

FIRST_VERSION_WITH_PRODUCER_FENCED = 4
NO_PRODUCER = -1


def as_known_to(version: int, error: ErrorCode, first_with_fenced: int = 2) -> ErrorCode:
    """Return INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED for versions below
    ``first_with_fenced``."""
    if error is ErrorCode.PRODUCER_FENCED and version < first_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def may_write(authorization: Authorization, context: RequestContext, name: str) -> bool:
    return authorization.is_allowed(
        context, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name
    )
