"""The broker settings that may change at run time: of one broker, or as cluster default."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from minikafka.kernel.config import (
    LISTENER_PREFIX,
    ConfigDef,
    ConfigType,
    Setting,
    at_least,
)
from minikafka.kernel.security_settings import (
    JAAS_CONFIG,
    LIMITS_OF_A_LISTENER,
    OF_MECHANISMS,
    TLS_STORES,
)
from minikafka.kernel.settings import BROKER_CONFIG, MAX_LONG, TOPIC_SETTINGS

# Settings of Kafka's LogCleaner, SocketServer, DynamicThreadPool and others, besides the defaults
# of topics.
_OTHERS = """
    log.cleaner.threads log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size message.max.bytes log.cleaner.io.max.bytes.per.second
    log.cleaner.backoff.ms
    max.connections max.connections.per.ip max.connections.per.ip.overrides
    max.connection.creation.rate
    num.network.threads num.io.threads num.replica.fetchers num.recovery.threads.per.data.dir
    background.threads
    metric.reporters producer.id.expiration.ms transaction.partition.verification.enable
    remote.fetch.max.wait.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
"""
# Of the broker keys that stand for one topic key, Kafka takes the finest unit only.
_COARSE = (".hours", ".minutes", ".scheduler.interval.ms")
_TOPIC_DEFAULTS = frozenset(
    synonym
    for row in TOPIC_SETTINGS
    if row.name != "message.format.version"
    for synonym in row.synonyms
    if not synonym.endswith(_COARSE)
)
# Where a broker listens may be altered at one broker.
_LISTENERS: Final = frozenset(
    {"listeners", "advertised.listeners", "listener.security.protocol.map"}
)
# Kafka's AllDynamicConfigs, without other keys of TLS and SASL. For all listeners these change by
# a restart only here.
DYNAMIC_BROKER_SETTINGS = _TOPIC_DEFAULTS | frozenset(_OTHERS.split()) | TLS_STORES | _LISTENERS

_AT_ONCE = frozenset(
    {
        *_LISTENERS,
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "transaction.partition.verification.enable",
    }
)
# Of these, the settings that take effect at once. The others are stored and described.
EFFECTIVE_AT_ONCE = frozenset(
    row.name
    for row in BROKER_CONFIG.settings.values()
    if row.effective and row.name in _TOPIC_DEFAULTS | _AT_ONCE
)

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
# Settings that exist only at run time: no file has them.
RUN_TIME_SETTINGS: tuple[Setting, ...] = tuple(
    Setting(name, ConfigType.LONG, MAX_LONG, doc, at_least(0))
    for name, doc in (
        (LEADER_RATE, "Bytes a second that leaders send to throttled replicas out of sync."),
        (FOLLOWER_RATE, "Bytes a second that throttled replicas out of sync fetch."),
        (LOG_DIRS_RATE, "Bytes a second moved between log directories."),
    )
)

# What may be written under /config/brokers, with its type where this broker knows one.
DYNAMIC_CONFIG = ConfigDef.of(
    (
        *(row for row in BROKER_CONFIG.settings.values() if row.name in DYNAMIC_BROKER_SETTINGS),
        *RUN_TIME_SETTINGS,
    )
)


# What is stored encrypted. As in Kafka, any key that ends so.
_PASSWORDS: Final = tuple(
    name
    for name in (JAAS_CONFIG, *sorted(TLS_STORES))
    if BROKER_CONFIG.settings[name].type is ConfigType.PASSWORD
)
_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def key_without_prefix(name: str) -> str:
    """Return the key that ``listener.name.NAME.KEY`` or ``listener.name.NAME.MECHANISM.KEY`` sets
    for one listener; other names as they are. As in Kafka, some keys only may have a mechanism."""
    match = _OF_LISTENER.fullmatch(name)
    if match is None:
        return name
    return next((known for known in OF_MECHANISMS if match[1].endswith(known)), match[1])


def is_dynamic(name: str) -> bool:
    """Whether a key may be altered at run time, of all brokers or at least of one."""
    if name.startswith(LISTENER_PREFIX):
        base = key_without_prefix(name)
        known = base in BROKER_CONFIG.settings and base.startswith(("ssl.", "sasl."))
        return known or base in LIMITS_OF_A_LISTENER or BROKER_CONFIG.row(name) is not None
    return name in DYNAMIC_CONFIG.settings


def is_custom(name: str) -> bool:
    """Whether no table has the key. As in Kafka it may be altered at run time, without effect:
    deployments set keys of other vendors. A key that a plug-in reads is not custom."""
    known = BROKER_CONFIG
    return not (
        any(name in keys for keys in (known.settings, known.ignored, known.refused, known.free))
        or name in DYNAMIC_CONFIG.settings
        or name.startswith((LISTENER_PREFIX, *known.plugin_keys))
    )


def is_password(name: str) -> bool:
    """Whether ZooKeeper has the value encrypted."""
    return name.endswith(_PASSWORDS)


def refusal(names: Collection[str], per_broker: bool) -> str | None:
    """Return why these keys cannot be altered at run time, of one broker (``per_broker``) or of
    all; None if they can (Kafka's ``DynamicBrokerConfig.validateConfigs``)."""
    rules: Mapping[str, Collection[str]] = {
        "Cannot update these configs dynamically": {
            n for n in names if not (is_dynamic(n) or is_custom(n))
        },
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix": TLS_STORES.intersection(names),
        "Cannot update these configs at default cluster level, broker id must be specified": {
            n for n in names if not per_broker and _is_of_one_broker(n)
        },
    }
    for why, wrong in rules.items():
        if wrong:
            scala_set = "HashSet" if why.startswith("These security") else "Set"
            return f"{why}: {scala_set}({', '.join(sorted(wrong))})"
    return None


def _is_of_one_broker(name: str) -> bool:
    if name.startswith(LISTENER_PREFIX):
        return key_without_prefix(name) not in LIMITS_OF_A_LISTENER
    return name in TLS_STORES | _LISTENERS


def check_value(name: str, text: str) -> None:
    """Raise ConfigError if the value of a known dynamic key is invalid."""
    row = BROKER_CONFIG.row(name) or DYNAMIC_CONFIG.settings.get(key_without_prefix(name))
    if row is not None:
        row.parse(text)
