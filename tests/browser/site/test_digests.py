"""The Python of the site plays what CPython plays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from minikafka import dashboard
from minikafka.learn.recipe import Recipe, TimedAction
from tests.support import played_recipes

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


@pytest.mark.mission("LEARN-60")
def test_digests_of_twenty_seeds_are_those_of_cpython(built_site: Path) -> None:
    """The kills end connections with errors, whose numbers differ between the platforms."""
    recipes = json.dumps([recipe(seed).to_json() for seed in range(20)])
    done = subprocess.run(
        ["node", str(PLAY), str(built_site), str(START), played_recipes.__file__],
        input=json.dumps({"recipes": recipes, "until_us": UNTIL_US}),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == json.loads(played_recipes.outcomes(recipes, UNTIL_US))
    assert len({digest for digest, _ in found}) == 20
    assert min(events for _, events in found) > 100
