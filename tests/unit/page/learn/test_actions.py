"""The table of actions: arguments are checked, with defaults; errors name what is wrong."""

from __future__ import annotations

import keyword
from pathlib import Path

import pytest

from minikafka.page.learn.actions import ACTIONS, check_action
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import Recipe, RecipeError, TimedAction, Value

pytestmark = pytest.mark.mission("LEARN-6")


def test_defaults_are_filled_in() -> None:
    assert check_action("produce", {"records": 5}, 3) == {
        "topic": "t", "records": 5, "acks": "all", "every_ms": 0, "key": "", "value": "",
        "partition": -1, "to": 0, "partitioner": "sticky", "linger_ms": 0,
    }  # fmt: skip
    assert check_action("cut", {"one": "broker-3", "other": "zookeeper"}, 3)["one"] == "broker-3"


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("explode", {}, "there is no action explode; there are start, kill"),
        ("kill", {}, "kill: the argument broker is missing"),
        ("kill", {"broker": 4}, "kill: broker is a whole number from 1 to 3"),
        ("kill", {"broker": 0}, "kill: broker is a whole number from 1 to 3"),
        ("kill", {"broker": True}, "kill: broker is a whole number from 1 to 3"),
        ("kill", {"broker": "1"}, "kill: broker is a whole number from 1 to 3"),
        ("kill", {"broker": 1, "how": "x"}, "kill has no argument how; it has broker"),
        ("heal_all", {"broker": 1}, "heal_all has no argument broker; it has none"),
        ("cut", {"one": "broker-4", "other": "client"}, "cut: one is one of broker-1, broker-2"),
        ("produce", {"topic": "a/b"}, "produce: the name of the topic is invalid"),
        ("produce", {"records": 10_001}, "produce: records is a whole number from 1 to 10000"),
        ("produce", {"acks": "2"}, "produce: acks is one of all, 1, 0"),
        ("produce", {"key": 5}, "produce: key is a text"),
        ("join_group", {"group": ""}, "join_group: group is a text"),
        ("join_group", {"protocol": "new"}, "join_group: protocol is one of classic, consumer"),
        (
            "acknowledge",
            {"acknowledgement": "by_hand"},
            "acknowledge: acknowledgement is one of accept, release, reject",
        ),
    ],
)
def test_wrong_arguments_are_clear_errors(
    name: str, arguments: dict[str, Value], reason: str
) -> None:
    with pytest.raises(RecipeError) as raised:
        check_action(name, arguments, 3)
    assert str(raised.value).startswith(reason)
    with pytest.raises(RecipeError):
        Playback(Recipe(actions=[TimedAction(0, name, arguments)]))


def test_names_can_be_written_in_python() -> None:
    for row in ACTIONS.values():
        for name in (row.name, *(argument.name for argument in row.arguments)):
            assert name.isidentifier()
            assert not keyword.iskeyword(name)
        assert row.title.endswith(".")


@pytest.mark.parametrize(
    "name",
    [
        "authorizer.class.name",
        "alter.config.policy.class.name",
        "replica.selector.class",
        "listeners",
        "ssl.keystore.location",
        "sasl.oauthbearer.jwks.endpoint.url",
        "log.dirs",
        "zookeeper.connect",
    ],
)
def test_a_link_cannot_name_classes_files_or_addresses(name: str) -> None:
    with pytest.raises(RecipeError, match=f"cannot change the setting {name}"):
        Playback(Recipe(settings={name: "x"}))


def test_a_wrong_value_of_a_setting_is_a_clear_error() -> None:
    with pytest.raises(RecipeError, match="cannot be used"):
        Playback(Recipe(settings={"num.partitions": "many"}))


def test_the_documentation_lists_every_action() -> None:
    text = (Path(__file__).parents[4] / "docs" / "tutorial" / "learn.md").read_text()
    assert [name for name in ACTIONS if f"`{name}`" not in text] == []
