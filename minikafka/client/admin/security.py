"""The admin client's calls about ACLs, delegation tokens and SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minikafka.client.admin.broker_calls import call_controller
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import security as calls
from minikafka.core.client.admin.security import ScramIterations, SecretToken
from minikafka.core.security.acls import AclBinding, AclFilter
from minikafka.core.security.scram_credentials import Deletion, Upsertion
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.principals import Principal


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


class DelegationTokenAdmin:
    """The calls of ``Admin`` about delegation tokens, which inherits this class. They need a login
    that is not by a token, and brokers with a ``delegation.token.secret.key``."""

    session: ClusterSession

    async def create_delegation_token(
        self,
        renewers: Iterable[Principal] = (),
        max_lifetime_ms: int = -1,
        *,
        owner: Principal | None = None,
        timeout_ms: int | None = None,
    ) -> SecretToken:
        """Create a token, for the principal of this client or for another ``owner``. Without
        ``max_lifetime_ms`` it has the longest life that the brokers allow. Raises KafkaError."""
        call = calls.create_token(owner, renewers, max_lifetime_ms)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await call_controller(self.session, lambda _: call, deadline_ms)

    async def renew_delegation_token(
        self, hmac: bytes, period_ms: int = -1, *, timeout_ms: int | None = None
    ) -> int:
        """Let a token expire so many ms from now, by default the brokers' number. Return when it
        expires. Raises KafkaError."""
        call, deadline_ms = (
            calls.renew_token(hmac, period_ms),
            self.session.deadline_ms(timeout_ms),
        )
        return await call_controller(self.session, lambda _: call, deadline_ms)

    async def expire_delegation_token(
        self, hmac: bytes, period_ms: int = -1, *, timeout_ms: int | None = None
    ) -> int:
        """Let a token expire so many ms from now; by default remove it. Return when it expires.
        Raises KafkaError."""
        call, deadline_ms = (
            calls.expire_token(hmac, period_ms),
            self.session.deadline_ms(timeout_ms),
        )
        return await call_controller(self.session, lambda _: call, deadline_ms)

    async def describe_delegation_tokens(
        self, owners: Iterable[Principal] | None = None, *, timeout_ms: int | None = None
    ) -> list[SecretToken]:
        """Return the tokens that concern ``owners``, by default all, as far as this client may see
        them. Raises KafkaError."""
        call = calls.describe_tokens(owners)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await call_controller(self.session, lambda _: call, deadline_ms)


class ScramCredentialAdmin:
    """The calls of ``Admin`` about the SCRAM credentials of users, which inherits this class. They
    need Describe, or Alter, on the cluster."""

    session: ClusterSession

    async def describe_scram_credentials(
        self, users: Iterable[str] = (), *, timeout_ms: int | None = None
    ) -> dict[str, ScramIterations | KafkaError]:
        """Return the iterations of the credentials of users, by mechanism; without ``users`` of all
        that have one. Raises KafkaError."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        call = calls.describe_credentials(users)
        return await self.session.call_any_retrying(call, deadline_ms)

    async def alter_scram_credentials(
        self,
        deletions: Sequence[Deletion] = (),
        upsertions: Sequence[Upsertion] = (),
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Delete and set credentials. Return the error of each user, None after a success: all
        entries of a user count, or none. Raises KafkaError."""
        call = calls.alter_credentials(deletions, upsertions)
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await call_controller(self.session, lambda _: call, deadline_ms)
