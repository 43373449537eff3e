"""Rows of tables on a terminal: what they say, and which cells are sick."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.cli.cluster import acls, configs, features, tokens, users
from minikafka.cli.groups import transactions
from minikafka.cli.output import Sick, terminal_table
from minikafka.core.client.admin.configs import ConfigValue
from minikafka.core.client.admin.features import FeatureMetadata
from minikafka.core.client.admin.security import SecretToken
from minikafka.core.client.admin.transactions import TransactionDescription
from minikafka.core.config_resources import ConfigSource
from minikafka.core.security.acls import (
    AclBinding,
    AclEntry,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from minikafka.core.security.delegation_tokens import DelegationToken
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.features import Levels
from minikafka.kernel.principals import Principal

pytestmark = pytest.mark.mission("GLASS-162")
RED = "\x1b[1;31m"


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_rule_that_denies_stands_out() -> None:
    entry = AclEntry("User:eve", "*", AclOperation.DESCRIBE_CONFIGS, PermissionType.DENY)
    pattern = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "pay-", PatternType.PREFIXED)
    row = acls.cells(AclBinding(pattern, entry))
    assert row == ("deny", "User:eve", "DescribeConfigs", "transactional id pay-...", "*")
    assert isinstance(row[0], Sick)
    allowed = entry._replace(permission=PermissionType.ALLOW)
    assert not isinstance(acls.cells(AclBinding(pattern, allowed))[0], Sick)


def test_names_of_columns_are_words_between_which_they_fold() -> None:
    columns = ("nextWakeUp", "start_offset", "transactional-id")
    head = terminal_table(columns, [["a", "b", "c"]]).splitlines()[0]
    assert re.sub(r"\x1b\[[0-9;]*m", "", head).split("  ") == [
        *("next wake up", "start offset", "transactional id")
    ]


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal_table(("user",), []).splitlines()[1:] == ["(none)"]
    configs.show_entries([])
    assert capsys.readouterr().out.splitlines()[1:] == ["(none)"]


def test_a_finalized_level_that_the_broker_does_not_support_is_sick() -> None:
    supported = dict.fromkeys("ab", Levels(0, 2))
    rows = features.table_rows(FeatureMetadata(supported, {"a": 2, "b": 3, "c": 1}, 7))
    assert rows == [("a", "0 to 2", "2", 7), ("b", "0 to 2", "3", 7), ("c", "-", "1", 7)]
    assert [isinstance(row[2], Sick) for row in rows] == [False, True, True]


def test_settings_show_what_would_apply_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    topic, default = ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG
    synonyms = (("retention.ms", "1", topic), ("log.retention.ms", "2", default))
    configs.show_entries(
        [
            ConfigValue("retention.ms", "1", topic, False, False, synonyms),
            ConfigValue("password", None, default, False, True, ()),
        ]
    )
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["retention.ms", "1", "dynamic", "topic", "2"]
    assert second.split() == ["password", "(hidden)", "default"]


def test_tokens_are_shown_without_their_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    ann = Principal("User", "ann")
    found = [
        SecretToken(DelegationToken(name, ann, ann, (), 0, 9_000_000, expiry_ms), b"secret")
        for name, expiry_ms in (("old", 60_000), ("new", 7_200_000))
    ]
    tokens.show_table(found, 3_600_000)
    _, old, new = capsys.readouterr().out.splitlines()
    assert (old.startswith("old"), RED in old) == (True, True)
    assert (new.startswith("new"), RED in new) == (True, False)
    assert "c2Vj" not in old + new  # the secret in base64


class Answers:
    """An admin client of one user, and of one transaction that has been open for 9 s."""

    async def describe_scram_credentials(self, users: Any = ()) -> Any:
        return {"ann": {"SCRAM-SHA-256": 4096}}

    async def describe_transactions(self, names: Any) -> Any:
        where = (TopicPartition("orders", 0),)
        return {"pay": TransactionDescription("pay", 1, "Ongoing", 5_000, 1_000, 7, 0, where)}


def test_users_have_a_row_for_each_mechanism(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    args = cast(Any, SimpleNamespace(user=None, json=False))
    assert asyncio.run(users.describe(cast(Any, Answers()), args)) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["ann", "SCRAM-SHA-256", "4096"]


def test_a_transaction_that_is_open_for_too_long_is_sick(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    args = cast(Any, SimpleNamespace(transactional_id="pay", json=False))
    described = transactions.describe(cast(Any, Answers()), args, lambda: 10_000)
    assert asyncio.run(described) == 0
    lines = capsys.readouterr().out.splitlines()
    (sick,) = [line for line in lines if RED in line]
    assert sick.startswith("TransactionDurationMs")
    assert "9000" in sick
    assert max(map(len, lines[1:])) <= 80
