"""Definitions of configuration keys, and the parsing of values by them (Kafka's ``ConfigDef``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, is_dataclass, replace
from enum import Enum
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.spelling import did_you_mean

if TYPE_CHECKING:
    import decimal
else:
    decimal = LazyModule("decimal")

T = TypeVar("T")

LISTENER_PREFIX = "listener.name."


class ConfigError(ValueError):
    """A key or a value that cannot be accepted; the message names the key and says why."""


class InvalidConfiguration(ConfigError):
    """Kafka's ``InvalidConfigurationException``: contradicting settings, or an unknown key.

    Its message is sent to clients unchanged; that of an invalid value gets the resource as prefix.
    """


class ConfigType(Enum):
    """Kafka's ``ConfigDef.Type``; ``wire`` is its number in DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9
    COMMA_SEPARATED = 10  # a list here, which Kafka declares as STRING

    @property
    def kafka_type(self) -> ConfigType:
        return ConfigType.STRING if self is ConfigType.COMMA_SEPARATED else self

    @property
    def wire(self) -> int:
        return self.kafka_type.value


_RANGES = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), 2**31 - 1),
    ConfigType.LONG: (-(2**63), 2**63 - 1),
}

_UNITS_MS = {".hours": 60 * 60 * 1000, ".minutes": 60 * 1000, ".ms": 1}

Validator = Callable[[Any], str | None]  # None: fine; a text: what is wrong with the value


def at_least(minimum: float) -> Validator:
    return lambda value: None if value >= minimum else f"Value must be at least {minimum}"


def between(minimum: float, maximum: float) -> Validator:
    def check(value: Any) -> str | None:
        if value < minimum:
            return f"Value must be at least {minimum}"
        return f"Value must be no more than {maximum}" if value > maximum else None

    return check


def one_of(*allowed: str) -> Validator:
    """Return a validator of a string, or of each item of a list, against ``allowed`` ones."""

    def check(value: Any) -> str | None:
        items = value if isinstance(value, tuple) else (value,)
        wrong = [item for item in items if item not in allowed]
        return f"String must be one of: {', '.join(allowed)}" if wrong else None

    return check


def non_empty(value: Any) -> str | None:
    return None if value else "String must be non-empty"


REQUIRED = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration key. ``default`` is REQUIRED, None (unset) or a parsed value.

    ``synonyms`` are the broker keys that give a topic key its default, first found wins.
    ``effective`` is False for keys that are accepted, kept and shown, but change nothing.
    ``internal`` keys are described only if they are set.
    """

    name: str
    type: ConfigType
    default: Any
    doc: str
    valid: Validator | None = None
    synonyms: tuple[str, ...] = ()
    effective: bool = True
    internal: bool = False

    def parse(self, value: Any) -> Any:
        """Convert a text, or check a typed value; return the typed value. Raises ConfigError."""
        if value is None:
            return None
        parsed = self._convert(value)
        problem = self.valid(parsed) if self.valid else None
        if problem:
            raise self._invalid(self._culprit(value, parsed), problem)
        return parsed

    def _invalid(self, value: Any, problem: str) -> ConfigError:
        return ConfigError(f"Invalid value {value} for configuration {self.name}: {problem}")

    def _culprit(self, value: Any, parsed: Any) -> Any:
        """Return the first invalid item of a list, or else the whole value, for the message."""
        valid, items = self.valid, parsed if isinstance(parsed, tuple) else ()
        return next((item for item in items if valid is not None and valid((item,))), value)

    def parse_synonym(self, name: str, value: str) -> Any:
        """Parse a value given under ``name``: the key itself, or a broker's synonym, which may be
        in hours or minutes.

        Kafka converts any negative time of a broker's key to -1. Raises ConfigError.
        """
        unit = next((u for end, u in _UNITS_MS.items() if name.endswith(end)), None)
        if unit is None or name == self.name:
            return self.parse(value)
        return self.parse(max(self._convert(value) * unit, -1))

    def _convert(self, value: Any) -> Any:
        text = str(value).strip()
        try:
            match self.type:
                case ConfigType.BOOLEAN:
                    return {"true": True, "false": False}[text.lower()]
                case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                    number, (low, high) = int(text), _RANGES[self.type]
                    if not low <= number <= high:
                        raise ValueError
                    return number
                case ConfigType.DOUBLE:
                    return float(text)
                case ConfigType.LIST | ConfigType.COMMA_SEPARATED:
                    if isinstance(value, tuple | list):
                        return tuple(value)
                    return tuple(item.strip() for item in text.split(",") if item.strip())
                case _:
                    return text
        except (ValueError, KeyError):
            problem = f"Not a number of type {self.type.name}"
            if self.type is ConfigType.BOOLEAN:
                problem = "Expected value to be either true or false"
            raise self._invalid(value, problem) from None

    def text(self, value: Any) -> str | None:
        """Return the value as Kafka prints it."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return _java_double(value) if isinstance(value, float) else str(value)


