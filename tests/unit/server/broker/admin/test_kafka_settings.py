"""The settings that DescribeConfigs shows are those of Apache Kafka 3.9.1 in ZooKeeper mode.

The table was read from an official broker and its ``ConfigDef`` objects.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from minikafka.core.config_resources import ConfigSource
from minikafka.kernel.config import ConfigDef, ConfigError, ConfigType
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG
from minikafka.server.broker.admin.config_entries import ConfigEntries, ConfigEntry, ConfigSynonym
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig

TABLE = Path(__file__).parents[4] / "support" / "broker" / "kafka_3_9_1_settings.txt"
ZOOKEEPER = {"zookeeper.connect": "z:1"}
NOT_KAFKAS = {
    "client.memory.max.bytes",
    "debug.listener",
    "event.loop.stall.threshold.ms",
    "java.security.auth.login.config",
    "log.scrubber.bytes.per.second",
    "log.scrubber.interval.ms",
    "max.partitions.per.topic",
    "metrics.listener",
    "minikafka.fast.failover",
    "minikafka.version",
    "zookeeper.sasl.client",
    "zookeeper.sasl.clientconfig",
}
OF_KAFKA_4 = {
    "add.partitions.to.txn.retry.backoff.max.ms",
    "add.partitions.to.txn.retry.backoff.ms",
    "group.share.assignors",
    "group.share.max.share.sessions",
    "group.streams.heartbeat.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.max.heartbeat.interval.ms",
    "group.streams.max.session.timeout.ms",
    "group.streams.max.size",
    "group.streams.max.standby.replicas",
    "group.streams.min.heartbeat.interval.ms",
    "group.streams.min.session.timeout.ms",
    "group.streams.num.standby.replicas",
    "group.streams.session.timeout.ms",
    "share.coordinator.append.linger.ms",
    "share.coordinator.load.buffer.size",
    "share.coordinator.snapshot.update.records.per.snapshot",
    "share.coordinator.state.topic.compression.codec",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.segment.bytes",
    "share.coordinator.threads",
    "share.coordinator.write.timeout.ms",
    "share.fetch.purgatory.purge.interval.requests",
}
# Type and default of the keys that Kafka 4.2 defines otherwise, and those whose limits differ.
CHANGED_IN_KAFKA_4 = (
    ("group.share.max.size", "int", "200"),
    ("group.share.partition.max.record.locks", "int", "2000"),
)
OTHER_LIMITS = {"group.share.max.size", "group.share.record.lock.duration.ms"}
# As Kafka says, these change while it runs, yet they count for new listeners only. Here only a
# restart changes them.
BY_RESTART_ONLY = re.compile(
    r"principal\.builder\.class|ssl\.(?!key\.|keystore\.|truststore\.).*|sasl\..*"
)


class Row(NamedTuple):
    resource: str
    name: str
    type: str
    default: str
    range: str
    flags: str

    @property
    def limits(self) -> list[int]:
        """The smallest value and, where there is one, the largest."""
        return [int(number) for number in re.findall(r"-?\d+", self.range)]


ROWS = [
    Row(*line.split("\t")) for line in TABLE.read_text().splitlines() if not line.startswith("#")
]
DEFINITIONS = {"broker": BROKER_CONFIG, "topic": TOPIC_CONFIG}


def described(given: dict[str, str]) -> tuple[dict[str, ConfigEntry], dict[str, ConfigEntry]]:
    """Return the entries of a broker with these settings, and those of a topic on it."""
    dynamic = DynamicBrokerConfig(BROKER_CONFIG.parse(ZOOKEEPER | given))
    entries = ConfigEntries(dynamic, BROKER_CONFIG, TOPIC_CONFIG)
    return (
        {entry.name: entry for entry in entries.broker_entries()},
        {entry.name: entry for entry in entries.topic_entries({})},
    )


def as_row(resource: str, entry: ConfigEntry) -> tuple[str, ...]:
    kind = "" if entry.type is None else entry.type.kafka_type.name.lower()
    value = "~" if entry.value is None else entry.value
    flags = ("r" if entry.read_only else "") + ("s" if entry.sensitive else "")
    return resource, entry.name, kind, value, flags or "-"


@pytest.mark.mission("MIX-20")
@pytest.mark.parametrize("resource", ["broker", "topic"])
def test_settings_are_described_as_by_kafka(resource: str) -> None:
    entries = described({})[resource == "topic"]
    expected = {
        row.name: (row.resource, row.name, row.type, row.default, row.flags)
        for row in ROWS
        if row.resource == resource and "i" not in row.flags
    }
    if resource == "broker":
        assert len(expected) == 314
        assert entries.keys() - expected.keys() == NOT_KAFKAS | OF_KAFKA_4
        value = expected["zookeeper.connect"]
        expected["zookeeper.connect"] = (*value[:3], "z:1", value[4])
        value = expected["group.coordinator.rebalance.protocols"]
        assert value[3] == "classic"  # Kafka 3.9 has consumer with KRaft only
        expected["group.coordinator.rebalance.protocols"] = (
            *value[:3],
            "classic,consumer,share,streams",
            "r",
        )
        for name, kind, default in CHANGED_IN_KAFKA_4:
            expected[name] = ("broker", name, kind, default, "r")
        value = expected["listeners"]
        expected["listeners"] = (*value[:3], "PLAINTEXT://localhost:9092", value[4])
        for name, value in expected.items():
            if "r" not in value[4] and BY_RESTART_ONLY.fullmatch(name):
                expected[name] = (*value[:4], "r" + value[4].strip("-"))
        assert sum(map(bool, map(BY_RESTART_ONLY.fullmatch, expected))) > 30
    else:
        assert entries.keys() == expected.keys()
    assert {name: as_row(resource, entries[name]) for name in expected} == expected
    assert all(entry.documentation for entry in entries.values())


@pytest.mark.mission("MIX-20")
@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.limits and row.name not in OTHER_LIMITS],
    ids=lambda row: row.name,
)
def test_values_have_kafka_s_limits(row: Row) -> None:
    rows: ConfigDef = DEFINITIONS[row.resource]
    setting = rows.settings[row.name]
    required = ZOOKEEPER if row.resource == "broker" else {}
    for limit, outside in zip(row.limits, (-1, 1), strict=False):
        assert setting.parse(str(limit)) == limit
        with pytest.raises(ConfigError, match=row.name):
            rows.parse(required | {row.name: str(limit + outside)})


@pytest.mark.mission("MIX-20")
def test_internal_keys_are_shown_only_if_they_are_set() -> None:
    internal = {row.name for row in ROWS if "i" in row.flags}
    assert internal <= BROKER_CONFIG.settings.keys()
    assert not internal & described({})[0].keys()
    entries, _ = described({"group.coordinator.new.enable": "false"})
    assert internal & entries.keys() == {"group.coordinator.new.enable"}
    assert entries["group.coordinator.new.enable"].source is ConfigSource.STATIC_BROKER_CONFIG


@pytest.mark.mission("MIX-20")
def test_synonyms_are_those_of_kafka() -> None:
    """Recorded from Apache Kafka 3.9.1 with these settings."""
    static, default = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG
    broker, topic = described(
        {
            "broker.id": "7",
            "log.retention.minutes": "600",
            "log.roll.hours": "99",
            "ssl.keystore.password": "secret",
            "listener.name.plaintext.ssl.keystore.type": "PEM",
            "listener.name.plaintext.plain.sasl.jaas.config": "secret",
            "listener.name.plaintext.plain.connections.max.reauth.ms": "7",
            "advertised.port": "9",
        }
    )

    def synonyms(entry: ConfigEntry) -> list[tuple[str, str | None, ConfigSource]]:
        return [(s.name, s.value, s.source) for s in entry.synonyms]

    assert synonyms(broker["log.retention.minutes"]) == [
        ("log.retention.minutes", "600", static),
        ("log.retention.hours", "168", default),
    ]
    assert (broker["log.roll.ms"].value, broker["log.roll.ms"].synonyms) == (None, ())
    assert synonyms(broker["node.id"]) == [("node.id", "7", static), ("node.id", "-1", default)]
    assert broker["node.id"].value == "7"
    password = broker["ssl.keystore.password"]
    assert (password.value, password.source, password.sensitive) == (None, static, True)
    assert synonyms(password) == [("ssl.keystore.password", None, static)]
    of_listener = broker["listener.name.plaintext.ssl.keystore.type"]
    assert (of_listener.value, of_listener.type) == ("PEM", ConfigType.STRING)
    assert synonyms(of_listener) == [
        ("listener.name.plaintext.ssl.keystore.type", "PEM", static),
        ("ssl.keystore.type", "JKS", default),
    ]
    jaas = broker["listener.name.plaintext.plain.sasl.jaas.config"]
    assert (jaas.value, jaas.type, jaas.sensitive) == (None, ConfigType.PASSWORD, True)
    assert "secret" not in repr(jaas)
    of_mechanism = broker["listener.name.plaintext.plain.connections.max.reauth.ms"]
    assert (of_mechanism.value, of_mechanism.type) == ("7", ConfigType.LONG)
    removed = broker["advertised.port"]
    assert (removed.value, removed.type, removed.sensitive) == (None, None, True)
    assert removed.synonyms == (ConfigSynonym("advertised.port", None, static),)
    for name, value in (("retention.ms", "36000000"), ("segment.ms", "356400000")):
        assert (topic[name].value, topic[name].source, topic[name].synonyms) == (value, default, ())
    assert synonyms(topic["local.retention.ms"]) == [("log.local.retention.ms", "-2", default)]


@pytest.mark.mission("MIX-20")
@pytest.mark.parametrize(
    ("name", "harmless", "refused"),
    [
        ("process.roles", "", "broker"),
        ("zookeeper.ssl.crl.enable", "false", "true"),
        ("zookeeper.ssl.ocsp.enable", "false", "true"),
        ("remote.log.storage.system.enable", "FALSE", "true"),
        ("node.id", "-1", "4"),
    ],
)
def test_a_refused_key_may_have_its_default(name: str, harmless: str, refused: str) -> None:
    assert BROKER_CONFIG.parse(ZOOKEEPER | {name: harmless}).without_effect == (name,)
    with pytest.raises(ConfigError, match=f"{name} is not supported"):
        BROKER_CONFIG.parse(ZOOKEEPER | {name: refused})
