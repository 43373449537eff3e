"""Calls about configuration and client quotas: describe and alter the settings of topics and
brokers, and the limits of users, clients and addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from minikafka.core.client.calls import Call, raise_for
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.core.security.client_quotas import MatchType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from minikafka.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotas,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaEntity,
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
from minikafka.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

CLUSTER_DEFAULT: Final = ""  # the name that stands for all brokers

# Errors that are retried: they are not about the resource. Others are final even if the table calls
# them retriable.
RETRIED: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION}
)


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


class ConfigResource(NamedTuple):
    type: ResourceType
    name: str


OF_ONE_BROKER: Final = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER})


def served_by_one_broker(resource_type: ResourceType, name: str) -> bool:
    """Return whether only the broker of this name serves calls for the resource.

    Any broker serves calls for other resources than brokers, and for CLUSTER_DEFAULT.
    """
    return resource_type in OF_ONE_BROKER and name != CLUSTER_DEFAULT


def broker_named(name: str, brokers: Iterable[int]) -> int:
    """Return the broker id whose resource has this name.

    Raises KafkaError BROKER_NOT_AVAILABLE if it is not among ``brokers``.
    """
    known = {str(broker_id): broker_id for broker_id in sorted(brokers)}
    if name not in known:
        message = f"no broker {name}, there are {', '.join(known)}"
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, message)
    return known[name]


def describe_configs(
    resource_type: ResourceType, name: str, keys: Iterable[str] | None
) -> Call[dict[str, ConfigValue]]:
    """Build DescribeConfigs for ``keys`` of one resource, or for all its settings if None."""

    def read(response: DescribeConfigsResponse) -> dict[str, ConfigValue]:
        (result,) = response.results
        raise_for(result.error_code, result.error_message)
        return {row.name: _value(row) for row in result.configs}

    wanted = None if keys is None else list(keys)
    resource = DescribeConfigsResource(resource_type, name, wanted)
    return Call(DescribeConfigsRequest([resource], include_synonyms=True), read)


def topic_configs(names: Iterable[str]) -> Call[dict[str, dict[str, str]]]:
    """Build DescribeConfigs for topics. Any broker serves it.

    The result has the settings of each topic that differ from Kafka's defaults.
    """

    def read(response: DescribeConfigsResponse) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for result in response.results:
            raise_for(result.error_code, result.error_message)
            found[result.resource_name] = {
                row.name: row.value or ""
                for row in result.configs
                if row.config_source != ConfigSource.DEFAULT_CONFIG
            }
        return found

    resources = [
        DescribeConfigsResource(ResourceType.TOPIC, name, configuration_keys=None) for name in names
    ]
    return Call(DescribeConfigsRequest(resources=resources), read)


def list_config_resources(types: Iterable[ResourceType]) -> Call[list[ConfigResource]]:
    """Build ListConfigResources for these types; for all if there are none. Types that this
    package does not know are left out."""

    def read(response: ListConfigResourcesResponse) -> list[ConfigResource]:
        raise_for(response.error_code)
        return sorted(
            ConfigResource(ResourceType(row.resource_type), row.resource_name)
            for row in response.config_resources
            if row.resource_type in list(ResourceType)
        )

    return Call(ListConfigResourcesRequest(list(types)), read)


def alter_configs(
    resource_type: ResourceType, name: str, configs: Mapping[str, str], validate_only: bool
) -> Call[None]:
    """Build AlterConfigs, which removes the settings of the resource that it does not name."""
    settings = [AlterableConfig(key, value) for key, value in configs.items()]
    resource = AlterConfigsResource(resource_type, name, settings)
    return Call(AlterConfigsRequest([resource], validate_only), _read_altered)


def incremental_alter_configs(
    resource_type: ResourceType,
    name: str,
    changes: Iterable[ConfigAlteration],
    validate_only: bool,
) -> Call[None]:
    """Build IncrementalAlterConfigs, which leaves the other settings of the resource."""
    rows = [IncrementalAlterableConfig(c.name, c.operation, c.value) for c in changes]
    resource = IncrementalAlterConfigsResource(resource_type, name, rows)
    return Call(IncrementalAlterConfigsRequest([resource], validate_only), _read_altered)


def _read_altered(response: AlterConfigsResponse | IncrementalAlterConfigsResponse) -> None:
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


# The names of an entity by type: ``user``, ``client-id``, ``ip``. None is the default.
EntityNames: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class AnyName:
    """Stands for every name of a type, and for the default."""


ANY_NAME = AnyName()


@dataclass(frozen=True, slots=True)
class DescribedQuota:
    """The limits of one entity by key."""

    entity: EntityNames
    limits: Mapping[str, float]


def describe_quotas(entity: Mapping[str, str | AnyName | None]) -> Call[list[DescribedQuota]]:
    """Build DescribeClientQuotas for the entities of exactly these types. Any broker serves it."""
    components = [_component(kind, name) for kind, name in entity.items()]
    return Call(DescribeClientQuotasRequest(components, strict=True), _described_quotas)


def describe_all_quotas() -> Call[list[DescribedQuota]]:
    """Build DescribeClientQuotas for all entities. Any broker serves it."""
    return Call(DescribeClientQuotasRequest([], strict=False), _described_quotas)


def _described_quotas(response: DescribeClientQuotasResponse) -> list[DescribedQuota]:
    raise_for(response.error_code, response.error_message)
    return [
        DescribedQuota(
            {part.entity_type: part.entity_name for part in row.entity},
            {value.key: value.value for value in row.values},
        )
        for row in response.entries or ()
    ]


def alter_quotas(entity: EntityNames, limits: Sequence[tuple[str, float | None]]) -> Call[None]:
    """Build AlterClientQuotas, which sets limits, and removes those that are None. Any broker
    serves it."""

    def read(response: AlterClientQuotasResponse) -> None:
        (result,) = response.entries
        raise_for(result.error_code, result.error_message)

    row = AlteredQuotas(
        [QuotaEntity(kind, name) for kind, name in entity.items()],
        [QuotaAlteration(key, limit or 0.0, limit is None) for key, limit in limits],
    )
    return Call(AlterClientQuotasRequest([row]), read)


def _component(kind: str, name: str | AnyName | None) -> ComponentData:
    if isinstance(name, AnyName):
        return ComponentData(kind, MatchType.SPECIFIED, None)
    if name is None:
        return ComponentData(kind, MatchType.DEFAULT, None)
    return ComponentData(kind, MatchType.EXACT, name)
