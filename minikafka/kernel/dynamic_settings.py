"""The broker settings that may change at run time: of one broker, or as cluster default."""

from __future__ import annotations

from minikafka.kernel.config import ConfigDef, ConfigType, Setting, at_least
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
# Kafka's AllDynamicConfigs, without listeners and TLS, which change by a restart only here.
DYNAMIC_BROKER_SETTINGS = _TOPIC_DEFAULTS | frozenset(_OTHERS.split())

_AT_ONCE = frozenset(
    {
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


def is_dynamic(name: str) -> bool:
    return name in DYNAMIC_CONFIG.settings
