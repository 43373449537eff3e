"""Recipes: JSON, fragments of links, branches; what is malformed is an error in one sentence."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.page.learn.recipe import (
    MAX_ACTIONS,
    MAX_FRAGMENT,
    MAX_JSON_BYTES,
    MAX_US,
    Recipe,
    RecipeError,
    TimedAction,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["broker", "topic", "value"]), st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS
)
ACTIONS = st.lists(
    st.builds(
        TimedAction,
        st.integers(0, MAX_US),
        st.sampled_from(["kill", "produce", "heal_all"]),
        ARGUMENTS,
    ),
    max_size=8,
)
RECIPES = st.builds(
    Recipe,
    st.from_regex("[a-z0-9-]{1,40}", fullmatch=True),
    st.integers(0, 2**53 - 1),
    st.integers(1, 9),
    st.dictionaries(st.sampled_from(["group.x", "log.y"]), TEXTS),
    ACTIONS.map(lambda actions: sorted(actions, key=lambda action: action.t_us)),
    TEXTS,
)
KILLS = Recipe(
    seed=5, actions=[TimedAction(t_us, "kill", {"broker": 1}) for t_us in (10, 20, 20, 30)]
)


@pytest.mark.mission("LEARN-4")
@settings(max_examples=40, deadline=None)
@given(RECIPES)
def test_a_recipe_survives_json_and_links(recipe: Recipe) -> None:
    assert Recipe.from_json(recipe.to_json()) == recipe
    fragment = recipe.to_fragment()
    assert Recipe.from_fragment(fragment) == recipe
    assert fragment.isascii()
    assert fragment.replace("-", "").replace("_", "").isalnum()
    ast.parse(recipe.as_pytest(0, "x"))


def with_field(**changed: Any) -> str:
    return json.dumps({"seed": 1} | changed)


@pytest.mark.mission("LEARN-4")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "a JSON object"),
        ("{}", "no seed"),
        (" " * (MAX_JSON_BYTES + 1), "at most"),
        (with_field(more=1), "no field 'more'"),
        (with_field(seed="1"), "the seed is a whole number"),
        (with_field(seed=True), "the seed is a whole number"),
        (with_field(seed=-1), "the seed is a whole number"),
        (with_field(seed=1.5), "the seed is a whole number"),
        (with_field(brokers=0), "the number of brokers"),
        (with_field(brokers=10), "the number of brokers"),
        (with_field(chapter="../x"), "the chapter"),
        (with_field(chapter='"""'), "the chapter"),
        (with_field(chapter=5), "the chapter"),
        (with_field(version=5), "the version is a text"),
        (with_field(settings=[]), "the settings"),
        (with_field(settings={"A B": "x"}), "'A B' is no name"),
        (with_field(settings={"log.x": 5}), "the setting log.x is a text"),
        (with_field(settings={"log.x": "\ud800"}), "the setting log.x is a text"),
        (with_field(settings={f"log.x{n}": "" for n in range(51)}), "at most 50"),
        (with_field(actions={}), "are a list"),
        (with_field(actions=[[1, "kill"]]), "is a list of a time, a name and arguments"),
        (with_field(actions=["abc"]), "is a list of a time, a name and arguments"),
        (with_field(actions=[["1", "kill", {}]]), "the time of an action"),
        (with_field(actions=[[MAX_US + 1, "kill", {}]]), "the time of an action"),
        (with_field(actions=[[2, "kill", {}], [1, "kill", {}]]), "in order of time"),
        (with_field(actions=[[1, "kill()", {}]]), "'kill()' is no name"),
        (with_field(actions=[[1, 5, {}]]), "5 is no name"),
        (with_field(actions=[[1, "kill", []]]), "the action kill has an object"),
        (with_field(actions=[[1, "kill", {"class": 1}]]), "'class' is no name"),
        (with_field(actions=[[1, "kill", {"broker": 1.5}]]), "the argument broker of kill"),
        (with_field(actions=[[1, "kill", {"broker": None}]]), "the argument broker of kill"),
        (with_field(actions=[[1, "kill", {"broker": "x" * 1_001}]]), "at most 1000 characters"),
        (with_field(actions=[[1, "kill", {}]] * (MAX_ACTIONS + 1)), "at most 500 actions"),
    ],
)
def test_malformed_json_is_a_clear_error(text: str, reason: str) -> None:
    with pytest.raises(RecipeError) as raised:
        Recipe.from_json(text)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(data)).decode()


@pytest.mark.mission("LEARN-4")
@pytest.mark.parametrize(
    "fragment",
    [
        "",
        "x",
        "é",
        "!!!!",
        "AAAA",
        "A" * (MAX_FRAGMENT + 1),
        packed(b" " * (MAX_JSON_BYTES + 1)),  # a bomb
        packed(b"\xff"),
        packed(b"[]"),
        KILLS.to_fragment()[:-4],
        packed(KILLS.to_json().encode() + b"x"),
        base64.urlsafe_b64encode(zlib.compress(KILLS.to_json().encode()) + b"more").decode(),
    ],
)
def test_a_malformed_link_is_a_clear_error(fragment: str) -> None:
    with pytest.raises(RecipeError):
        Recipe.from_fragment(fragment)


@pytest.mark.mission("LEARN-4")
def test_a_recipe_too_long_for_a_link_is_an_error() -> None:
    noise = [hashlib.sha256(b"%d" % number).hexdigest() * 20 for number in range(1_500)]
    actions = [TimedAction(0, "produce", {"value": text[:900]}) for text in noise[:300]]
    with pytest.raises(RecipeError, match="more than"):
        Recipe(actions=actions).to_json()
    short = [TimedAction(0, "produce", {"value": text[:600]}) for text in noise[:300]]
    assert Recipe.from_json(Recipe(actions=short).to_json()).actions == tuple(short)
    many = [
        TimedAction(0, "p", {c * 9: noise[5 * number + i][:64] for i, c in enumerate("abcde")})
        for number in range(300)
    ]
    with pytest.raises(RecipeError, match="too long for a link"):
        Recipe(actions=many).to_fragment()


@pytest.mark.mission("LEARN-5")
def test_an_action_in_the_past_forks_the_recipe() -> None:
    fork = KILLS.until(20).then(20, "start", {"broker": 1})
    assert [(action.t_us, action.name) for action in fork.actions] == [
        (10, "kill"), (20, "kill"), (20, "kill"), (20, "start"),
    ]  # fmt: skip
    assert len(KILLS.actions) == 4
    assert KILLS.until(9).actions == ()
    with pytest.raises(RecipeError, match="in order of time"):
        KILLS.then(29, "start", {"broker": 1})
