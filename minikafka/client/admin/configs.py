"""The admin client's calls about configuration: describe and alter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from minikafka.client.session import ClusterSession
from minikafka.core.client.admin import configs as calls
from minikafka.core.client.admin.configs import (
    AnyName,
    ConfigAlteration,
    ConfigValue,
    DescribedQuota,
    EntityNames,
)
from minikafka.core.client.calls import Call
from minikafka.core.config_resources import ResourceType
from minikafka.kernel.errors import KafkaError

R = TypeVar("R")


class ConfigAdmin:
    """The configuration calls of ``Admin``, which inherits this class."""

    session: ClusterSession

    async def describe_configs(
        self,
        resource_type: ResourceType,
        name: str,
        keys: Iterable[str] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, ConfigValue]:
        """Return all settings, or those of ``keys``, of a resource, or with CLUSTER_DEFAULT of all
        brokers. Raises KafkaError, BROKER_NOT_AVAILABLE where no broker has that id."""
        call = calls.describe_configs(resource_type, name, keys)
        return await self._call_for_resource(resource_type, name, call, timeout_ms)

    async def topic_configs(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, str]]:
        """Return the settings of each topic that differ from Kafka's defaults. Raises
        KafkaError."""
        return await self.session.call_any_retrying(
            calls.topic_configs(names), self.session.deadline_ms(timeout_ms)
        )

    async def broker_configs(
        self, broker_id: int, keys: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, str | None]:
        """Return settings of one broker, without those that it does not know. Raises KafkaError,
        BROKER_NOT_AVAILABLE where no broker has that id."""
        found = await self.describe_configs(
            ResourceType.BROKER, str(broker_id), keys, timeout_ms=timeout_ms
        )
        return {name: row.value for name, row in found.items()}

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout_ms: int | None = None
    ) -> list[calls.ConfigResource]:
        """Return the resources of these types, or of all, by type and name. Raises KafkaError:
        UNSUPPORTED_VERSION of brokers before Kafka 4.1 (KIP-1142)."""
        return await self.session.call_any_retrying(
            calls.list_config_resources(types), self.session.deadline_ms(timeout_ms)
        )

    async def alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Replace all dynamic settings of a topic or broker: those not named are removed. Raises
        KafkaError, INVALID_CONFIG with the reason."""
        call = calls.alter_configs(resource_type, name, configs, validate_only)
        await self._call_for_resource(resource_type, name, call, timeout_ms)

    async def incremental_alter_configs(
        self,
        resource_type: ResourceType,
        name: str,
        changes: Sequence[ConfigAlteration],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Change single settings of a topic or broker. Raises KafkaError, INVALID_CONFIG with the
        reason."""
        call = calls.incremental_alter_configs(resource_type, name, changes, validate_only)
        await self._call_for_resource(resource_type, name, call, timeout_ms)

    # -- inside

    async def describe_client_quotas(
        self, entity: Mapping[str, str | AnyName | None], *, timeout_ms: int | None = None
    ) -> list[DescribedQuota]:
        """Return the quotas of the entities that have exactly these types (``user``, ``client-id``,
        ``ip``) and names. Raises KafkaError."""
        return await self.session.call_any_retrying(
            calls.describe_quotas(entity), self.session.deadline_ms(timeout_ms)
        )

    async def describe_all_client_quotas(
        self, *, timeout_ms: int | None = None
    ) -> list[DescribedQuota]:
        """Return the quotas of all entities. Raises KafkaError, UNSUPPORTED_VERSION by brokers
        before Kafka 2.6."""
        return await self.session.call_any_retrying(
            calls.describe_all_quotas(), self.session.deadline_ms(timeout_ms)
        )

    async def alter_client_quotas(
        self,
        entity: EntityNames,
        limits: Sequence[tuple[str, float | None]],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Set the limits of an entity, and remove those that are None. Raises KafkaError,
        INVALID_REQUEST with the reason."""
        await self.session.call_any_retrying(
            calls.alter_quotas(entity, limits), self.session.deadline_ms(timeout_ms)
        )

    async def _call_for_resource(
        self, resource_type: ResourceType, name: str, call: Call[R], timeout_ms: int | None
    ) -> R:
        """Carry out a call at the broker that serves the resource.

        Errors about the resource are not retried. Raises KafkaError.
        """
        session = self.session
        deadline_ms = session.deadline_ms(timeout_ms)
        one_broker = calls.served_by_one_broker(resource_type, name)
        if one_broker:
            await session.metadata.wait_for_brokers(session.remaining_ms(deadline_ms))

        async def attempt() -> R | KafkaError:
            if one_broker:
                node = calls.broker_named(name, session.metadata.view.nodes)
            else:
                node = session.connections.any_node()
            try:
                return await session.call(node, call, deadline_ms)
            except KafkaError as error:
                if error.code in calls.RETRIED:
                    raise
                return error

        outcome = await session.retrying(attempt, deadline_ms)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome
