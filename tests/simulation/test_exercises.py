"""The exercises of docs/how-to/teach.md have the solutions that the page gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import Recipe, TimedAction
from tests.support.pages import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "teach.md"
RECIPES = {block.file: json.loads(block.text) for block in blocks(PAGE) if block.file}
FIRST = TopicPartition("t", 0)
S = 1_000_000


@pytest.fixture
def exercise(request: pytest.FixtureRequest) -> Iterator[Playback]:
    """The playback of an exercise, at the moment of its question."""
    recipe = dict(RECIPES[f"exercise-{request.param}.json"])
    stops_us = recipe.pop("t_us")
    with Playback(Recipe.from_json(json.dumps(recipe))) as playback:
        playback.advance_to(stops_us)
        yield playback


def read_values(playback: Playback) -> list[str]:
    return [event.facts["values"] for event in playback.events if event.name == "read"]


@pytest.mark.parametrize("exercise", [1], indirect=True)
def test_a_dead_broker_leads_until_its_session_expires(exercise: Playback) -> None:
    assert exercise.cluster.leader(FIRST) == 1
    assert exercise.run_until(lambda cluster: cluster.leader(FIRST) != 1)
    assert round(exercise.now_us / S, 1) == 6.1
    assert exercise.cluster.leader(FIRST) == 2
    controllers = [e.facts["broker"] for e in exercise.events if e.name == "controller_elected"]
    assert controllers == [1, 3]


@pytest.mark.parametrize("exercise", [2], indirect=True)
def test_one_replica_of_three_acknowledges_only_acks_1(exercise: Playback) -> None:
    exercise.advance_to(30 * S)
    *_, with_all, with_one = exercise.stagehand.acts
    assert (with_all.ended, with_one.ended, with_one.problem) == (False, True, None)
    assert looks.log_ends(exercise.cluster, FIRST) == {1: 1}
    assert looks.high_watermarks(exercise.cluster, FIRST) == {1: 0}
    exercise.act("start", broker=2)
    assert exercise.run_until(lambda _: with_all.ended)
    assert with_all.problem is None


@pytest.mark.parametrize("exercise", [3], indirect=True)
def test_records_of_an_isolated_leader_are_truncated(exercise: Playback) -> None:
    acknowledged = [e.facts["records"] for e in exercise.events if e.name == "produced"]
    assert acknowledged == [3, 2]
    exercise.advance_to(45 * S)
    assert read_values(exercise) == ["before0 before1 before2"]
    [truncated] = [e.facts for e in exercise.events if e.name == "replica_truncated"]
    assert (truncated["broker"], truncated["offset"], truncated["log_end_offset"]) == (1, 3, 5)
    assert looks.leaders(exercise.cluster, FIRST) == {2: 1}


@pytest.mark.parametrize("exercise", [4], indirect=True)
def test_seven_partitions_are_shared_by_three(exercise: Playback) -> None:
    exercise.advance_to(20 * S)
    shares = {
        group: {member[0]: found for member, found in looks.shares(exercise.cluster, group).items()}
        for group in ("r", "rr")
    }
    assert shares["r"] == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}
    assert shares["rr"] == {"d": [0, 3, 6], "e": [1, 4], "f": [2, 5]}


@pytest.mark.parametrize("exercise", [5], indirect=True)
def test_aborted_records_and_markers_have_offsets(exercise: Playback) -> None:
    assert read_values(exercise) == []
    exercise.advance_to(13 * S)
    assert sorted(read_values(exercise)) == ["a0 a1 b0", "b0"]  # of two clients at once
    assert set(looks.log_ends(exercise.cluster, FIRST).values()) == {5}


@pytest.mark.parametrize("acks", ["1", "all"])
@pytest.mark.parametrize("exercise", [6], indirect=True)
def test_a_leader_that_is_taken_for_dead_loses_only_records_of_acks_1(
    exercise: Playback, acks: str
) -> None:
    recipe = exercise.recipe
    actions = [
        TimedAction(each.t_us, each.name, {**each.arguments, "acks": acks})
        if each.name == "produce"
        else each
        for each in recipe.actions
    ]
    with Playback(replace(recipe, actions=actions)) as playback:
        playback.advance_to(2_600 * 1_000)
        assert looks.leaders(playback.cluster, FIRST) == {1: 0, 2: 1}
        playback.advance_to(12 * S)
        acknowledged = [e.facts["records"] for e in playback.events if e.name == "produced"]
        assert acknowledged == [4 if acks == "1" else 2]
        assert read_values(playback) == ["a0 a1"]


def test_each_exercise_is_played() -> None:
    assert sorted(RECIPES) == [f"exercise-{number}.json" for number in range(1, 7)]
