"""Configuration: parsing of files, environment and values; clear errors."""

from pathlib import Path

import pytest

from minikafka.cli.processes.broker import load_config
from minikafka.kernel.config import (
    ConfigError,
    parse_properties,
    properties_from_environment,
)
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG, topic_defaults

ZK = {"zookeeper.connect": "localhost:2181"}


def test_properties_are_read_as_java_reads_them() -> None:
    text = "# comment\n! too\n a = 1\nb: two words \nc=x\\\n   y\nempty=\nd value\nurl=a=b:c\n\\\n"
    assert parse_properties(text) == {
        "a": "1", "b": "two words", "c": "xy", "empty": "", "d": "value", "url": "a=b:c",
    }  # fmt: skip


def test_environment_is_mapped_as_the_images_map_it() -> None:
    environment = {
        "KAFKA_LOG_DIRS": "/a", "KAFKA_X__Y___Z": "1", "KAFKA_HEAP_OPTS": "-Xmx1g", "PATH": "/bin",
    }  # fmt: skip
    assert properties_from_environment(environment) == {"log.dirs": "/a", "x_y-z": "1"}


def test_defaults_are_kafkas() -> None:
    config = BROKER_CONFIG.parse(ZK)
    assert config.boolean("controlled.shutdown.enable") is True
    assert config.integer("controlled.shutdown.max.retries") == 3
    assert config.integer("controlled.shutdown.retry.backoff.ms") == 5000
    assert config.boolean("unclean.leader.election.enable") is False
    assert config.integer("replica.lag.time.max.ms") == 30000
    assert config.optional("broker.rack") is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num.partition": "3"}, "num.partitions"),
        ({"num.partitions": "three"}, "num.partitions"),
        ({"num.partitions": "0"}, "at least 1"),
        ({"num.partitions": str(2**31)}, "Not a number of type INT"),
        ({"delete.topic.enable": "yes"}, "either true or false"),
        ({"zookeeper.connect": ""}, "String must be non-empty"),
    ],
)
def test_a_wrong_key_or_value_is_a_clear_error(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        BROKER_CONFIG.parse(ZK | given)


@pytest.mark.parametrize("text", ["", "*", " * ", "0:1", "0:1, 12:3 ,", "0:1,0:1"])
def test_lists_of_throttled_replicas(text: str) -> None:
    TOPIC_CONFIG.parse({"leader.replication.throttled.replicas": text})


@pytest.mark.parametrize("text", ["none", "0", "0:", "0:1:2", "*,0:1", "*,*", "-1:0", "a:b"])
def test_invalid_throttled_replicas_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must be the literal '\*' or a list of replicas"):
        TOPIC_CONFIG.parse({"follower.replication.throttled.replicas": text})


def test_a_missing_required_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        BROKER_CONFIG.parse({})


def test_known_keys_without_effect_are_reported_not_refused() -> None:
    config = BROKER_CONFIG.parse(ZK | {"num.network.threads": "1", "num.io.threads": "8"})
    assert config.without_effect == ("num.io.threads", "num.network.threads")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("authorizer.zookeeper.url", "broker's ZooKeeper session"),
        ("process.roles", "ZooKeeper"),
    ],
)
def test_keys_whose_effect_an_operator_relies_on_are_refused_with_the_reason(
    name: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=f"{name} is not supported: .*{why}"):
        BROKER_CONFIG.parse(ZK | {name: "x"})


@pytest.mark.mission("SEC-129")
def test_authorizers_of_kafka_are_accepted_and_other_java_classes_are_refused() -> None:
    for name in ("AclAuthorizer", "SimpleAclAuthorizer"):
        room = "authorizer" if name == "AclAuthorizer" else "auth"
        text = f"kafka.security.{room}.{name}"
        config = BROKER_CONFIG.parse(
            ZK | {"authorizer.class.name": text, "super.users": "User:a;User:CN=b,O=c"}
        )
        assert config.string("authorizer.class.name") == text
        assert config.without_effect == ()
    with pytest.raises(ConfigError, match="Java classes are not loaded"):
        BROKER_CONFIG.parse(
            ZK
            | {"authorizer.class.name": ("org.apache.kafka.metadata.authorizer.StandardAuthorizer")}
        )


