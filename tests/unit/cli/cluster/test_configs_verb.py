"""The verb `configs`: what is meant, what is set, what is printed; asked of fake brokers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli import main
from minikafka.cli.cluster import configs
from minikafka.cli.cluster.configs import entry_line, parse_added, quota_entity, quota_work
from minikafka.core.client.admin.configs import (
    ANY_NAME,
    CLUSTER_DEFAULT,
    ConfigAlteration,
    ConfigValue,
    DescribedQuota,
)
from minikafka.core.client.admin.topics import ClusterDescription
from minikafka.core.client.cluster_view import Node
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType
from minikafka.kernel.config import ConfigError

S = ConfigSource
OWN = ConfigValue(
    "retention.ms",
    "7",
    S.DYNAMIC_TOPIC_CONFIG,
    False,
    False,
    (
        ("retention.ms", "7", S.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "9", S.STATIC_BROKER_CONFIG),
    ),
)
DEFAULT = ConfigValue("cleanup.policy", "delete", S.DEFAULT_CONFIG, False, False)
SECRET = ConfigValue("secret", None, S.DYNAMIC_TOPIC_CONFIG, False, True)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configs.add_arguments(parser)
    return parser.parse_args(["--bootstrap-server", "a:1", *words])


class FakeAdmin:
    def __init__(self, rows: Sequence[ConfigValue] = (OWN, DEFAULT, SECRET)) -> None:
        self.rows = rows
        self.altered: list[Any] = []

    async def describe_configs(self, kind: ResourceType, name: str) -> dict[str, ConfigValue]:
        return {row.name: row for row in self.rows}

    async def incremental_alter_configs(self, *asked: Any) -> None:
        self.altered.append(asked)

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", 1, (Node(1, "a", 1), Node(3, "b", 1)))


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("a.b=1", {"a.b": "1"}),
        ("a=1, b = 2", {"a": "1", "b": "2"}),
        ("a=[x,y],b=", {"a": "x,y", "b": ""}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_added_configs_are_parsed(text: str, added: dict[str, str]) -> None:
    assert parse_added(text) == added


@pytest.mark.parametrize("text", ["a", "", "a=1,b", "a b=1", "=1"])
def test_invalid_added_configs_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_added(text)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--entity-type topics --entity-name t", (ResourceType.TOPIC, "t")),
        ("--topic t", (ResourceType.TOPIC, "t")),
        ("--entity-type topics", (ResourceType.TOPIC, None)),
        ("--entity-type brokers --entity-name 2", (ResourceType.BROKER, "2")),
        ("--broker 2", (ResourceType.BROKER, "2")),
        ("--entity-type brokers --entity-default", (ResourceType.BROKER, CLUSTER_DEFAULT)),
        ("--broker-logger 2", (ResourceType.BROKER_LOGGER, "2")),
        ("--client-metrics all", (ResourceType.CLIENT_METRICS, "all")),
        ("--entity-type broker-loggers --entity-name 2", (ResourceType.BROKER_LOGGER, "2")),
        ("--broker-defaults", (ResourceType.BROKER, CLUSTER_DEFAULT)),
        ("--entity-type brokers", (ResourceType.BROKER, None)),
    ],
)
def test_entity_is_parsed_from_the_options(words: str, meant: Any) -> None:
    assert configs.entity(parsed("--describe", *words.split())) == meant


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--describe", "name an entity"),
        ("--describe --entity-type client-metrics --entity-default", "have no defaults"),
        ("--alter --entity-type client-metrics --add-config a=1", "needs an entity name"),
        ("--describe --entity-type topics --entity-default", "settings of the brokers"),
        ("--describe --broker one", "The entity name for brokers must be a valid integer"),
        ("--describe --broker-logger one", "for broker-loggers must be a valid integer"),
        ("--describe --entity-type broker-loggers", "an entity name must be specified"),
        ("--describe --entity-type broker-loggers --entity-default", "belong to one broker"),
        ("--describe --entity-type topics --topic t", "short form"),
        ("--describe --topic t --add-config a=1", "changes nothing"),
        ("--alter --topic t", "needs --add-config"),
        ("--alter --entity-type topics --add-config a=1", "needs an entity name"),
        ("--alter --topic t --add-config a=1 --delete-config a", "to be set and to be deleted: a"),
        ("--alter --topic t --add-config a", "key=val"),
        ("--describe --entity-type users --entity-type topics", "only users and clients"),
        ("--describe --entity-type brokers --entity-type brokers", "only users and clients"),
        ("--describe --user u --entity-type users", "short form"),
        ("--describe --user u --entity-name v", "more entity names than types"),
        ("--describe --user u --user-defaults", "cannot be combined"),
        ("--describe --ip 1.2.3.4 --user u", "addresses cannot be combined"),
        ("--alter --entity-type users --add-config a=1", "needs an entity name"),
        ("--alter --user u --add-config a=x", "a must be a number, not 'x'"),
    ],
)
def test_wrong_options_are_one_line(
    words: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["configs", "--bootstrap-server", "a:1", *words.split()]) == main.USAGE
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1


def test_files_and_repeated_deletions(tmp_path: Path) -> None:
    file = tmp_path / "more.properties"
    file.write_text("# what is to be\nx=1\ny=2\n")
    wish = parsed(
        *("--alter", "--topic", "t", "--add-config-file", str(file), "--add-config", "y=3"),
        *("--delete-config", "p, q", "--delete-config", "p"),
    )
    delete = AlterOperation.DELETE
    assert configs.alterations(wish) == [
        ConfigAlteration("x", "1"),
        ConfigAlteration("y", "3"),
        ConfigAlteration("p", None, delete),
        ConfigAlteration("q", None, delete),
    ]


def test_kafkas_lines() -> None:
    assert entry_line(OWN) == (
        "  retention.ms=7 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7, "
        "STATIC_BROKER_CONFIG:log.retention.ms=9}"
    )
    assert entry_line(SECRET) == "  secret=null sensitive=true synonyms={}"


async def test_described_are_own_settings_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    admin: Any = FakeAdmin()
    assert await configs.describe(admin, ResourceType.TOPIC, ["t"], False, False) == 0
    own = capsys.readouterr().out.splitlines()
    assert own == ["Dynamic configs for topic t are:", entry_line(OWN), entry_line(SECRET)]
    await configs.describe(admin, ResourceType.TOPIC, ["t"], True, False)
    everything = capsys.readouterr().out.splitlines()
    assert everything[0] == "All configs for topic t are:"
    assert everything[1].startswith("  cleanup.policy=delete")
    names = await configs.all_names(admin, ResourceType.BROKER)
    assert names == ["1", "3", CLUSTER_DEFAULT]
    await configs.describe(admin, ResourceType.BROKER, [CLUSTER_DEFAULT], False, False)
    assert capsys.readouterr().out == "Default configs for brokers in the cluster are:\n"


async def test_described_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    admin: Any = FakeAdmin()
    await configs.describe(admin, ResourceType.TOPIC, ["t"], False, True)
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["type"], told["name"]) == ("topic", "t")
    assert told["configs"][0]["synonyms"][1] == {
        "name": "log.retention.ms",
        "value": "9",
        "source": "STATIC_BROKER_CONFIG",
    }


async def test_altered(capsys: pytest.CaptureFixture[str]) -> None:
    admin: Any = FakeAdmin()
    changes = [
        ConfigAlteration("a", "1"),
        ConfigAlteration("retention.ms", None, AlterOperation.DELETE),
    ]
    assert await configs.alter(admin, ResourceType.TOPIC, "t", changes) == 0
    assert admin.altered == [(ResourceType.TOPIC, "t", changes)]
    assert capsys.readouterr().out == "Completed updating config for topic t.\n"
    await configs.alter(admin, ResourceType.BROKER, CLUSTER_DEFAULT, changes[:1])
    assert "default config for brokers" in capsys.readouterr().out


async def test_deleting_a_config_that_is_not_set_is_refused() -> None:
    admin: Any = FakeAdmin()
    changes = [ConfigAlteration("cleanup.policy", None, AlterOperation.DELETE)]
    with pytest.raises(ConfigError, match=r"Invalid config\(s\): cleanup.policy"):
        await configs.alter(admin, ResourceType.TOPIC, "t", changes)
    assert admin.altered == []


@pytest.mark.mission("SEC-150")
@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("--entity-type users", {"user": ANY_NAME}),
        ("--entity-type users --entity-name u", {"user": "u"}),
        ("--entity-type clients --entity-default", {"client-id": None}),
        (
            "--entity-type users --entity-default --entity-type clients --entity-name c",
            {"user": None, "client-id": "c"},
        ),
        (
            "--entity-type users --entity-name u --entity-type clients",
            {"user": "u", "client-id": ANY_NAME},
        ),
        ("--user u --client-defaults", {"user": "u", "client-id": None}),
        ("--ip 1.2.3.4", {"ip": "1.2.3.4"}),
        ("--ip-defaults", {"ip": None}),
        ("--topic t", None),
        ("--entity-type brokers", None),
    ],
)
def test_users_clients_and_addresses_are_parsed(words: str, meant: Any) -> None:
    assert quota_entity(parsed("--describe", *words.split())) == meant


class FakeQuotas:
    def __init__(self) -> None:
        self.altered: list[Any] = []

    async def describe_client_quotas(self, entity: Any) -> list[DescribedQuota]:
        limits = {"producer_byte_rate": 1e7, "request_percentage": 5.5}
        return [DescribedQuota({"client-id": "c", "user": None}, limits)]

    async def alter_client_quotas(self, *requested: Any) -> None:
        self.altered.append(requested)


@pytest.mark.mission("SEC-150")
async def test_quotas_are_described_and_altered_with_kafkas_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin: Any = FakeQuotas()
    entity = {"user": None, "client-id": "c"}
    await quota_work(entity, [], as_json=False)(admin)
    changes = [
        ConfigAlteration("producer_byte_rate", "1024"),
        ConfigAlteration("request_percentage", None, AlterOperation.DELETE),
    ]
    await quota_work(entity, changes, as_json=False)(admin)
    assert admin.altered == [
        (entity, [("producer_byte_rate", 1024.0), ("request_percentage", None)])
    ]
    await quota_work({"ip": "::1"}, changes[:1], as_json=False)(admin)
    assert capsys.readouterr().out.splitlines() == [
        (
            "Quota configs for the default user-principal, client-id 'c' are "
            "producer_byte_rate=1.0E7, request_percentage=5.5"
        ),
        "Completed updating default config for users in the cluster.",
        "Completed updating config for ip ::1.",
    ]
    gone = [ConfigAlteration("consumer_byte_rate", None, AlterOperation.DELETE)]
    with pytest.raises(ConfigError, match="consumer_byte_rate"):
        await quota_work(entity, gone, as_json=False)(admin)
