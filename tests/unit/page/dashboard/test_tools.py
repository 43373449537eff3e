"""The acts as tools: names, schemas, hints, and what is offered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.acts import ACTS, command
from minikafka.page.dashboard.tooling.tools import (
    allowed_acts,
    input_schema,
    offered_tools,
    refusal,
    tool_name,
)

ROOT = Path(__file__).parents[4]
CHANGING = {name for name, act in ACTS.items() if act.changes}


@pytest.mark.mission("GLASS-60")
def test_without_allowed_acts_every_tool_only_reads() -> None:
    tools = offered_tools(allowed_acts([]), "h:1")
    assert {tool.act.name for tool in tools.values()} == set(ACTS) - CHANGING
    assert not any(tool.destructive for tool in tools.values())
    assert tools["topics_list"].act is ACTS["topics-list"]


@pytest.mark.mission("GLASS-60")
def test_allowed_acts_are_offered_by_either_name() -> None:
    allowed = allowed_acts(["topics-create", "groups_delete", "topics-list"])
    assert allowed == {"topics-create", "groups-delete"}
    offered = {tool.act.name for tool in offered_tools(allowed, "h:1").values()}
    assert offered & CHANGING == allowed
    assert allowed_acts(["all"]) == CHANGING
    assert len(offered_tools(CHANGING, "h:1")) == len(ACTS)


@pytest.mark.mission("GLASS-60")
def test_an_unknown_act_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ActError, match=r"no act topics-craete; did you mean topics-create\?"):
        allowed_acts(["topics-craete"])
    assert "--allow topics-delete" in refusal("topics_delete")
    assert refusal("topic_list") == "there is no tool topic_list; did you mean topics_list?"


@pytest.mark.mission("GLASS-61")
@pytest.mark.parametrize("name", ACTS)
def test_each_act_has_a_name_and_a_schema_that_clients_accept(name: str) -> None:
    act = ACTS[name]
    schema = input_schema(act)
    Draft202012Validator.check_schema(schema)
    assert re.fullmatch(r"[a-z0-9_]{1,64}", tool_name(name))
    assert tool_name(name).replace("_", "-") == name
    assert set(schema["properties"]) - {field.name for field in act.fields} == (
        {"dry_run"} if act.dry_run else set()
    )
    assert all(each["description"] for each in schema["properties"].values())
    tool = offered_tools(CHANGING, "h:1")[tool_name(name)]
    assert f"Runs: minikafka {' '.join(act.verb)} --bootstrap-server h:1" in tool.description
    assert ("changes the cluster" in tool.description) == act.changes


@pytest.mark.mission("GLASS-61")
@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("topics-create", {"topic": "t", "partitions": 3, "config": {"retention.ms": "5"}}, ""),
        ("topics-create", {"partitions": 3}, "topic"),
        ("topics-create", {"topic": "t", "partitions": 0}, "partitions"),
        ("topics-create", {"topic": "t", "partition": 3}, "partition"),
        ("topics-describe", {"topic": ["a", "b"]}, ""),
        ("topics-list", {"exclude_internal": True}, ""),
        ("topics-list", {"exclude_internal": "perhaps"}, "exclude_internal"),
        ("groups-reset-offsets", {"group": "g", "to": "latest"}, ""),
        ("groups-reset-offsets", {"group": "g", "to": "middle"}, "to"),
        ("consume", {"topic": "t", "max_messages": 10**6}, "max_messages"),
    ],
)
def test_schema_and_act_agree(name: str, given: dict[str, object], problem: str) -> None:
    valid = Draft202012Validator(input_schema(ACTS[name])).is_valid(given)
    assert valid == (not problem)
    if valid:
        command(name, given, "h:1")
    else:
        with pytest.raises(ActError, match=problem):
            command(name, given, "h:1")


@pytest.mark.mission("GLASS-61")
def test_hints_name_destructive_and_idempotent_acts() -> None:
    tools = offered_tools(CHANGING, "h:1")
    hints = {tool.act.name: (tool.destructive, tool.idempotent) for tool in tools.values()}
    assert hints["topics-list"] == (False, True)
    assert hints["topics-create"] == (False, True)
    assert hints["produce"] == (False, False)
    assert hints["topics-delete"] == (True, True)
    assert hints["configs-alter"] == (True, True)
    assert hints["groups-reset-offsets"] == (True, False)
    assert all(destroys for name, (destroys, _) in hints.items() if ACTS[name].dangerous)


@pytest.mark.mission("GLASS-61")
def test_the_page_of_the_docs_lists_every_tool() -> None:
    words = set(re.findall(r"`([a-z_-]+)`", (ROOT / "docs" / "how-to" / "mcp.md").read_text()))
    assert {name if name in CHANGING else tool_name(name) for name in ACTS} <= words
