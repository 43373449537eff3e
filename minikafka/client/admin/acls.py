"""The admin client's calls about ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import acls as calls
from minikafka.core.security.acls import AclBinding, AclFilter
from minikafka.kernel.errors import KafkaError


class AclAdmin:
    """The ACL calls of ``Admin``, which inherits this class. They need Describe, or Alter, on the
    cluster, and brokers with an authorizer: SECURITY_DISABLED otherwise."""

    session: ClusterSession

    async def describe_acls(
        self, selected: AclFilter, *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Return the bindings that the filter selects. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await self.session.call_any_retrying(calls.describe_acls(selected), deadline_ms)

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> dict[AclBinding, KafkaError | None]:
        """Add bindings. Return the error of each, None after a success; a binding that exists
        counts as added."""
        rows = list(bindings)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        errors = await self.session.call_any_retrying(calls.create_acls(rows), deadline_ms)
        return dict(zip(rows, errors, strict=True))

    async def delete_acls(
        self, filters: Sequence[AclFilter], *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Delete the bindings that the filters select, and return them. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await self.session.call_any_retrying(calls.delete_acls(filters), deadline_ms)
