"""The process of a session: its checkpoints change nothing but the time that the way back takes."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from minikafka.page.learn.recipe import Recipe, TimedAction
from minikafka.page.learn.serving.player import MAX_CHECKPOINTS
from minikafka.page.learn.session import Session
from tests.support.learn_player import LearnPlayer, learn_player

S = 1_000_000
RECIPE = Recipe(
    "busy",
    seed=3,
    actions=[
        TimedAction(0, "create_topic", {"topic": "t", "partitions": 3, "replicas": 3}),
        TimedAction(1 * S, "produce", {"records": 400, "every_ms": 50}),
        TimedAction(1_500_000, "kill", {"broker": 1}),
        TimedAction(9 * S, "start", {"broker": 1}),
        TimedAction(14 * S, "kill", {"broker": 2}),
        TimedAction(15 * S, "start", {"broker": 2}),
    ],
)
BODY = json.loads(RECIPE.to_json())
PATIENT = {"budget_ms": 5_000}


def without_checkpoints(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in message.items() if k != "checkpoints"} for message in messages]


class Twins:
    """A player, and a session in this process that plays everything again when it goes back."""

    def __init__(self, player: LearnPlayer, session: Session) -> None:
        self.player = player
        self.session = session
        self.now_us = 0

    def request(self, do: str, **more: object) -> dict[str, Any]:
        found = self.player.request(do, **more)
        expected = json.loads(json.dumps(self.session.request({"do": do, **more})))
        assert kinds(found) == kinds(expected)
        assert shown(found) == shown(expected)
        playback = found[-1]
        self.now_us = playback["now_us"]
        return playback


@pytest.fixture
def reference() -> Iterator[Session]:
    """A session whose clock stands: every request plays to its end."""
    session = Session(lambda: 0.0)
    yield session
    session.close()


# What a broker samples while it is looked at, so that it depends on when that was.
SAMPLED = {"request", "requests", "connections"}


def kinds(messages: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(message["type"] for message in messages))


def shown(messages: list[dict[str, Any]]) -> list[Any]:
    found = [m for m in without_checkpoints(messages) if m["type"] != "state"]
    for message in messages:
        if message["type"] == "state" and message["reset"]:
            rows = [row for row in message["changed"] if row["kind"] not in SAMPLED]
            found.append({"broker": message["broker"], "rows": sorted(map(repr, rows))})
    return found


@pytest.mark.mission("LEARN-25")
@pytest.mark.parametrize("seed", range(2))
def test_checkpoints_show_the_same_as_a_replay(seed: int, reference: Session) -> None:
    dice = random.Random(seed)
    with learn_player() as player:
        twins = Twins(player, reference)
        twins.request("open", recipe=BODY)
        marks: list[int] = []
        branches: list[Any] = []
        for _ in range(20):
            move = dice.random()
            if move < 0.6:
                to_us = twins.now_us + dice.randrange(3 * S)
                playback = twins.request("advance", to_us=to_us, **PATIENT)
            elif move > 0.92 and branches:
                playback = twins.request("branch", number=dice.choice(branches)["number"])
            elif move < 0.8:
                playback = twins.request("scrub", to_us=dice.randrange(twins.now_us + 2 * S))
            else:
                arguments = {"broker": dice.randrange(1, 4)}
                playback = twins.request(
                    "act", name=dice.choice(["kill", "start"]), arguments=arguments
                )
            marks, branches = playback["checkpoints"], playback["branches"]
            assert marks == sorted(marks)
            assert len(marks) <= MAX_CHECKPOINTS
            assert all(mark <= playback["now_us"] for mark in marks)
        recipes = [each.request("recipe")[0]["json"] for each in (player,)]
        assert recipes == [twins.session.request({"do": "recipe"})[0]["json"]]
        assert player.end() == 0
        assert not player.has_processes


@pytest.mark.mission("LEARN-25")
def test_a_story_is_left_across_checkpoints(reference: Session) -> None:
    with learn_player() as player:
        twins = Twins(player, reference)
        playback = twins.request("open", chapter="playground", language="zh")
        for _ in range(18):
            if playback["story"] in ("waiting", "asking"):
                do = {"waiting": "continue", "asking": "answer"}[playback["story"]]
                playback = twins.request(do, **({"choice": 0} if do == "answer" else {}))
            playback = twins.request("advance", to_us=twins.now_us + S, **PATIENT)
        assert playback["checkpoints"]
        twins.request("language", language="en")
        assert twins.request("scrub", to_us=twins.now_us // 2)["language"] == "en"
        twins.request("act", name="kill", arguments={"broker": 1})
        playback = twins.request("advance", to_us=twins.now_us + 9 * S, **PATIENT)
        assert playback["story"] == "left"
        assert twins.request("branch", number=1)["story"] != "left"
        assert twins.request("branch", number=1)["story"] == "left"
        assert twins.request("scrub", to_us=S)["story"] == "left"
        assert twins.request("open", chapter="playground")["story"] != "left"


@pytest.mark.mission("LEARN-25")
def test_a_long_way_has_checkpoints(reference: Session) -> None:
    """Also one that was begun at a checkpoint in the middle of another."""
    with learn_player() as player:
        player.request("open", recipe=BODY)
        found = player.request("scrub", to_us=80 * S)
        reference.request({"do": "open", "recipe": BODY})
        reference.request({"do": "scrub", "to_us": 80 * S})
        assert shown(found) == shown(json.loads(json.dumps(reference.picture())))
        marks = found[-1]["checkpoints"]
        assert len(marks) > 2
        for to_us in (marks[1] + 1, 70 * S, marks[0] + 1, 75 * S):
            found = player.request("scrub", to_us=to_us)
            assert found[-1]["now_us"] == to_us
            assert found[-1]["checkpoints"][0] == marks[0]
            expected = reference.request({"do": "scrub", "to_us": to_us})
            if found[0]["type"] == "hello":
                expected = reference.picture()
            assert shown(found) == shown(json.loads(json.dumps(expected)))
        assert player.request("advance", to_us=76 * S, **PATIENT)[-1]["now_us"] == 76 * S


@pytest.mark.mission("LEARN-25")
def test_checkpoints_are_few_and_the_way_back_uses_them() -> None:
    with learn_player() as player:
        player.request("open", recipe=BODY)
        for t_us in range(S, 100 * S, 2 * S):
            (*_, playback) = player.request("advance", to_us=t_us, **PATIENT)
        marks = playback["checkpoints"]
        assert 2 < len(marks) <= MAX_CHECKPOINTS
        assert all(later - earlier >= S for earlier, later in itertools.pairwise(marks))
        (*_, playback) = player.request("scrub", to_us=marks[1] + 1)
        assert playback["checkpoints"][:2] == marks[:2]
        assert playback["now_us"] == marks[1] + 1
        (*_, playback) = player.request("scrub", to_us=marks[0] - 1)
        assert marks[0] not in playback["checkpoints"]


WRONG = [b"", b"x", b"[]", b"{}", b'{"do": 5}', b'{"do": "scrub", "to_us": "1"}', b"\xff", b"["]


@pytest.mark.mission("LEARN-25")
def test_a_wrong_request_is_a_problem() -> None:
    with learn_player() as player:
        for line in WRONG:
            assert player.send(line)[0]["type"] == "problem"
        assert player.request("open", recipe=BODY)[0]["type"] == "hello"
        for line in WRONG:
            assert player.send(line)[0]["type"] == "problem"


@pytest.mark.mission("LEARN-25")
def test_all_checkpoints_end_with_the_player_that_is_killed() -> None:
    with learn_player() as player:
        player.request("open", recipe=BODY)
        for t_us in range(S, 30 * S, S):
            player.request("advance", to_us=t_us, **PATIENT)
        below = psutil.Process(player.process.pid).children(recursive=True)
        assert len(below) > 2
        below[-1].kill()
        assert player.process.wait(60) == 1
        assert not player.has_processes