@pytest.mark.mission("SEC-154")
@pytest.mark.parametrize("kind", ["create.topic", "alter.config"])
def test_policies_of_java_are_refused(kind: str) -> None:
    key = f"{kind}.policy.class.name"
    with pytest.raises(ConfigError, match="the policy would not be applied"):
        BROKER_CONFIG.parse(ZK | {key: "com.example.Policy"})
    given = {key: "policies:Policy", f"{kind}.policy.limit": "5"}
    assert BROKER_CONFIG.parse(ZK | given).without_effect == ()


def test_keys_of_an_authorizer_need_its_class() -> None:
    key = "authorizer.policy.file"
    with pytest.raises(ConfigError, match="Unknown configuration key"):
        BROKER_CONFIG.parse(ZK | {key: "p"})
    given = ZK | {key: "p", "authorizer.class.name": "mine.policies:Policy"}
    assert BROKER_CONFIG.parse(given).without_effect == ()


@pytest.mark.mission("SEC-153")
def test_the_login_at_zookeeper_is_found_in_kafka_opts(tmp_path: Path) -> None:
    options = "-Xmx1g '-Djava.security.auth.login.config=/etc/kafka/my zk.jaas' -Dother=1"
    given = ["zookeeper.connect=z:1"]
    config = load_config(None, {"KAFKA_OPTS": options}, given)
    assert config.optional("java.security.auth.login.config") == "/etc/kafka/my zk.jaas"
    file = tmp_path / "server.properties"
    file.write_text("java.security.auth.login.config=/own.jaas\n")
    config = load_config(str(file), {"KAFKA_OPTS": options}, given)
    assert config.optional("java.security.auth.login.config") == "/own.jaas"
    with pytest.raises(ConfigError, match="KAFKA_OPTS: No closing quotation"):
        load_config(None, {"KAFKA_OPTS": "-Da='"}, given)


def test_topic_defaults_come_from_the_broker() -> None:
    config = BROKER_CONFIG.parse(ZK | {"log.segment.bytes": "1000", "log.retention.ms": "5"})
    defaults = topic_defaults(config)
    assert defaults["segment.bytes"] == 1000
    assert defaults["retention.ms"] == 5
    assert defaults["cleanup.policy"] == ("delete",)


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({}, 604800000),
        ({"log.retention.hours": "2"}, 7200000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180000),
        ({"log.retention.minutes": "3", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-2"}, -1),
        ({"log.retention.hours": "0", "log.retention.minutes": "-9"}, -1),
    ],
)
def test_hours_and_minutes_give_way_to_milliseconds(
    given: dict[str, str], retention_ms: int
) -> None:
    defaults = topic_defaults(BROKER_CONFIG.parse(ZK | given))
    assert defaults["retention.ms"] == retention_ms
    defaults = topic_defaults(
        BROKER_CONFIG.parse(ZK | {"log.roll.hours": "1", "log.roll.jitter.hours": "2"})
    )
    assert (defaults["segment.ms"], defaults["segment.jitter.ms"]) == (3600000, 7200000)
    for unit in ("ms", "minutes", "hours"):
        with pytest.raises(ConfigError, match=r"log\.retention\.ms must be unlimited"):
            BROKER_CONFIG.parse(ZK | {f"log.retention.{unit}": "0"})


def test_every_default_passes_its_own_validator() -> None:
    for definition in (BROKER_CONFIG, TOPIC_CONFIG):
        for row in definition.settings.values():
            if row.name != "zookeeper.connect" and row.default is not None:
                assert row.parse(row.text(row.default)) == row.default, row.name
