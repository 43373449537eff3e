"""The admin client's calls about delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.admin.broker_calls import call_controller
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import delegation_tokens as calls
from minikafka.core.client.admin.delegation_tokens import SecretToken
from minikafka.kernel.principals import Principal


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
