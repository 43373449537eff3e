"""The interface of authorizers: the built-in one, and classes of the user's.

A broker asks its authorizer before each operation of a client or another broker. A class that is
named by ``authorizer.class.name`` as ``package.module.Class`` implements ``Authorizer``; its
constructor is called with the broker's configuration, a mapping of keys to texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

from minikafka.core.security.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclResourceType,
    ResourcePattern,
)
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.principals import Principal


class Requester(NamedTuple):
    """Who sends a request, from where. ``host`` is the address as Java writes it, and
    ``request_name`` the name of the API: ``Metadata``."""

    principal: Principal
    host: str
    request_name: str
    api_version: int
    listener: str
    client_id: str


class AclAction(NamedTuple):
    """One operation on one literal resource, which the request names ``references`` times.

    ``log_if_allowed`` is false if the answer only says what would be allowed. ``log_if_denied`` is
    false if the resource was not requested by name, or if another permission suffices, too."""

    operation: AclOperation
    resource: ResourcePattern
    references: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


@dataclass(frozen=True, slots=True)
class DeletedAcls:
    """What one filter has deleted: the bindings with the errors of those that are still there."""

    bindings: Mapping[AclBinding, KafkaError | None] = field(default_factory=dict)


class Authorizer(Protocol):
    """Kafka's ``Authorizer``.

    ``authorize`` and ``authorize_by_type`` are called on the event loop for each request, and must
    not wait. An exception of theirs denies the operation. A class that keeps no ACLs raises
    KafkaError(SECURITY_DISABLED) from the other methods.
    """

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        """Return whether each action is allowed."""
        ...

    def authorize_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether the principal may perform the operation on some resource of the type."""
        ...

    def acl_patterns(self) -> Sequence[ResourcePattern]:
        """Return the resource patterns that have ACLs."""
        ...

    def acls(self, selected: AclFilter, pattern: ResourcePattern) -> Sequence[AclBinding]:
        """Return the bindings of one pattern that the filter selects."""
        ...

    async def create_acls(
        self, requester: Requester, bindings: Sequence[AclBinding]
    ) -> Sequence[KafkaError | None]:
        """Add bindings. Returns the error of each, None after a success. A binding that exists
        counts as added."""
        ...

    async def delete_acls(
        self, requester: Requester, filters: Sequence[AclFilter]
    ) -> Sequence[DeletedAcls]:
        """Delete the bindings that the filters select. A binding that several of them select is
        in the result of the first one."""
        ...
