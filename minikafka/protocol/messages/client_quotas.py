"""DescribeClientQuotas and AlterClientQuotas (keys 48 and 49, KIP-546)."""

from __future__ import annotations

from dataclasses import field

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.places import Level, Places
from minikafka.protocol.schema import (
    LOOK_UPS,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    request,
    response,
)


@dataclass(slots=True)
class ComponentData:
    """What an entity must be in one of its types. ``match_type``: 0 exactly ``match``, 1 the
    default entity, 2 any."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@dataclass(slots=True)
class DescribeClientQuotasRequest(Message):
    """A filter. ``strict`` leaves out entities with a type that no component names."""

    SPEC = request(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, Places(values={"entries": None}), max_elements=LOOK_UPS
    )

    components: list[ComponentData] = field(default_factory=list)
    strict: Bool = False


@dataclass(slots=True)
class QuotaEntity:
    """A part of an entity: ``user``, ``client-id`` or ``ip``. A null name is the default."""

    entity_type: String = ""
    entity_name: String | None = ""


@dataclass(slots=True)
class QuotaValue:
    """A quota and its limit."""

    key: String = ""
    value: Float64 = 0.0


@dataclass(slots=True)
class DescribedQuotas:
    """The quotas of one entity."""

    entity: list[QuotaEntity] = field(default_factory=list)
    values: list[QuotaValue] = field(default_factory=list)


@dataclass(slots=True)
class DescribeClientQuotasResponse(Message):
    """The matching entities, null after an error."""

    SPEC = response(ApiKey.DESCRIBE_CLIENT_QUOTAS)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[DescribedQuotas] | None = field(default_factory=list)


@dataclass(slots=True)
class QuotaAlteration:
    """Sets ``key`` to ``value``, or removes it."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@dataclass(slots=True)
class AlteredQuotas:
    """The alterations of one entity."""

    entity: list[QuotaEntity] = field(default_factory=list)
    ops: list[QuotaAlteration] = field(default_factory=list)


@dataclass(slots=True)
class AlterClientQuotasRequest(Message):
    """With ``validate_only`` nothing is written."""

    SPEC = request(
        ApiKey.ALTER_CLIENT_QUOTAS,
        Places((Level("entries", "entity", ""),), (Level("entries", "entity", ""),)),
        max_elements=LOOK_UPS,
    )

    entries: list[AlteredQuotas] = field(default_factory=list)
    validate_only: Bool = False


@dataclass(slots=True)
class AlteredQuotasResult:
    """The outcome for one entity."""

    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[QuotaEntity] = field(default_factory=list)


@dataclass(slots=True)
class AlterClientQuotasResponse(Message):
    """One result per entity."""

    SPEC = response(ApiKey.ALTER_CLIENT_QUOTAS)

    throttle_time_ms: Int32 = 0
    entries: list[AlteredQuotasResult] = field(default_factory=list)
