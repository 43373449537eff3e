"""Configuration entries of DescribeConfigs: effective values, their sources, and their synonyms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from types import MappingProxyType

from minikafka.broker.admin.dynamic_config import DynamicBrokerConfig
from minikafka.core.config_resources import ConfigSource
from minikafka.kernel.config import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigType,
    InvalidConfiguration,
    Setting,
)
from minikafka.kernel.dynamic_settings import RUN_TIME_SETTINGS, is_dynamic
from minikafka.kernel.settings import TOPIC_SETTINGS


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
        """Return all settings of the broker. Settings that change only by a restart are marked
        read-only."""
        rows = [*self._broker_def.settings.values(), *self._altered(self._broker.cluster)]
        known = {row.name for row in rows}
        rows += [row for row in self._altered(self._broker.own) if row.name not in known]
        return [_entry(row, self._own_synonyms(row), not is_dynamic(row.name)) for row in rows]

    def cluster_entries(self) -> list[ConfigEntry]:
        """Return the dynamic settings that apply to all brokers."""
        shown = []
        for name, text in sorted(self._broker.cluster.items()):
            row = self._broker_def.settings.get(name) or _unlisted(name)
            synonym = ConfigSynonym(
                name, _text(row, text), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            )
            shown.append(_entry(row, (synonym,), read_only=False))
        return shown

    def topic_entries(self, given: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings of a topic whose own settings are ``given``. A key in ``given`` that
        this broker does not know is listed without its value."""
        entries = []
        for row in self._topic_def.settings.values():
            synonyms = self._broker_synonyms(row, row.synonyms)
            if row.name in given:
                own = ConfigSynonym(
                    row.name, _text(row, given[row.name]), ConfigSource.DYNAMIC_TOPIC_CONFIG
                )
                synonyms = (own, *synonyms)
            entries.append(_entry(row, synonyms, read_only=False))
        unknown = sorted(set(given) - set(self._topic_def.settings))
        return entries + [_unknown(name, given[name]) for name in unknown]

    def _altered(self, layer: Mapping[str, str]) -> list[Setting]:
        """Return a row for each key of ``layer`` that the broker's configuration file cannot
        have."""
        return [_unlisted(name) for name in sorted(layer.keys() - self._broker_def.settings.keys())]

    def _own_synonyms(self, row: Setting) -> tuple[ConfigSynonym, ...]:
        """Return the synonyms of a broker setting. As in Kafka's response, they begin with the
        first that has the setting's own name."""
        found = self._broker_synonyms(row, _FAMILIES.get(row.name, (row.name,)))
        return tuple(dropwhile(lambda synonym: synonym.name != row.name, found))

    def _broker_synonyms(self, row: Setting, names: Sequence[str]) -> tuple[ConfigSynonym, ...]:
        layers = (
            (self._broker.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (self._broker.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self._broker.static.given, ConfigSource.STATIC_BROKER_CONFIG),
        )
        found = [
            ConfigSynonym(name, _text(row, layer[name]), source)
            for layer, source in layers
            for name in names
            if name in layer
        ]
        if row.default is not None and row.default is not REQUIRED:
            name = names[0] if names else row.name
            found.append(ConfigSynonym(name, row.text(row.default), ConfigSource.DEFAULT_CONFIG))
        return tuple(found)


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


def _unlisted(name: str) -> Setting:
    """Return the row of a setting that exists only at run time. Any other name gets a row of type
    STRING: it is stored and has no effect."""
    return _RUN_TIME.get(name) or Setting(name, ConfigType.STRING, None, "")


def _entry(row: Setting, synonyms: tuple[ConfigSynonym, ...], read_only: bool) -> ConfigEntry:
    sensitive = row.type is ConfigType.PASSWORD
    if sensitive:
        synonyms = tuple(ConfigSynonym(s.name, None, s.source) for s in synonyms)
    return ConfigEntry(
        row.name,
        _effective(row, synonyms[0]) if synonyms else None,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        row.type,
        row.doc,
        read_only,
        sensitive,
        synonyms,
    )


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


def _text(row: Setting, value: str) -> str | None:
    """Return ``value`` in Kafka's spelling; unchanged if it cannot be parsed."""
    try:
        return row.text(row.parse(value))
    except ConfigError:
        return value


def _effective(row: Setting, synonym: ConfigSynonym) -> str | None:
    """Return the value of ``row`` that ``synonym`` gives, converted from the synonym's unit."""
    if synonym.value is None:
        return None
    try:
        return row.text(row.parse_synonym(synonym.name, synonym.value))
    except ConfigError:
        return synonym.value
