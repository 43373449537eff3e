"""The admin client's calls about cluster features: describe them, and change finalized levels."""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.admin.broker_calls import call_controller
from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import features as calls
from minikafka.core.client.admin.features import FeatureMetadata
from minikafka.kernel.errors import KafkaError
from minikafka.kernel.features import FeatureUpdate


class FeatureAdmin:
    """The feature calls of ``Admin``, which inherits this class.

    Calls are retried after retriable errors until ``timeout_ms``. They raise KafkaError.
    """

    session: ClusterSession

    async def describe_features(self, *, timeout_ms: int | None = None) -> FeatureMetadata:
        """Return what one broker supports, and the finalized levels that it knows."""
        deadline_ms = self.session.deadline_ms(timeout_ms)
        return await self.session.call_any_retrying(calls.describe_features(), deadline_ms)

    async def update_features(
        self,
        updates: Iterable[FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, KafkaError | None]:
        """Change finalized levels, each feature for itself. The outcome is None for each that was
        changed, or with ``validate_only`` could be."""
        wanted = list(updates)
        return await call_controller(
            self.session,
            lambda server_ms: calls.update_features(wanted, server_ms, validate_only),
            self.session.deadline_ms(timeout_ms),
        )
