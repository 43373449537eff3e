"""A simulation that fails can be looked at: exactly if a recipe made it, else one like it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import Recipe, RecipeReport, Value, read_report
from minikafka.testing.simulator.checkers import ElectionChecker, check_at_rest
from minikafka.testing.simulator.cluster import NotReached, SimCluster
from minikafka.testing.simulator.faults import (
    all_without_zookeeper,
    cut_off_from_one,
    disconnected,
    isolated,
    killed,
    powerless,
    refused,
    stopped,
)
from tests.support.simulated.recipe_notes import noting
from tests.support.simulated.scenario import under_load

S = 1_000_000
FIRST = TopicPartition("t", 0)


def note_of(error: BaseException) -> RecipeReport:
    """Return the recipe in an error's last note, which has it as JSON and as a link."""
    text, _, link = error.__notes__[-1].splitlines()[-3:]
    report = read_report(text)
    path, _, query = link.partition("?")
    fields = dict(field.split("=", 1) for field in query.split("&"))
    assert path == "#/stage"
    assert RecipeReport(Recipe.from_fragment(fields["recipe"]), int(fields["t"])) == report
    return report


@pytest.mark.mission("LEARN-28")
def test_a_simulation_that_fails_has_a_recipe_with_its_faults(tmp_path: Path) -> None:
    async def scenario(cluster: SimCluster) -> None:
        async def faults(cluster: SimCluster) -> None:
            await stopped(cluster, 1, 2.0)
            await killed(cluster, 2, 3.0)
            await powerless(cluster, 3, 1.0)
            await isolated(cluster, 1, 2.0)
            await disconnected(cluster, 2, 1.0)
            await cut_off_from_one(cluster, 3, 1.0)
            await refused(cluster, 2, 1.0)
            await all_without_zookeeper(cluster, 1, 1.0)
            raise NotReached("what was hoped for")

        await under_load(cluster, faults)

    run = noting(SimCluster.run, lambda: tmp_path)
    with pytest.raises(NotReached) as raised:
        run(SimCluster(4), scenario)
    report = note_of(raised.value)
    (file,) = tmp_path.iterdir()
    assert read_report(file.read_text()) == report
    recipe = report.recipe
    assert (recipe.seed, recipe.brokers) == (4, 3)
    found = [(action.name, action.arguments.get("broker", 0)) for action in recipe.actions]
    assert [name for name, _ in found[:3]] == ["create_topic", "set_config", "produce"]
    links = {"cut", "heal", "reset"}
    assert [each for each in found[3:] if each[0] not in links] == [
        ("stop", 1), ("start", 1), ("kill", 2), ("start", 2), ("power_loss", 3), ("start", 3),
        ("refuse", 2), ("accept", 2), ("zookeeper_away", 0), ("zookeeper_back", 0),
    ]  # fmt: skip
    names = [name for name, _ in found]
    assert {name: names.count(name) for name in sorted(links)} == {"cut": 4, "heal": 4, "reset": 8}
    assert report.t_us is not None
    with Playback(recipe) as playback:
        playback.advance_to(report.t_us)
        seen = [event.name for event in playback.events]
        assert "action_not_possible" not in seen
        assert seen.count("broker_started") >= 6
        assert playback.run_until(lambda cluster: len(cluster.nodes()) == 3)


@pytest.mark.mission("LEARN-28")
@pytest.mark.parametrize(
    "cluster", [SimCluster(1), SimCluster(1, (3, 7)), SimCluster(1, settings={"log.dirs": "/x"})]
)
def test_a_simulation_without_a_recipe_like_it_has_no_note(
    cluster: SimCluster, tmp_path: Path
) -> None:
    async def scenario(cluster: SimCluster) -> None:
        if cluster.simulation.seed != 1 or cluster.broker_ids != (1, 2, 3):
            cluster.start()
            await killed(cluster, cluster.broker_ids[0], 1.0)
        await asyncio.sleep(1)
        raise NotReached("no fault, other brokers, or a setting that no recipe may have")

    if cluster.settings["log.dirs"] == "/x":
        cluster.simulation.links.block("broker-1", "client")
    with pytest.raises(NotReached) as raised:
        noting(SimCluster.run, lambda: tmp_path)(cluster, scenario)
    assert not hasattr(raised.value, "__notes__")
    assert not list(tmp_path.iterdir())


@pytest.mark.mission("LEARN-28")
def test_a_playback_that_fails_has_its_recipe_in_a_note() -> None:
    def hope() -> None:
        with Playback(Recipe("hopes", seed=6)) as playback:
            playback.advance_to(1 * S)
            playback.act("kill", broker=2)
            playback.advance_to(3 * S)
            raise AssertionError("two brokers are not three")

    with pytest.raises(AssertionError) as raised:
        hope()
    report = note_of(raised.value)
    assert report.t_us == 3 * S
    assert report.recipe.chapter == "hopes"
    assert [action.name for action in report.recipe.actions] == ["kill"]


FAULTS = (("kill", "start"), ("stop", "start"), ("isolate", "heal_all"), ("pause", "heal_all"))


def storm(seed: int) -> Recipe:
    """Faults that the dice choose, under load, as a recipe."""
    dice = random.Random(seed)
    recipe = Recipe("storm", seed)
    size: dict[str, Value] = {"partitions": 2, "replicas": 3}
    recipe = recipe.then(0, "create_topic", {"topic": "t", **size})
    recipe = recipe.then(1 * S, "produce", {"topic": "t", "records": 400, "every_ms": 60})
    t_us = 2 * S
    for _ in range(3):
        fault, repair = dice.choice(FAULTS)
        broker: dict[str, Value] = {"broker": dice.randint(1, 3)}
        recipe = recipe.then(t_us, fault, broker)
        t_us += dice.randrange(8 * S)
        recipe = recipe.then(t_us, repair, {} if repair == "heal_all" else broker)
        t_us += dice.randrange(2 * S)
    return recipe


@pytest.mark.mission("LEARN-28")
@pytest.mark.parametrize("seed", range(4))
def test_a_storm_breaks_no_guarantee(seed: int) -> None:
    """It is made by a recipe, so a failure opens exactly, at its moment."""
    with Playback(storm(seed)) as playback:
        partitions = [FIRST, TopicPartition("t", 1)]
        playback.cluster.observers.append(ElectionChecker(playback.cluster, partitions))
        produce = 1

        def rests(cluster: SimCluster) -> bool:
            begun = playback.stagehand.acts
            return (
                len(begun) == len(playback.recipe.actions)
                and begun[produce].ended
                and len(cluster.nodes()) == 3
                and all(len(cluster.state(tp).leader_and_isr.isr) == 3 for tp in partitions)
            )

        playback.advance_to(playback.recipe.actions[-1].t_us + 20 * S)  # longer than a shutdown
        for broker in (1, 2, 3):
            if not playback.cluster.host(broker).alive:
                playback.act("start", broker=broker)
        assert playback.run_until(rests, 200 * S)
        playback.advance_to(playback.now_us + 12 * S)
        check_at_rest(playback.cluster, partitions)
        (produced,) = (e.facts for e in playback.events if e.name == "produced")
        ends = [playback.cluster.replicas(tp)[1].log.log_end_offset for tp in partitions]
        assert sum(ends) >= produced["records"]
