"""The Python of the site, in Node: it plays what CPython plays, and all chapters to their ends."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from minikafka.page import dashboard
from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.recipe import Recipe, TimedAction
from minikafka.page.learn.texts import SUMMARY, TITLE, Catalogue
from tests.support import played_recipes, read_chapters

pytestmark = pytest.mark.xdist_group("site")

S = 1_000_000
UNTIL_US = 12 * S
PLAY = Path(__file__).parent / "play.mjs"
START = Path(dashboard.__file__).parent / "static" / "learn" / "python.js"


def recipe(seed: int) -> Recipe:
    """Records and a group, while brokers are killed, come back, and lose a link."""
    victim = seed % 3 + 1
    actions = [
        TimedAction(0, "create_topic", {"topic": "t", "partitions": 2, "replicas": 3}),
        TimedAction(1 * S, "produce", {"records": 20, "every_ms": 50}),
        TimedAction(1 * S, "join_group", {"session_ms": 6_000}),
        TimedAction(1_500_000, "kill", {"broker": victim}),
        TimedAction(7 * S, "start", {"broker": victim}),
        TimedAction(7 * S, "cut", {"one": "broker-2", "other": "broker-3"}),
        TimedAction(8 * S, "produce", {"records": 5, "acks": "1"}),
        TimedAction(9 * S, "heal_all", {}),
        TimedAction(10 * S, "reset", {"one": "client", "other": f"broker-{victim}"}),
    ]
    return Recipe("playground", seed=seed, actions=actions)


def in_pyodide(site: Path, script: ModuleType, function: str, *arguments: object) -> Any:
    """Call a function that returns JSON; return what that stands for."""
    assert script.__file__ is not None
    done = subprocess.run(
        ["node", str(PLAY), str(site), str(START), script.__file__, function],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.mission("LEARN-60")
def test_digests_of_twenty_seeds_are_those_of_cpython(built_site: Path) -> None:
    """The kills end connections with errors, whose numbers differ between the platforms."""
    recipes = json.dumps([recipe(seed).to_json() for seed in range(20)])
    found = in_pyodide(built_site, played_recipes, "outcomes", recipes, UNTIL_US)
    assert found == json.loads(played_recipes.outcomes(recipes, UNTIL_US))
    assert len({digest for digest, _ in found}) == 20
    assert min(events for _, events in found) > 100


@pytest.mark.mission("LEARN-63")
def test_each_chapter_says_all_that_it_has_to_say(built_site: Path) -> None:
    """The sentences come one after the other as the cluster does what they say. A tab sends the
    same requests to the same Python; ``test_tab.py`` reads a few chapters there."""
    chapters = json.dumps([*TABLE.values()])
    found = in_pyodide(built_site, read_chapters, "sentences", chapters)
    for name, keys in zip(TABLE.values(), found, strict=True):
        assert {*keys, TITLE, SUMMARY} == set(Catalogue.of(name).entries), name