def _java_double(value: float) -> str:
    """Return the value as Java's ``Double.toString`` prints it."""
    if value == 0 or not isfinite(value) or 1e-3 <= abs(value) < 1e7:
        return {inf: "Infinity", -inf: "-Infinity"}.get(value, str(value).replace("nan", "NaN"))
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "the value is finite"
    text = "".join(map(str, digits))
    power = exponent + len(text) - 1
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{power}"


def row_of(kind: ConfigType, effective: bool = True) -> Callable[..., Setting]:
    """Return a constructor of settings of one type, for the tables of keys."""

    def row(
        name: str,
        default: Any,
        doc: str,
        valid: Validator | None = None,
        synonyms: tuple[str, ...] = (),
        effective: bool = effective,
        internal: bool = False,
    ) -> Setting:
        return Setting(name, kind, default, doc, valid, synonyms, effective, internal)

    return row


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """A set of settings. ``ignored`` are keys without a row that are accepted without effect; keys
    in ``refused`` have a reason why no value but the default is accepted. ``free`` are keys without
    a row that have an effect, and ``plugin_keys`` the prefixes of keys for a plug-in, each with the
    key that names its class. ``together`` returns why parsed values do not go together, if they do
    not. ``of_listeners`` may also be given for one listener, as
    ``listener.name.<name in lower case>.<key>``, or for one SASL mechanism of it, as
    ``listener.name.<name in lower case>.<mechanism in lower case>.<key>``."""

    settings: Mapping[str, Setting]
    ignored: frozenset[str] = frozenset()
    ignored_prefixes: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    together: Callable[[Mapping[str, Any]], str | None] = lambda _: None
    of_listeners: Mapping[str, Setting] = field(default_factory=dict)
    free: frozenset[str] = frozenset()
    plugin_keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Iterable[Setting],
        ignored: Iterable[str] = (),
        ignored_prefixes: tuple[str, ...] = (),
        refused: Mapping[str, str] | None = None,
        together: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
        of_listeners: Iterable[Setting] = (),
        free: Iterable[str] = (),
        plugin_keys: Mapping[str, str] | None = None,
    ) -> ConfigDef:
        return cls(
            {row.name: row for row in rows},
            frozenset(ignored),
            ignored_prefixes,
            refused or {},
            together,
            {row.name: row for row in of_listeners},
            frozenset(free),
            plugin_keys or {},
        )

    def row(self, name: str) -> Setting | None:
        """Return the row of a key, with or without the prefix of a listener or of a mechanism."""
        if name.startswith(LISTENER_PREFIX):
            return next(
                (row for key, row in self.of_listeners.items() if name.endswith(f".{key}")), None
            )
        return self.settings.get(name)

    def require_known(self, name: str) -> None:
        """Raise ConfigError for an unknown key, with the nearest known one."""
        if name in self.settings or name in self.ignored or name in self.refused:
            return
        if name in self.free or name.startswith(self.ignored_prefixes):
            return
        known = [*self.settings, *self.ignored, *self.free]
        raise ConfigError(f"Unknown configuration key {name}{did_you_mean(name, known)}")

    def _is_for_plugin(self, name: str, given: Mapping[str, str]) -> bool:
        """Whether the key is for a plug-in whose class is ``given``, and no key of ours."""
        return name not in self.settings and any(
            name.startswith(prefix) and given.get(key, "").strip()
            for prefix, key in self.plugin_keys.items()
        )

    def _has_effect(self, name: str, given: Mapping[str, str]) -> bool:
        row = self.row(name)
        if row is not None:
            return row.effective
        return name in self.free or self._is_for_plugin(name, given)

    def _is_default(self, name: str, text: str) -> bool:
        """Whether a value of a refused key says no more than if it were not set."""
        row = self.settings.get(name)
        try:
            return not text.strip() or (row is not None and row.parse(text) == row.default)
        except ConfigError:
            return False

    def parse(self, given: Mapping[str, str]) -> Config:
        """Parse all settings and fill in the defaults.

        Raises ConfigError for an unknown key, an invalid value, a missing required key, or values
        that do not go together.
        """
        for name, text in given.items():
            if not self._is_for_plugin(name, given):
                self.require_known(name)
            if name in self.refused and not self._is_default(name, text):
                raise ConfigError(f"Configuration {name} is not supported: {self.refused[name]}")
        values: dict[str, Any] = {}
        for name, row in self.settings.items():
            if name in given:
                values[name] = row.parse(given[name])
            elif row.default is REQUIRED:
                raise ConfigError(
                    f'Missing required configuration "{name}" which has no default value.'
                )
            else:
                values[name] = row.default
        for name, text in given.items():
            if name.startswith(LISTENER_PREFIX) and (of_listener := self.row(name)) is not None:
                values[name] = of_listener.parse(text)
        problem = self.together(values)
        if problem is not None:
            raise ConfigError(problem)
        without_effect = tuple(sorted(name for name in given if not self._has_effect(name, given)))
        return Config(values, dict(given), without_effect)


