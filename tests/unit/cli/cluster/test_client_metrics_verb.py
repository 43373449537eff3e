"""The verb `client-metrics`: its options, and Kafka's words."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import cast

import pytest

from minikafka.cli import main
from minikafka.cli.cluster import client_metrics
from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin.configs import ConfigAlteration, ConfigResource, ConfigValue
from minikafka.core.config_resources import AlterOperation, ConfigSource, ResourceType

KIND = ResourceType.CLIENT_METRICS
DELETE = AlterOperation.DELETE


class FakeAdmin:
    """A cluster with the client metrics resources "a" and "b"."""

    def __init__(self) -> None:
        self.altered: list[tuple[str, list[ConfigAlteration]]] = []

    async def list_config_resources(self, types: Iterable[ResourceType]) -> list[ConfigResource]:
        assert list(types) == [KIND]
        return [ConfigResource(KIND, name) for name in ("a", "b")]

    async def describe_configs(self, kind: ResourceType, name: str) -> dict[str, ConfigValue]:
        source = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
        return {"metrics": ConfigValue("metrics", f"org.{name}", source, False, False)}

    async def incremental_alter_configs(
        self, kind: ResourceType, name: str, changes: Sequence[ConfigAlteration]
    ) -> None:
        self.altered.append((name, list(changes)))


def admin() -> tuple[FakeAdmin, Admin]:
    fake = FakeAdmin()
    return fake, cast(Admin, fake)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "--list"),
        ("--list --name a", "use --describe for one"),
        ("--list --metrics a", "need --alter"),
        ("--describe --generate-name", "need --alter"),
        ("--delete", "name must be specified with --delete"),
        ("--alter --metrics a", "One of --name or --generate-name"),
        ("--alter --name a --generate-name", "One of --name or --generate-name"),
        ("--alter --name a --interval often", "Enter an integer"),
    ],
)
def test_wrong_options(words: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main.main(["client-metrics", "--bootstrap-server", "a:1", *words.split()])
    except SystemExit as ended:
        status = int(ended.code or 0)
    assert status == main.USAGE
    assert complaint in capsys.readouterr().err


def test_an_empty_text_resets_a_key() -> None:
    given = argparse.Namespace(interval="", metrics="a,b", match=None)
    assert client_metrics.alterations(given) == [
        ConfigAlteration("interval.ms", None, DELETE),
        ConfigAlteration("metrics", "a,b"),
    ]


async def test_kafkas_words(capsys: pytest.CaptureFixture[str]) -> None:
    fake, client = admin()
    await client_metrics.alter(client, "a", [ConfigAlteration("metrics", "*")])
    await client_metrics.delete(client, "a")
    await client_metrics.list_names(client, as_json=False)
    await client_metrics.describe(client, None, as_json=False)
    await client_metrics.describe(client, "c", as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "Altered client metrics config for a.",
        "Deleted client metrics config for a.",
        *("a", "b"),
        *("Client metrics configs for a are:", "  metrics=org.a"),
        *("Client metrics configs for b are:", "  metrics=org.b"),
        "The client metric resource c doesn't exist and doesn't have dynamic config.",
    ]
    assert [name for name, _ in fake.altered] == ["a", "a"]
    assert {change.operation for change in fake.altered[1][1]} == {DELETE}


async def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, client = admin()
    await client_metrics.list_names(client, as_json=True)
    assert json.loads(capsys.readouterr().out) == ["a", "b"]
    await client_metrics.describe(client, "a", as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["type"], shown["name"]) == ("client-metric", "a")
    assert shown["configs"][0]["value"] == "org.a"
