"""Questions of guards to the authorizer (Kafka's ``AuthHelper``).

Without an authorizer any client may do everything, also in the bit fields of KIP-430.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from minikafka.core.security.acls import (
    CLUSTER,
    SUPPORTED_OPERATIONS,
    AclOperation,
    AclResourceType,
    ResourcePattern,
    bit_field,
)
from minikafka.core.security.authorizer import AclAction, Authorizer, Requester
from minikafka.core.security.hosts import java_address
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import EventLog, event_log
from minikafka.kernel.slices import in_slices
from minikafka.protocol.api_keys import ApiKey
from minikafka.server.broker.apis.request import RequestContext

ASKED_TOGETHER: Final = 100  # names in one call of the authorizer
MAX_ADDRESSES: Final = 4_096  # of clients, remembered in Java's form
_API_NAMES: Final[Mapping[int, str]] = MappingProxyType({key: key.api_name for key in ApiKey})
# Kafka's messages, where a response has a field for them.
MESSAGES: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    }
)


def denied(error: ErrorCode) -> KafkaError:
    """Return the error of a whole request."""
    return KafkaError(error, MESSAGES[error])


class Authorization:
    """Asks the authorizer about the principal of a request.

    An exception of the authorizer denies the operation, and is logged as ``authorizer_failed``. A
    question about many names is asked in slices."""

    def __init__(self, authorizer: Authorizer, log: EventLog | None = None) -> None:
        self.authorizer = authorizer
        self._log = log or event_log("authorizer")
        self._addresses: dict[str, str] = {}

    def requester(self, context: RequestContext) -> Requester:
        header, host = context.header, context.client_host
        if ":" in host:
            host = self._java_address(host)
        return Requester(
            context.principal,
            host,
            _API_NAMES[header.api_key],
            header.api_version,
            context.listener,
            header.client_id or "",
        )

    def _java_address(self, host: str) -> str:
        found = self._addresses.get(host)
        if found is None:
            if len(self._addresses) >= MAX_ADDRESSES:
                self._addresses.clear()
            found = self._addresses[host] = java_address(host)
        return found

    def is_allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        resource = ResourcePattern(resource_type, name)
        action = AclAction(operation, resource, 1, True, log_if_denied)
        return self._ask(self.requester(context), [action])[0]

    def on_cluster(
        self, context: RequestContext, operation: AclOperation, *, log_if_denied: bool = True
    ) -> bool:
        action = AclAction(operation, CLUSTER, 1, True, log_if_denied)
        return self._ask(self.requester(context), [action])[0]

    def require_on_cluster(self, context: RequestContext, operation: AclOperation) -> None:
        """Raise KafkaError(CLUSTER_AUTHORIZATION_FAILED) unless the operation is allowed."""
        if not self.on_cluster(context, operation):
            raise denied(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def may_follow(self, context: RequestContext) -> bool:
        """Return whether the client may fetch as a replica (see ``FetchAuthorization``)."""
        return self.on_cluster(context, AclOperation.CLUSTER_ACTION)

    async def readable(self, context: RequestContext, topics: Iterable[str]) -> set[str]:
        """Return the topics that the client may read (see ``FetchAuthorization``)."""
        names = list(topics)
        return await self.allowed(context, AclOperation.READ, AclResourceType.TOPIC, names)

    def on_any(
        self, context: RequestContext, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the operation is allowed on some resource of the type."""
        requester = self.requester(context)
        try:
            return bool(self.authorizer.authorize_by_type(requester, operation, resource_type))
        except Exception as error:
            self._failed(requester, error)
            return False

    async def allowed(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: AclResourceType,
        names: Sequence[str],
        *,
        log_if_denied: bool = True,
    ) -> set[str]:
        """Return the names of the resources on which the operation is allowed. A name may be given
        several times."""
        if len(names) == 1:  # most requests; the rest costs as much again
            is_allowed = self.is_allowed(
                context, operation, resource_type, names[0], log_if_denied=log_if_denied
            )
            return set(names) if is_allowed else set()
        references = Counter(names)
        requester = self.requester(context)
        found: set[str] = set()
        wanted = list(references)
        async for start in in_slices(range(0, len(wanted), ASKED_TOGETHER), look_every=1):
            some = wanted[start : start + ASKED_TOGETHER]
            actions = [
                AclAction(
                    operation,
                    ResourcePattern(resource_type, name),
                    references[name],
                    True,
                    log_if_denied,
                )
                for name in some
            ]
            answers = self._ask(requester, actions)
            found.update(name for name, is_allowed in zip(some, answers, strict=True) if is_allowed)
        return found

    async def operations(
        self, context: RequestContext, resource_type: AclResourceType, names: Iterable[str]
    ) -> dict[str, int]:
        """Return the operations that are allowed on each resource, as bit fields (KIP-430)."""
        supported = SUPPORTED_OPERATIONS[resource_type]
        requester = self.requester(context)
        fields: dict[str, int] = {}
        async for name in in_slices(dict.fromkeys(names)):
            resource = ResourcePattern(resource_type, name)
            actions = [AclAction(operation, resource, 1, False, False) for operation in supported]
            answers = self._ask(requester, actions)
            fields[name] = bit_field(
                operation
                for operation, is_allowed in zip(supported, answers, strict=True)
                if is_allowed
            )
        return fields

    async def cluster_operations(self, context: RequestContext) -> int:
        """Return the bit field of the cluster: 0 without DESCRIBE."""
        if not self.on_cluster(context, AclOperation.DESCRIBE):
            return 0
        found = await self.operations(context, AclResourceType.CLUSTER, [CLUSTER.name])
        return found[CLUSTER.name]

    def _ask(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        try:
            answers = self.authorizer.authorize(requester, actions)
            if len(answers) != len(actions):
                raise ValueError(f"{len(answers)} answers to {len(actions)} questions")
        except Exception as error:
            self._failed(requester, error)
            return [False] * len(actions)
        return answers

    def _failed(self, requester: Requester, error: Exception) -> None:
        self._log.error(
            "authorizer_failed",
            client=requester.host,
            api=requester.request_name,
            error=repr(error),
            traceback="".join(traceback.format_exception(error)),
        )


TOPIC_OPERATIONS: Final = bit_field(SUPPORTED_OPERATIONS[AclResourceType.TOPIC])
CLUSTER_OPERATIONS: Final = bit_field(SUPPORTED_OPERATIONS[AclResourceType.CLUSTER])
GROUP_OPERATIONS: Final = bit_field(SUPPORTED_OPERATIONS[AclResourceType.GROUP])
