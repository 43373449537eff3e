"""Configuration as it is shown to clients: effective values, where they come from, and what else
would count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from minikafka.kernel.config import REQUIRED, Config, ConfigDef, ConfigError, ConfigType, Setting


class ConfigSource(IntEnum):
    """Kafka's numbers in DescribeConfigs and CreateTopics replies."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """``synonyms``: what is set, what would count next without it, and so on."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    documentation: str
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]


class ConfigEntries:
    """The entries of one broker, and of topics on it."""

    def __init__(
        self,
        broker: Config,
        broker_def: ConfigDef,
        topic_def: ConfigDef,
    ) -> None:
        self._broker = broker
        self._broker_def = broker_def
        self._topic_def = topic_def

    def check_topic(self, given: Mapping[str, str]) -> None:
        """Raises ConfigError for what a topic cannot be configured with."""
        self._topic_def.parse(given)

    def broker_entries(self) -> list[ConfigEntry]:
        """All of the broker's settings. They change by a restart only, hence read-only."""
        return [
            _entry(row, self._broker_synonyms(row, [row.name]), read_only=True)
            for row in self._broker_def.settings.values()
        ]

    def topic_entries(self, given: Mapping[str, str]) -> list[ConfigEntry]:
        """All settings of a topic that was configured with ``given``; what other tools wrote and
        this broker does not know is listed without its value."""
        entries = []
        for row in self._topic_def.settings.values():
            synonyms = self._broker_synonyms(row, row.synonyms)
            if row.name in given:
                own = ConfigSynonym(
                    row.name, _text(row, given[row.name]), ConfigSource.TOPIC_CONFIG
                )
                synonyms = (own, *synonyms)
            entries.append(_entry(row, synonyms, read_only=False))
        unknown = sorted(set(given) - set(self._topic_def.settings))
        return entries + [_unknown(name, given[name]) for name in unknown]

    def _broker_synonyms(self, row: Setting, names: Iterable[str]) -> tuple[ConfigSynonym, ...]:
        given = self._broker.given
        names = list(names)
        found = [
            ConfigSynonym(name, _text(row, given[name]), ConfigSource.STATIC_BROKER_CONFIG)
            for name in names
            if name in given
        ]
        if row.default is not None and row.default is not REQUIRED:
            name = names[0] if names else row.name
            found.append(ConfigSynonym(name, row.text(row.default), ConfigSource.DEFAULT_CONFIG))
        return tuple(found)


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
    """Its type is unknown, so it may be a secret."""
    synonym = ConfigSynonym(name, None, ConfigSource.TOPIC_CONFIG)
    return ConfigEntry(
        name, None, ConfigSource.TOPIC_CONFIG, ConfigType.STRING, "", False, True, (synonym,)
    )


def _text(row: Setting, value: str) -> str | None:
    """In Kafka's spelling, or as it stands when it does not parse."""
    try:
        return row.text(row.parse(value))
    except ConfigError:
        return value


def _effective(row: Setting, synonym: ConfigSynonym) -> str | None:
    """What the row is by this synonym, which may be given in another unit."""
    if synonym.value is None:
        return None
    try:
        return row.text(row.parse_synonym(synonym.name, synonym.value))
    except ConfigError:
        return synonym.value
