"""Client quotas: where an entity's limits are stored, which values are valid, which match a filter.

An entity is a mapping of its types (``user``, ``client-id``, ``ip``) to names; the name None is the
default entity. The quotas of a user, of a client id and of both together are three entities.
Kafka's ``ZkAdminManager`` and ``DynamicConfig`` have the same rules and error messages.

As names of znodes the names are escaped as by Kafka's ``Sanitizer``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, unquote_plus

from minikafka.core.security.scram_credentials import MECHANISMS
from minikafka.kernel.config import ConfigType
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass

DEFAULT_NAME = "<default>"  # the znode of the default entity, whose name is None on the wire


def sanitized(name: str | None) -> str:
    """Return the URL-encoded name. A blank becomes ``%20``; ``-``, ``_`` and ``.`` stay."""
    if name is None:
        return DEFAULT_NAME
    encoded = quote(name, safe="-._", encoding="utf-8", errors="replace")
    return encoded.replace("~", "%7E")


def desanitized(znode: str) -> str | None:
    """Return the name from which ``sanitized`` made this text."""
    return None if znode == DEFAULT_NAME else unquote_plus(znode)


USER, CLIENT_ID, IP = "user", "client-id", "ip"

CLIENT_KEYS: Mapping[str, ConfigType] = {
    "producer_byte_rate": ConfigType.LONG,
    "consumer_byte_rate": ConfigType.LONG,
    "request_percentage": ConfigType.DOUBLE,
    "controller_mutation_rate": ConfigType.DOUBLE,
}
# The znode of a user holds its SCRAM credentials too.
USER_KEYS: Mapping[str, ConfigType] = {
    **CLIENT_KEYS,
    **{mechanism.kafka_name: ConfigType.STRING for mechanism in MECHANISMS.values()},
}
IP_KEYS: Mapping[str, ConfigType] = {"connection_creation_rate": ConfigType.INT}

EPSILON = 1e-6
_BOUNDS = {ConfigType.LONG: 2**63, ConfigType.INT: 2**31}

Entity: TypeAlias = Mapping[str, str | None]


class QuotaPlace(NamedTuple):
    """Where the limits of an entity are stored: ``/config/<root>/<name>``.

    ``settable`` are the keys of a request, ``stored`` those that the znode may hold.
    """

    root: str
    name: str
    settable: Mapping[str, ConfigType]
    stored: Mapping[str, ConfigType]


class QuotaOp(NamedTuple):
    """Set ``key``, or remove it if ``value`` is None."""

    key: str
    value: float | None


def place_of(entity: Entity) -> QuotaPlace:
    """Raises KafkaError INVALID_REQUEST for an entity that no quota can have."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    names = {kind: sanitized(name) for kind, name in entity.items()}
    match names:
        case {"ip": ip} if len(names) == 1:
            return QuotaPlace("ips", ip, IP_KEYS, IP_KEYS)
        case {"ip": _}:
            raise _invalid(
                "Invalid quota entity combination, IP entity should not be used with "
                "user/client ID entity."
            )
        case {"user": user, "client-id": client}:
            return QuotaPlace("users", f"{user}/clients/{client}", USER_KEYS, CLIENT_KEYS)
        case {"user": user}:
            stored = CLIENT_KEYS if user == DEFAULT_NAME else USER_KEYS
            return QuotaPlace("users", user, USER_KEYS, stored)
        case _:
            return QuotaPlace("clients", names[CLIENT_ID], CLIENT_KEYS, CLIENT_KEYS)


def altered(config: Mapping[str, str], ops: Iterable[QuotaOp], place: QuotaPlace) -> dict[str, str]:
    """Return the configuration after ``ops``.

    Raises KafkaError: INVALID_REQUEST for an unknown key or a value of the wrong type,
    UNKNOWN_SERVER_ERROR for a credential, which is no quota.
    """
    after = dict(config)
    for op in ops:
        if op.value is None:
            after.pop(op.key, None)
            continue
        kind = place.settable.get(op.key)
        if kind is None:
            raise _invalid(f"Invalid configuration key {op.key}")
        if kind is ConfigType.STRING:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        after[op.key] = _text(op.key, op.value, kind)
    return after


