"""Configuration entries of DescribeConfigs: effective values, their sources, and their synonyms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import dropwhile
from types import MappingProxyType
from typing import TYPE_CHECKING

from minikafka.core.config_resources import SOFTWARE_VERSION, ConfigSource
from minikafka.kernel.compiled import build_name
from minikafka.kernel.config import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigType,
    InvalidConfiguration,
    Setting,
)
from minikafka.kernel.dynamic_settings import RUN_TIME_SETTINGS, is_dynamic, key_without_prefix
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.settings import TOPIC_SETTINGS, topic_defaults
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig

if TYPE_CHECKING:
    from importlib import metadata

    from minikafka.server.broker.admin.named_resources import NamedResource
else:
    metadata = LazyModule("importlib.metadata")


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource, as DescribeConfigs returns it.

    ``synonyms`` are all configured values of the setting by precedence; the first is in effect.
    ``type`` and ``documentation`` are None for the level of a logger."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType | None
    documentation: str | None
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]


class ConfigEntries:
    """Makes the configuration entries of one broker, and of the topics on it."""

    def __init__(
        self,
        broker: DynamicBrokerConfig,
        broker_def: ConfigDef,
        topic_def: ConfigDef,
    ) -> None:
        self._broker = broker
        self._broker_def = broker_def
        self._topic_def = topic_def

    def check_topic(self, given: Mapping[str, str]) -> None:
        """Check the settings of a topic. Raises ConfigError for unknown keys and invalid values."""
        rows = self._topic_def
        for name in given:
            if name not in rows.settings and name not in rows.ignored:
                raise InvalidConfiguration(f"Unknown topic config name: {name}")
        config = rows.parse(given)
        least, most = (config.integer(f"{end}.compaction.lag.ms") for end in ("min", "max"))
        if least > most:
            raise InvalidConfiguration(
                f"conflict topic config setting min.compaction.lag.ms ({least}) > "
                f"max.compaction.lag.ms ({most})"
            )

    def broker_entries(self) -> list[ConfigEntry]:
        """Return all settings of the broker, and the version of the software. Settings that change
        only by a restart are marked read-only. Internal ones are left out unless they are set."""
        given = self._broker.current.given
        rows = [
            *(
                row
                for row in self._broker_def.settings.values()
                if not row.internal or row.name in given
            ),
            *(row for row in RUN_TIME_SETTINGS if self._broker.run_time(row.name) is not None),
        ]
        entries = [self._broker_entry(row) for row in rows]
        altered = self._broker.cluster.keys() | self._broker.own.keys()
        unlisted = (given.keys() | altered) - {row.name for row in rows}
        entries += [
            self._unlisted_entry(name)
            for name in sorted(unlisted - self._broker_def.settings.keys())
        ]
        return [*entries, _software()]

    def _broker_entry(self, row: Setting) -> ConfigEntry:
        synonyms = self._own_synonyms(row)
        if row.name == KRAFT_ID:
            synonyms = tuple(
                ConfigSynonym(KRAFT_ID, s.value, s.source)
                for s in self._named_synonyms([BROKER_ID])
            )
            return _entry(row, synonyms[0].value, synonyms, read_only=True)
        if row.name in self._broker.current.values:
            value = row.text(self._broker.current.values[row.name])
        else:
            value = synonyms[0].value
        return _entry(row, value, synonyms, not is_dynamic(row.name))

    def _unlisted_entry(self, name: str) -> ConfigEntry:
        """Return the entry of a key without a row. A key of one listener has the type of the key
        for all; the value of any other is hidden: it may be a secret."""
        base = self._broker_def.settings.get(key_without_prefix(name))
        if base is None:
            return _hidden(self._named_synonyms([name]))
        row = replace(base, name=name, effective=self._broker_def.row(name) is not None)
        synonyms = self._named_synonyms([name, base.name], row)
        return _entry(row, synonyms[0].value, synonyms, read_only=not is_dynamic(name))

    def cluster_entries(self) -> list[ConfigEntry]:
        """Return the dynamic settings that apply to all brokers."""
        shown = []
        for name, text in sorted(self._broker.cluster.items()):
            row = self._row_of(name)
            synonym = ConfigSynonym(
                name, _text(row, text), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            if row is None:
                shown.append(_hidden([synonym]))
            else:
                shown.append(_entry(row, synonym.value, (synonym,), read_only=False))
        return shown

    def topic_entries(self, given: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings of a topic whose own settings are ``given``. A key in ``given`` that
        this broker does not know is listed without its value."""
        entries = []
        defaults = topic_defaults(self._broker.current)
        for row in self._topic_def.settings.values():
            synonyms = self._named_synonyms(row.synonyms, row)
            value = row.text(defaults[row.name])
            if row.name in given:
                value = _text(row, given[row.name])
                own = ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
                synonyms = (own, *synonyms)
            entries.append(_entry(row, value, synonyms, read_only=False))
        unknown = sorted(set(given) - set(self._topic_def.settings))
        return entries + [_unknown(name, given[name]) for name in unknown]

    def named_entries(self, kind: NamedResource, given: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings of a named resource whose own settings are ``given``. As in Kafka, a
        default of client metrics is no synonym."""
        entries = []
        for row in kind.rows.settings.values():
            broker_key = kind.broker_keys.get(row.name)
            default = self._broker.current.values[broker_key] if broker_key else row.default
            value = row.text(default)
            synonyms: tuple[ConfigSynonym, ...] = ()
            if row.name in given:
                value = _text(row, given[row.name])
                synonyms = (ConfigSynonym(row.name, value, kind.source),)
            elif kind.broker_keys:
                synonyms = (ConfigSynonym(row.name, value, ConfigSource.DEFAULT_CONFIG),)
            entries.append(_entry(row, value, synonyms, read_only=False))
        return entries

    def _row_of(self, name: str) -> Setting | None:
        """Return the row of an altered key, which may be one of a listener or exist only at run
        time; None for a custom key."""
        return self._broker_def.row(name) or _RUN_TIME.get(name)

    def _own_synonyms(self, row: Setting) -> tuple[ConfigSynonym, ...]:
        return self._named_synonyms(_FAMILIES.get(row.name, (row.name,)), row)

    def _named_synonyms(
        self, names: Sequence[str], row: Setting | None = None
    ) -> tuple[ConfigSynonym, ...]:
        """Return the configured values and the defaults of ``names``, by precedence. As in Kafka's
        response, they begin with the first that has the first name. ``row`` is that of a name
        which the configuration file cannot have."""
        rows = self._broker_def.settings
        layers = (
            (self._broker.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._broker.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._broker.static.given, ConfigSource.STATIC_BROKER_CONFIG),
        )
        found = [
            ConfigSynonym(name, _text(rows.get(name) or row, layer[name]), source)
            for layer, source in layers
            for name in names
            if name in layer
        ]
        for name in names:
            known = rows.get(name)
            if known is None and row is not None and row.name == name and name in _RUN_TIME:
                known = row
            if known is not None and known.default is not None and known.default is not REQUIRED:
                text = known.text(known.default)
                found.append(ConfigSynonym(name, text, ConfigSource.DEFAULT_CONFIG))
        return tuple(dropwhile(lambda synonym: synonym.name != names[0], found))


KRAFT_ID = "node.id"  # Kafka shows it with the value of broker.id
BROKER_ID = "broker.id"

# Broker keys for the same setting in different units, finest first (``brokerConfigSynonyms``).
_FAMILIES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        name: row.synonyms[place:]
        for row in TOPIC_SETTINGS
        if len(row.synonyms) > 1
        for place, name in enumerate(row.synonyms)
    }
)
_RUN_TIME: Mapping[str, Setting] = MappingProxyType({row.name: row for row in RUN_TIME_SETTINGS})


@cache
def _software() -> ConfigEntry:
    """Return the entry with the version of minikafka, and whether it is compiled."""
    version = f"{metadata.version('minikafka')} ({build_name()})"
    row = Setting(
        SOFTWARE_VERSION,
        ConfigType.STRING,
        version,
        "The version of minikafka. Not a key of Kafka's: it tells the brokers of both kinds apart.",
    )
    synonym = ConfigSynonym(SOFTWARE_VERSION, version, ConfigSource.DEFAULT_CONFIG)
    return _entry(row, version, (synonym,), read_only=True)


def _entry(
    row: Setting, value: str | None, synonyms: tuple[ConfigSynonym, ...], read_only: bool
) -> ConfigEntry:
    sensitive = row.type is ConfigType.PASSWORD
    if sensitive:
        value = None
        synonyms = tuple(ConfigSynonym(s.name, None, s.source) for s in synonyms)
    return ConfigEntry(
        row.name,
        value,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        row.type,
        row.doc if row.effective else f"{row.doc} No effect on this broker.",
        read_only,
        sensitive,
        synonyms,
    )


def _hidden(synonyms: Sequence[ConfigSynonym]) -> ConfigEntry:
    """Return the entry of a key that no table has. Its value is hidden: it may be a secret."""
    name, source = synonyms[0].name, synonyms[0].source
    hidden = tuple(ConfigSynonym(s.name, None, s.source) for s in synonyms)
    return ConfigEntry(name, None, source, None, None, True, True, hidden)


def _unknown(name: str, value: str) -> ConfigEntry:
    """Return the entry of an unknown topic key. Its value is hidden: it may be a secret."""
    synonym = ConfigSynonym(name, None, ConfigSource.DYNAMIC_TOPIC_CONFIG)
    return ConfigEntry(
        name,
        None,
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigType.STRING,
        "",
        False,
        True,
        (synonym,),
    )


def _text(row: Setting | None, value: str) -> str | None:
    """Return ``value`` in Kafka's spelling; unchanged if it cannot be parsed."""
    if row is None:
        return value
    try:
        return row.text(row.parse(value))
    except ConfigError:
        return value
