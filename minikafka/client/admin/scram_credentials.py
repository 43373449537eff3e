"""The admin client's calls about SCRAM credentials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minikafka.client.admin.broker_calls import call_controller
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import scram_credentials as calls
from minikafka.core.client.admin.scram_credentials import ScramIterations
from minikafka.core.security.scram_credentials import Deletion, Upsertion
from minikafka.kernel.errors import KafkaError


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
