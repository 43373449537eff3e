"""The admin client's calls about configuration: describe and alter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from minikafka.client.session import ClusterSession
from minikafka.core.client.calls import Call, raise_for
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

R = TypeVar("R")

# Errors that are retried. Others are final even if the table calls them retriable.
_NOT_ABOUT_THE_RESOURCE = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
)
CLUSTER_DEFAULT = ""  # the name that stands for all brokers


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of one configuration key.

    ``synonyms`` are the values of the key by source, starting with the effective one.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """A change of one configuration key."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


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
        """Return all settings, or those of ``keys``, of a topic, a broker, or with CLUSTER_DEFAULT
        of all brokers. Raises KafkaError, BROKER_NOT_AVAILABLE where no broker has that id."""
        wanted = None if keys is None else list(keys)
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(resource_type, name, wanted)], include_synonyms=True
        )
        call = Call(request, _described)
        return await self._call_for_resource(resource_type, name, call, timeout_ms)

    async def topic_configs(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, str]]:
        """Return the settings of each topic that differ from Kafka's defaults. Raises
        KafkaError."""
        resources = [
            DescribeConfigsResource(ResourceType.TOPIC, name, configuration_keys=None)
            for name in names
        ]
        request = DescribeConfigsRequest(resources=resources)
        response = await self.session.request_any(request, self.session.deadline_ms(timeout_ms))
        found: dict[str, dict[str, str]] = {}
        for result in response.results:
            raise_for(result.error_code, result.error_message)
            found[result.resource_name] = {
                row.name: row.value or ""
                for row in result.configs
                if row.config_source != ConfigSource.DEFAULT_CONFIG
            }
        return found

    async def broker_configs(
        self, broker_id: int, keys: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, str | None]:
        """Return settings of one broker, without those that it does not know. Raises KafkaError,
        BROKER_NOT_AVAILABLE where no broker has that id."""
        found = await self.describe_configs(
            ResourceType.BROKER, str(broker_id), keys, timeout_ms=timeout_ms
        )
        return {name: row.value for name, row in found.items()}

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
        settings = [AlterableConfig(key, value) for key, value in configs.items()]
        request = AlterConfigsRequest(
            [AlterConfigsResource(resource_type, name, settings)], validate_only
        )
        await self._call_for_resource(resource_type, name, Call(request, _altered), timeout_ms)

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
        rows = [IncrementalAlterableConfig(c.name, c.operation, c.value) for c in changes]
        request = IncrementalAlterConfigsRequest(
            [IncrementalAlterConfigsResource(resource_type, name, rows)], validate_only
        )
        await self._call_for_resource(resource_type, name, Call(request, _altered), timeout_ms)

    # -- inside

    async def _call_for_resource(
        self,
        resource_type: ResourceType,
        name: str,
        call: Call[R],
        timeout_ms: int | None,
    ) -> R:
        """Carry out a call for a broker's own settings at that broker, for all others at any
        broker.

        Errors about the resource are not retried. Raises KafkaError.
        """
        session = self.session
        deadline_ms = session.deadline_ms(timeout_ms)
        broker_id: int | None = None
        if resource_type is not ResourceType.TOPIC and name != CLUSTER_DEFAULT:
            broker_id = await self._known_broker(name, deadline_ms)

        async def attempt() -> R | KafkaError:
            node = session.connections.any_node() if broker_id is None else broker_id
            if broker_id is not None and broker_id not in session.metadata.view.nodes:
                raise _no_such_broker(name, session.metadata.view.nodes)  # it has gone meanwhile
            try:
                return await session.call(node, call, deadline_ms)
            except KafkaError as error:
                if error.code in _NOT_ABOUT_THE_RESOURCE:
                    raise
                return error

        outcome = await session.retrying(attempt, deadline_ms)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def _known_broker(self, name: str, deadline_ms: int) -> int:
        nodes = await self.session.metadata.wait_until(
            lambda view: view.nodes or None, self.session.remaining_ms(deadline_ms), "the brokers"
        )
        known = {str(broker_id): broker_id for broker_id in nodes}
        if name not in known:
            raise _no_such_broker(name, nodes)
        return known[name]


def _no_such_broker(name: str, nodes: Iterable[int]) -> KafkaError:
    there = ", ".join(map(str, sorted(nodes)))
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"no broker {name}, there are {there}")


def _described(response: DescribeConfigsResponse) -> dict[str, ConfigValue]:
    (result,) = response.results
    raise_for(result.error_code, result.error_message)
    return {row.name: _value(row) for row in result.configs}


def _altered(response: AlterConfigsResponse | IncrementalAlterConfigsResponse) -> None:
    (result,) = response.responses
    raise_for(result.error_code, result.error_message)


def _value(row: DescribeConfigsResourceResult) -> ConfigValue:
    return ConfigValue(
        row.name,
        row.value,
        _source(row.config_source),
        row.read_only,
        row.is_sensitive,
        tuple((s.name, s.value, _source(s.source)) for s in row.synonyms),
    )


def _source(number: int) -> ConfigSource:
    """Return the source of a value; UNKNOWN for the sources of newer brokers, and for none."""
    return ConfigSource(number) if number in list(ConfigSource) else ConfigSource.UNKNOWN
