"""The admin client's half that describes and alters configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikafka.client.session import ClusterSession, raise_for
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from minikafka.protocol.schema import Message

# Answers that say nothing of the resource.
_ASK_AGAIN = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)
CLUSTER_DEFAULT = ""  # the name that stands for all brokers


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting. ``synonyms``: what counts, what would count without it, and so on."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """What is to become of one setting."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


class ConfigAdmin:
    """``Admin`` inherits this."""

    session: ClusterSession

    async def describe_configs(
        self,
        resource_type: ResourceType,
        name: str,
        keys: Iterable[str] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, ConfigValue]:
        """All settings (or those asked for) of a topic, a broker, or with CLUSTER_DEFAULT of all
        brokers. Raises KafkaError, BROKER_NOT_AVAILABLE where no broker has that id."""
        wanted = None if keys is None else list(keys)
        request = DescribeConfigsRequest(
            [DescribeConfigsResource(resource_type, name, wanted)], include_synonyms=True
        )
        result = await self._ask_for(resource_type, name, request, timeout_ms)
        return {row.name: _value(row) for row in result.configs}

    async def topic_configs(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, str]]:
        """What each topic has set otherwise than Kafka's defaults. Raises KafkaError."""
        resources = [
            DescribeConfigsResource(ResourceType.TOPIC, name, configuration_keys=None)
            for name in names
        ]
        request = DescribeConfigsRequest(resources=resources)
        answer = await self.session.request_any(request, self.session.deadline_ms(timeout_ms))
        found: dict[str, dict[str, str]] = {}
        for result in answer.results:
            raise_for(ErrorCode(result.error_code), result.error_message)
            found[result.resource_name] = {
                row.name: row.value or ""
                for row in result.configs
                if row.config_source != ConfigSource.DEFAULT_CONFIG
            }
        return found

    async def broker_configs(
        self, broker_id: int, keys: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, str | None]:
        """Settings of one broker, as it tells itself; what it does not know is not there. Raises
        KafkaError, BROKER_NOT_AVAILABLE where no broker has that id."""
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
        """Replace all that a topic or broker is configured with: what is not named is forgotten.
        Raises KafkaError, INVALID_CONFIG with the reason."""
        settings = [AlterableConfig(key, value) for key, value in configs.items()]
        request = AlterConfigsRequest(
            [AlterConfigsResource(resource_type, name, settings)], validate_only
        )
        await self._ask_for(resource_type, name, request, timeout_ms)

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
        await self._ask_for(resource_type, name, request, timeout_ms)

    # -- inside

    async def _ask_for(
        self,
        resource_type: ResourceType,
        name: str,
        request: Message,
        timeout_ms: int | None,
    ) -> Any:
        """The result for the one resource, of who can answer for it: a broker for itself, anybody
        for the rest. What it says of the resource is final. Raises KafkaError."""
        session = self.session
        deadline_ms = session.deadline_ms(timeout_ms)
        broker_id: int | None = None
        if resource_type is not ResourceType.TOPIC and name != CLUSTER_DEFAULT:
            broker_id = await self._known_broker(name, deadline_ms)

        async def attempt() -> Any:
            connections = session.connections
            node = connections.any_node() if broker_id is None else broker_id
            if broker_id is not None and broker_id not in session.metadata.view.nodes:
                raise _no_such_broker(name, session.metadata.view.nodes)  # it has gone meanwhile
            remaining_ms = min(session.config.request_timeout_ms, session.remaining_ms(deadline_ms))
            answer = await connections.request(node, request, timeout_ms=remaining_ms)
            describes = isinstance(request, DescribeConfigsRequest)
            (result,) = answer.results if describes else answer.responses
            code = ErrorCode(result.error_code)
            if code in _ASK_AGAIN:
                raise KafkaError(code, result.error_message)
            return result

        result = await session.retrying(attempt, deadline_ms)
        raise_for(ErrorCode(result.error_code), result.error_message)
        return result

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
    """Brokers of another time may know more sources (and of old times, none)."""
    return ConfigSource(number) if number in list(ConfigSource) else ConfigSource.UNKNOWN