def check_stored(config: Mapping[str, str], stored: Mapping[str, ConfigType]) -> None:
    """Raises KafkaError UNKNOWN_SERVER_ERROR, as Kafka answers, if the configuration has a foreign
    key. Only another tool can have written one."""
    if config.keys() - stored.keys():
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _text(key: str, value: float, kind: ConfigType) -> str:
    """Return a number in the form that Kafka stores: Java's ``toString``."""
    if kind is ConfigType.DOUBLE:
        return java_double(value)
    bound = _BOUNDS[kind]
    whole = 0
    if math.isfinite(value):
        whole = max(-bound, min(bound - 1, int(value + EPSILON)))
    if abs(float(whole) - value) > EPSILON:
        raise _invalid(f"Configuration {key} must be a {kind.name} value")
    return str(whole)


def java_double(value: float) -> str:
    """Return what Java's ``Double.toString`` does: ``2.0``, ``1.0E7``, ``Infinity``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = _decimal(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal(value: float) -> tuple[str, str, int]:
    """Return the sign, the shortest digits without zeros at the ends, and the first digit's
    exponent."""
    mantissa, _, exponent = f"{value!r:s}".lower().partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    stripped = (whole + fraction).lstrip("0")
    first = len(whole) - 1 - (len(whole + fraction) - len(stripped))
    return sign, stripped.rstrip("0"), first + int(exponent or 0)


class MatchType:
    """The codes of a filter component's ``match_type``."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class Component:
    """A filter's condition on one entity type: any name, or exactly ``name`` (None is the
    default)."""

    any_name: bool
    name: str | None = None

    def matches(self, name: str | None) -> bool:
        return self.any_name or self.name == name


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """The filter of a DescribeClientQuotas request."""

    components: Mapping[str, Component]
    strict: bool

    @classmethod
    def of(cls, components: Sequence[tuple[str, int, str | None]], strict: bool) -> QuotaFilter:
        """Build a filter from (entity type, match type, name) triples. Raises KafkaError."""
        wanted = [(kind, _component(code, name)) for kind, code, name in components]
        found: dict[str, Component] = {}
        for kind, component in wanted:
            if kind in found:
                short = "client" if kind == CLIENT_ID else kind
                raise _invalid(f"Duplicate {short} filter component entity type")
            if not kind:
                raise _invalid("Unexpected empty filter component entity type")
            if kind not in (USER, CLIENT_ID, IP):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported"
                )
            found[kind] = component
        if IP in found and len(found) > 1:
            raise _invalid(
                "Invalid entity filter component combination, IP filter component should not be "
                "used with user or clientId filter component."
            )
        # Kafka reads just one znode then, and none can have an empty name.
        one_znode = strict or IP in found or len(found) > 1
        names = [component.name for component in found.values() if not component.any_name]
        if one_znode and len(names) == len(found) and "" in names:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return cls(found, strict)

    def matches(self, entity: Entity) -> bool:
        """A strict filter refuses an entity that has another type than the components."""
        if self.strict and entity.keys() - self.components.keys():
            return False
        return all(
            kind in entity and component.matches(entity[kind])
            for kind, component in self.components.items()
        )

    def may_match(self, *kinds: str) -> bool:
        """Whether any entity of exactly these types can match."""
        missing = self.components.keys() - set(kinds)
        return not missing and not (self.strict and set(kinds) - self.components.keys())

    def only(self, kind: str) -> str | None:
        """Return the only znode name of ``kind`` that can match; None if several can."""
        component = self.components.get(kind)
        return None if component is None or component.any_name else sanitized(component.name)


def _component(match_type: int, name: str | None) -> Component:
    """Raises KafkaError UNKNOWN_SERVER_ERROR for an unknown code or a missing name, as Kafka."""
    if match_type == MatchType.SPECIFIED:
        return Component(any_name=True)
    if match_type == MatchType.DEFAULT:
        return Component(any_name=False)
    if match_type == MatchType.EXACT and name is not None:
        return Component(any_name=False, name=name)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def limits_of(config: Mapping[str, str], keys: Mapping[str, ConfigType]) -> dict[str, float]:
    """Return the quotas in a configuration. Raises KafkaError UNKNOWN_SERVER_ERROR for a value that
    is not a number."""
    try:
        return {key: float(text) for key, text in config.items() if key in keys}
    except ValueError:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