@dataclass(frozen=True, slots=True)
class Config:
    """Parsed values by Kafka key. ``given`` is what the user wrote; ``without_effect`` are the
    given keys that change nothing."""

    values: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()

    def _typed(self, name: str, kind: type[T]) -> T:
        value = self.values[name]
        if not isinstance(value, kind):
            raise ConfigError(f"Configuration {name} is not set")
        return value

    def integer(self, name: str) -> int:
        return self._typed(name, int)

    def double(self, name: str) -> float:
        return self._typed(name, float)

    def boolean(self, name: str) -> bool:
        return self._typed(name, bool)

    def string(self, name: str) -> str:
        return self._typed(name, str)

    def list(self, name: str) -> tuple[str, ...]:
        return self._typed(name, tuple)

    def optional(self, name: str) -> Any:
        """Return the value of a key; None if it is unset."""
        return self.values[name]

    def of_listener(self, listener: str) -> Config:
        """Return the configuration with the values that are given for this listener only."""
        return self._with_prefix(f"{LISTENER_PREFIX}{listener.lower()}.")

    def of_mechanism(self, mechanism: str) -> Config:
        """Return the configuration with the values that are given for this SASL mechanism only.
        Call it on the configuration of a listener."""
        return self._with_prefix(f"{mechanism.lower()}.")

    def _with_prefix(self, prefix: str) -> Config:
        own = {
            name.removeprefix(prefix): value
            for name, value in self.values.items()
            if name.startswith(prefix)
        }
        return replace(self, values={**self.values, **own}) if own else self


def view_of(kind: type[T], values: Mapping[str, Any], prefix: str = "", **given: Any) -> T:
    """Create the dataclass ``kind`` from parsed values.

    A field that is not ``given`` gets the value of its key: ``num_partitions`` that of ``prefix``
    and ``num.partitions``. A KeyError for a field without a key is a bug.
    """
    assert is_dataclass(kind)
    named = {
        row.name: values[prefix + row.name.replace("_", ".")]
        for row in fields(kind)
        if row.name not in given
    }
    made: T = kind(**named, **given)
    return made


def parse_properties(text: str) -> dict[str, str]:
    """Parse a ``.properties`` file as Java does; of repeated keys the last one wins.

    Lines are ``key=value`` or ``key: value``, comments start with # or !, a backslash continues a
    line.
    """
    values: dict[str, str] = {}
    pending = ""
    for raw in text.splitlines():
        line = pending + raw.lstrip()
        pending = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        end = next((i for i, c in enumerate(line) if c in "=:" or c.isspace()), len(line))
        rest = line[end:].lstrip()
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip()
        values[line[:end]] = rest.rstrip().replace("\\\\", "\\")
    return values


# Variables that Kafka's images use for themselves and never turn into keys.
_IMAGE_VARIABLES = (
    "KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME", "KAFKA_JMX_PORT",
    "KAFKA_HOME", "KAFKA_CFG_FILE",
)  # fmt: skip


def properties_from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in ``KAFKA_*`` variables, mapped as Kafka's container images do.

    ``KAFKA_LOG_DIRS`` is ``log.dirs``; ``__`` is an underscore, ``___`` a dash.
    """
    values: dict[str, str] = {}
    for variable, value in sorted(environment.items()):
        if not variable.startswith("KAFKA_") or variable in _IMAGE_VARIABLES:
            continue
        name = variable[len("KAFKA_") :].lower()
        name = name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
        values[name] = value
    return values
