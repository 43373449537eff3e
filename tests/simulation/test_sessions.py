"""Sessions of learn mode: whatever is requested, in whatever slices, the page sees the same."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.cluster_look import MANY
from minikafka.page.learn.facts import ClusterState
from minikafka.page.learn.playback import Playback
from minikafka.page.learn.recipe import Recipe, TimedAction
from minikafka.page.learn.session import Session

S = 1_000_000
Messages = list[dict[str, Any]]
# A broker that may lead and be the controller dies under load and comes back; a group moves on.
RECIPE = Recipe(
    "busy",
    seed=3,
    actions=[
        TimedAction(0, "create_topic", {"topic": "t", "partitions": 2, "replicas": 3}),
        TimedAction(1 * S, "produce", {"records": 60, "every_ms": 50}),
        TimedAction(1 * S, "join_group", {"session_ms": 6_000}),
        TimedAction(1_500_000, "kill", {"broker": 1}),
        TimedAction(9 * S, "start", {"broker": 1}),
        TimedAction(9 * S, "cut", {"one": "broker-2", "other": "broker-3"}),
        TimedAction(10 * S, "heal_all", {}),
    ],
)
END_US = 12 * S
LONG_US = 100 * S
SLOWEST = "fetch-sessions"  # a thousand partitions for 150 s; test_chapters.py plays it
# The first broker, which is the controller, leads and coordinates, dies.
KILLS = Recipe(
    "kills",
    seed=4,
    actions=[
        TimedAction(1 * S, "create_topic", {"topic": "t", "assignment": "1,2,3"}),
        TimedAction(2 * S, "produce", {"topic": "t", "records": 5}),
        TimedAction(4 * S, "join_group", {"topic": "t", "member": "m1"}),
        TimedAction(4_100_000, "kill", {"broker": 1}),
        TimedAction(4_100_000, "kill", {"broker": 3}),
    ],
)
COMPARED_MESSAGES = 900
# What a broker samples while it is looked at, so that it depends on when that was.
SAMPLED = {"request", "requests", "connections"}


class Page:
    """Reduces messages as the page does."""

    def __init__(self) -> None:
        self.entities: dict[tuple[int | None, str, str], Any] = {}
        self.events: list[Any] = []
        self.wire: dict[int, Any] = {}
        self.beats: dict[int, Any] = {}
        self.playback: dict[str, Any] = {}

    def take(self, messages: Messages) -> None:
        if any(m["type"] == "state" and m["broker"] is None and m["reset"] for m in messages):
            self.__init__()  # type: ignore[misc]
        for message in messages:
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "state":
            broker = message["broker"]
            if message["reset"]:
                self.entities = {k: v for k, v in self.entities.items() if k[0] != broker}
            for it in message["removed"]:
                del self.entities[broker, it["kind"], it["name"]]
            for it in message["changed"]:
                self.entities[broker, it["kind"], it["name"]] = it["facts"]
        elif kind == "event":
            self.events.append(message)
        elif kind == "wire":
            self.wire[message["number"]] = {k: v for k, v in message.items() if k != "at"}
        elif kind in ("say", "ask", "check"):
            self.beats[message["number"]] = {k: v for k, v in message.items() if k != "at"}
        elif kind == "playback":
            self.playback = message

    def shown(self) -> Any:
        entities = {key: facts for key, facts in self.entities.items() if key[1] not in SAMPLED}
        wire = sorted(self.wire.items())[-COMPARED_MESSAGES:]  # a whole picture has not all
        return json.loads(json.dumps([sorted(map(repr, entities.items())), self.events, wire]))


class Reader:
    """A session and its page. The wall clock moves on by 1 ms at each reading."""

    def __init__(self) -> None:
        self.page = Page()
        ticks: Iterator[int] = itertools.count()
        self.session = Session(lambda: float(next(ticks)))

    def request(self, do: str, **body: Any) -> Messages:
        messages = self.session.request({"do": do, **body})
        assert messages[-1]["type"] == "playback"
        json.dumps(messages, allow_nan=False)
        self.page.take(messages)
        return messages

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()


def opened(recipe: Recipe = RECIPE) -> Reader:
    reader = Reader()
    messages = reader.request("open", recipe=json.loads(recipe.to_json()))
    assert [m["type"] for m in messages[:2]] == ["hello", "state"]
    return reader


def fresh(t_us: int, recipe: Recipe = RECIPE) -> Any:
    with opened(recipe) as reader:
        reader.request("scrub", to_us=t_us)
        reader.request("scrub", to_us=t_us)
        assert reader.page.playback["now_us"] == t_us
        return reader.page.shown()


def digest_of(reader: Reader) -> str:
    pytest_text: str = reader.request("recipe")[0]["pytest"]
    return pytest_text.rpartition("digest() == ")[2].strip().strip("'")


@pytest.mark.mission("LEARN-11")
@pytest.mark.parametrize("seed", range(3))
def test_looking_changes_nothing(seed: int) -> None:
    dice = random.Random(seed)
    with Playback(RECIPE) as playback:
        playback.advance_to(END_US)
        expected = playback.digest()
    with Playback(RECIPE, messages=100) as playback:
        state = ClusterState(playback.cluster)
        while playback.now_us < END_US:
            playback.advance_to(min(END_US, playback.now_us + dice.randrange(300_000)))
            assert state.changes() or state.whole()
        assert playback.digest() == expected


@pytest.mark.mission("LEARN-12")
@pytest.mark.parametrize("seed", range(2))
def test_a_page_shows_the_same_in_whatever_slices(seed: int) -> None:
    dice = random.Random(seed)
    with opened() as reader:
        while reader.page.playback["now_us"] < END_US:
            now_us = reader.page.playback["now_us"]
            to_us = min(END_US, now_us + dice.randrange(400_000))
            reader.request("advance", to_us=to_us, budget_ms=1_000)
        assert reader.page.shown() == fresh(END_US)


@pytest.mark.mission("LEARN-12")
@pytest.mark.parametrize("t_us", [0, 1_234_567, 8_900_000])
def test_a_page_that_has_gone_back_equals_a_new_one(t_us: int) -> None:
    with opened() as reader:
        reader.request("scrub", to_us=END_US)
        reader.request("scrub", to_us=t_us)
        assert reader.page.playback["now_us"] == t_us
        assert reader.page.playback["end_us"] == END_US
        assert reader.page.shown() == fresh(t_us)


@pytest.mark.mission("LEARN-12")
def test_a_broker_that_is_down_shows_nothing_but_that() -> None:
    with opened() as reader:
        reader.request("scrub", to_us=3 * S)
        of_broker = {key[1:]: facts for key, facts in reader.page.entities.items() if key[0] == 1}
        reason = {"debug": False, "reason": "the broker is down"}
        assert of_broker == {("reachable", ""): reason}
        assert not reader.page.entities[None, "node", "1"]["online"]
        reader.request("scrub", to_us=11 * S)
        kinds = {key[1] for key in reader.page.entities if key[0] == 1}
        assert {"broker", "controller", "partition", "purgatory", "reachable"} <= kinds
        assert reader.page.entities[1, "reachable", ""] == {"debug": True}
        group = reader.page.entities[None, "consumer_group", "g"]
        assert group["members"][0]["assignment"] == {"t": [0, 1]}


@pytest.mark.mission("LEARN-12")
def test_the_offsets_of_a_very_large_topic_are_shown_within_a_while() -> None:
    wide: dict[str, int | str] = {"topic": "t", "partitions": MANY + 20}
    written: dict[str, int | str] = {"topic": "t", "records": 7, "partition": 5}
    recipe = Recipe(
        actions=[
            TimedAction(0, "create_topic", wide),
            TimedAction(8 * S, "produce", written),
        ]
    )

    def high_watermark() -> int:
        partitions = reader.page.entities[None, "topic", "t"]["partitions"]
        found: int = partitions[5]["high_watermark"]
        return found

    with opened(recipe) as reader:
        reader.request("scrub", to_us=8 * S)
        assert high_watermark() == 0
        for t_us in range(8 * S, 9 * S, 50_000):
            reader.request("advance", to_us=t_us, budget_ms=1_000)
        assert high_watermark() == 7
        reader.request("scrub", to_us=9 * S - 1)
        reader.request("scrub", to_us=8 * S + 300_000)
        assert high_watermark() == 7, "a whole picture has the present offsets"


@pytest.mark.mission("LEARN-12")
def test_hosts_and_the_timers_of_the_lesson_are_shown() -> None:
    timers = TimedAction(2 * S, "timers", {"delays": "2,8,350"})
    cut = TimedAction(2 * S, "cut", {"one": "broker-1", "other": "client"})
    with opened(Recipe(actions=[timers, cut])) as reader:
        hosts = {key[2] for key in reader.page.entities if key[:2] == (None, "host")}
        assert hosts == {"broker-1", "broker-2", "broker-3", "zookeeper", "client"}
        reader.request("scrub", to_us=2 * S)
        assert reader.page.entities[None, "host", "client"]["links"] == {"broker-1": "cut"}
        assert reader.page.entities[1, "purgatory", "Lesson"]["num_delayed_operations"] == 3
        ticks = []
        for _ in range(4):
            reader.request("step", what="tick", purgatory="Lesson")
            ticks.append(reader.page.playback["now_us"] - 2 * S)
        assert ticks == [2_000, 8_000, 340_000, 350_000], "the last one is demoted first"
        assert reader.page.entities[1, "purgatory", "Lesson"]["num_delayed_operations"] == 0


def told(reader: Reader, dice: random.Random) -> None:
    """Click a chapter through to its end, in random slices, with steps between."""
    playback = reader.page.playback
    while playback["story"] != "done":
        if playback["story"] == "asking":
            reader.request("answer", choice=0)
        elif playback["story"] == "waiting":
            reader.request("continue")
        elif dice.random() < 0.1:
            reader.request("step", what=dice.choice(["event", "message", "tick"]))
        else:
            to_us = playback["now_us"] + int(10 ** (3 + dice.random() * 4))
            reader.request("advance", to_us=to_us, budget_ms=1_000)
        playback = reader.page.playback
        assert playback["failed"] is None


@pytest.mark.mission("LEARN-15")
@pytest.mark.parametrize("name", [name for name in TABLE.values() if name != SLOWEST])
def test_a_chapter_is_clicked_through_and_scrubbed_back(name: str) -> None:
    dice = random.Random(name)
    with Reader() as reader:
        reader.request("open", chapter=name, language="en")
        told(reader, dice)
        beats, end_us = reader.page.beats, reader.page.playback["now_us"]
        assert sorted(beats) == [*range(1, len(beats) + 1)]
        middle_us = beats[len(beats) // 2]["t_us"]
        reader.request("scrub", to_us=middle_us)
        with Reader() as other:
            other.request("open", chapter=name, language="en")
            other.request("scrub", to_us=middle_us)
            assert reader.page.shown() == other.page.shown()
            assert reader.page.beats.keys() == other.page.beats.keys()
        asked = [beat for beat in reader.page.beats.values() if beat["type"] == "ask"]
        later = reader.page.playback["story"] == "asking"
        assert all(beat["chosen"] == 0 for beat in (asked[:-1] if later else asked))
        if end_us < LONG_US:
            told(reader, dice)
            assert reader.page.beats == beats, "answers are kept"


@pytest.mark.mission("LEARN-15")
def test_an_action_leaves_the_story_and_a_detour_becomes_a_branch() -> None:
    with Reader() as reader:
        reader.request("open", chapter="playground")
        told(reader, random.Random(1))
        end_us, actions = reader.page.playback["end_us"], reader.page.playback["actions"]
        beats = dict(reader.page.beats)
        reader.request("scrub", to_us=end_us // 2)
        assert reader.page.playback["actions"] == actions, "the marks of later actions stay"
        reader.request("act", name="kill", arguments={"broker": 9})
        assert reader.page.playback["story"] != "left"
        reader.request("act", name="kill", arguments={"broker": 1})
        playback = reader.page.playback
        assert (playback["story"], playback["end_us"]) == ("left", end_us // 2)
        assert playback["actions"][-1] == [end_us // 2, "kill", {"broker": 1}]
        (branch,) = playback["branches"]
        assert (branch["fork_us"], branch["end_us"]) == (end_us // 2, end_us)
        reader.request("scrub", to_us=end_us * 2)
        detour = reader.page.shown()
        assert reader.request("branch", number=5)[0]["type"] == "problem"
        reader.request("branch", number=branch["number"])
        assert reader.page.playback["now_us"] == end_us // 2 - 1
        assert reader.page.playback["story"] == "playing"
        told(reader, random.Random(2))
        assert reader.page.playback["actions"] == actions
        assert reader.page.beats == beats, "the story is the branch"
        reader.request("branch", number=branch["number"])
        assert reader.page.playback["story"] == "left"
        reader.request("scrub", to_us=end_us * 2)
        assert reader.page.shown() == detour
        reader.request("scrub", to_us=1)
        assert reader.page.playback["story"] == "left"
        assert reader.page.beats == {k: v for k, v in beats.items() if v["t_us"] <= 1}
        reader.request("language", language="zh")
        assert reader.page.beats[1]["text"] != beats[1]["text"]


@pytest.mark.mission("LEARN-15")
@pytest.mark.parametrize(
    ("what", "event"),
    [("controller", "kill"), ("leader", "kill"), ("isr", "kill"), ("rebalance", "join_group")],
)
def test_a_reader_runs_to_a_change(what: str, event: str) -> None:
    """The change comes after its cause, and not at once."""
    with opened(KILLS) as reader:
        reader.request("scrub", to_us=3_990_000)
        cause_us = next(t_us for t_us, name, _ in reader.page.playback["actions"] if name == event)
        reader.request("run_until", what=what, budget_ms=5_000)
        assert reader.page.playback["reached"]
        assert cause_us <= reader.page.playback["now_us"] < cause_us + 12 * S


@pytest.mark.mission("LEARN-15")
def test_a_reader_runs_to_a_change_of_a_consumer_group() -> None:
    """A second member raises the group epoch."""
    joins = [
        TimedAction(t_us, "join_group", {"topic": "t", "member": member, "protocol": "consumer"})
        for member, t_us in (("m1", 4 * S), ("m2", 6 * S))
    ]
    recipe = Recipe("joins", seed=1, actions=[*KILLS.actions[:1], *joins])
    with opened(recipe) as reader:
        reader.request("scrub", to_us=5_990_000)
        reader.request("run_until", what="rebalance", budget_ms=5_000)
        assert reader.page.playback["reached"]
        assert 6 * S <= reader.page.playback["now_us"] < 6 * S + 100_000


@pytest.mark.mission("LEARN-15")
def test_a_reader_runs_to_an_event_and_to_a_message() -> None:
    with opened(KILLS) as reader:
        reader.request("run_until", what="replica_became_leader", budget_ms=5_000)
        assert reader.page.events[-1]["name"] == "replica_became_leader"
        reader.request("run_until", what="message:OffsetCommit", budget_ms=5_000)
        assert [it["api"] for it in reader.page.wire.values() if it["arrived_us"] is not None][-1]
        arrived = [it for it in reader.page.wire.values() if it["api"] == "OffsetCommit"]
        assert [it["arrived_us"] for it in arrived] == [reader.page.playback["now_us"]]
        assert not reader.request("run_until", what="no_such_event", budget_ms=1)[-1]["reached"]


def lossy(acks: str) -> Recipe:
    """A leader that nobody follows any more takes records and dies."""
    cuts = [
        TimedAction(2 * S, "cut", {"one": f"broker-{one}", "other": f"broker-{other}"})
        for one, other in ((1, 2), (1, 3), (2, 3))
    ]
    return Recipe(
        actions=[
            TimedAction(0, "create_topic", {"topic": "t", "assignment": "1,2,3"}),
            *cuts,
            TimedAction(2 * S, "produce", {"records": 7, "acks": acks}),
            TimedAction(3 * S, "kill", {"broker": 1}),
            TimedAction(3 * S, "heal_all", {}),
        ],
    )


@pytest.mark.mission("LEARN-14")
def test_a_playground_scores_until_acknowledged_records_are_lost() -> None:
    with opened(lossy("1")) as reader:
        reader.request("run_until", what="violation", budget_ms=5_000)
        assert reader.page.playback["reached"]
        score = reader.page.playback["score"]
        assert score["acknowledged"] == 7
        assert score["lost"] >= 6, "the first one may be on its way when the links are cut"
        assert score["kept_us"] < reader.page.playback["now_us"] - 2 * S
        (event,) = [it for it in reader.page.events if it["name"] == "violation"]
        assert event["facts"]["kind"] == "records_lost"
        now_us = reader.page.playback["now_us"]
        reader.request("scrub", to_us=S)
        assert reader.page.playback["score"]["acknowledged"] == 0
        reader.request("scrub", to_us=now_us)
        assert reader.page.playback["score"] == score
    with opened(lossy("all")) as reader:
        reader.request("scrub", to_us=15 * S)
        assert reader.page.playback["score"]["lost"] == 0


def random_request(dice: random.Random, now_us: int) -> dict[str, Any]:
    """Return a request that is often right, and often not."""
    to_us = dice.choice(
        [0, now_us + dice.randrange(S), dice.randrange(6 * S), -1, "x", None, 2**60]
    )
    broker, purgatory = dice.choice([1, 2, 3, 4, "x"]), dice.choice(["Fetch", 1])
    conditions = [
        "controller",
        "leader",
        "isr",
        "rebalance",
        "violation",
        "message:Fetch",
        "",
        None,
    ]
    arguments = dice.choice([{}, [], {"x": {}}, {1: 1}])
    return dice.choice(
        [
            {"do": "open", "chapter": dice.choice(["playground", "none", 5])},
            {"do": "open", "recipe": json.loads(RECIPE.to_json()), "language": "zh"},
            {"do": "open", "recipe": {"seed": dice.choice([1, "x"])}},
            {"do": "open", "fragment": "x"},
            *({"do": "advance", "to_us": to_us, "budget_ms": dice.choice([1, 50, 0])},) * 4,
            *({"do": "step", "what": what} for what in ("event", "message", "tick", "x")),
            {"do": "step", "what": "tick", "broker": broker, "purgatory": purgatory},
            *({"do": "run_until", "what": what, "budget_ms": 30} for what in conditions),
            *({"do": "scrub", "to_us": to_us},) * 3,
            *({"do": "continue"},) * 3,
            {"do": "answer", "choice": dice.choice([0, 1, "x"])},
            {"do": "act", "name": "kill", "arguments": {"broker": broker}},
            {"do": "act", "name": "start", "arguments": {"broker": broker}},
            {"do": "act", "name": dice.choice(["x", 5]), "arguments": {}},
            {"do": "act", "name": "produce", "arguments": {"records": 5, "topic": "t"}},
            {"do": "act", "name": "heal_all", "arguments": arguments},
            {"do": "branch", "number": dice.choice([1, 2, "x"])},
            {"do": "recipe"},
            {"do": "catalogue", "language": dice.choice(["en", "zh", "xx"])},
            {"do": "language", "language": dice.choice(["en", "zh", 1])},
            {"do": dice.choice(["x", 1, None])},
        ]
    )  # fmt: skip


@pytest.mark.mission("LEARN-13")
@pytest.mark.parametrize("seed", range(6))
def test_no_sequence_of_requests_fails(seed: int) -> None:
    dice = random.Random(seed)
    with Reader() as reader:
        assert reader.session.request([1])[0]["type"] == "problem"
        for _ in range(60):
            now_us = reader.page.playback.get("now_us", 0)
            reader.request(**random_request(dice, now_us))
            assert reader.page.playback.get("failed") is None
        if reader.page.playback["chapter"] is not None:
            expected = digest_of(reader)
            recipe = json.loads(reader.request("recipe")[0]["json"])
            with Playback(Recipe.from_json(json.dumps(recipe))) as playback:
                playback.advance_to(reader.page.playback["now_us"])
                assert playback.digest() == expected
