"""Calls about client quotas: describe and alter the limits of users, clients and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from minikafka.core.client.calls import Call, raise_for
from minikafka.core.security.client_quotas import MatchType
from minikafka.kernel.lazy_dataclass import dataclass
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

    def read(response: DescribeClientQuotasResponse) -> list[DescribedQuota]:
        raise_for(response.error_code, response.error_message)
        return [
            DescribedQuota(
                {part.entity_type: part.entity_name for part in row.entity},
                {value.key: value.value for value in row.values},
            )
            for row in response.entries or ()
        ]

    components = [_component(kind, name) for kind, name in entity.items()]
    return Call(DescribeClientQuotasRequest(components, strict=True), read)


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
