"""A story stops at its sentences, waits for events, messages and times, and breaks at checks."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator

import pytest

from minikafka.page.learn.playback import Playback, StopOn
from minikafka.page.learn.recipe import RecipeError
from minikafka.page.learn.story import (
    Chapter,
    Story,
    StoryBroken,
    StoryState,
    Telling,
    play_through,
)

pytestmark = pytest.mark.mission("LEARN-10")


def chapter(play: Callable[[Story], Awaitable[None]]) -> Chapter:
    return Chapter(name="x", number=1, seed=5, play=play)


def random_slices(seed: int) -> Iterator[int]:
    dice = random.Random(seed)
    while True:
        yield int(10 ** (dice.random() * 5))


async def eventful(story: Story) -> None:
    """Wait in every way, and say what was found as values."""
    await story.say("begin")
    await story.until("up", lambda cluster: len(cluster.nodes()) == 3)
    created = story.do("create_topic", topic="t", partitions=1, replicas=3)
    sent = await story.until_message("CreateTopics", source="client", arrived=False)
    received = await story.until_message("CreateTopics", target="client", is_request=False)
    story.check("sent", sent.arrived_us is None, sent=sent.sent_us, received=received.sent_us)
    await story.finished(created)
    story.do("kill", broker=1)
    found = await story.until_event("action", do="kill")
    await story.ask("broker", right=1, broker=found["broker"])
    await story.wait(1.5)
    await story.say("end")


def test_a_story_is_the_same_in_any_slices() -> None:
    whole = play_through(chapter(eventful))
    assert [beat.key for beat in whole.beats] == ["begin", "sent", "broker", "end"]
    assert whole.beats[-1].t_us == whole.beats[-2].t_us + 1_500
    for seed in range(3):
        assert play_through(chapter(eventful), random_slices(seed)) == whole


def test_the_steps_of_a_reader_do_not_change_a_story() -> None:
    whole = play_through(chapter(eventful))
    dice = random.Random(8)
    with Playback(chapter(eventful).recipe(), messages=10) as playback:
        telling = Telling(chapter(eventful), playback)
        while telling.state is not StoryState.DONE:
            if telling.is_paused:
                telling.go_on()
                continue
            stop_on = dice.choice([StopOn.EVENT, StopOn.ARRIVED, StopOn.SENT, StopOn.NOTHING])
            telling.run_to(playback.now_us + dice.randrange(50_000), stop_on)
        assert telling.beats == whole.beats
        assert playback.digest() == whole.digest


def test_a_sentence_stops_the_story_until_the_reader_continues() -> None:
    with Playback(chapter(eventful).recipe(), messages=10) as playback:
        telling = Telling(chapter(eventful), playback)
        assert not telling.run_to(1_000_000)
        assert playback.now_us == 0
        telling.go_on()
        states = []
        for _ in range(2):
            assert not telling.run_to(60_000_000)
            states.append(telling.state)
            telling.go_on()
        states.append(telling.state)
        assert [state.value for state in states] == ["asking", "waiting", "done"]
        assert telling.run_to(10_000_000), "the cluster goes on"


async def check_fails(story: Story) -> None:
    story.check("no", False)


async def waits_too_long(story: Story) -> None:
    await story.until("never", lambda cluster: False, limit_ms=50)


async def misses_an_event(story: Story) -> None:
    await story.until_event("never", limit_ms=50)


async def misses_a_znode(story: Story) -> None:
    await story.until("a topic", lambda cluster: cluster.simulation.zookeeper.tree.get("/x"), 50)


async def acts_without_success(story: Story) -> None:
    await story.until("up", lambda cluster: len(cluster.nodes()) == 3)
    await story.finished(story.do("start", broker=1))


async def produces_nowhere(story: Story) -> None:
    await story.finished(story.do("delete_topic", topic="none"))


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (check_fails, "the check no does not hold at 0"),
        (waits_too_long, r"not within 0\.05 simulated s: never"),
        (misses_an_event, r"not within 0\.05 simulated s: the event never"),
        (misses_a_znode, "a topic"),
        (acts_without_success, "the action start has failed.*broker 1 runs"),
        (produces_nowhere, "the action delete_topic has failed"),
    ],
)
def test_a_story_that_does_not_hold_is_broken(
    play: Callable[[Story], Awaitable[None]], reason: str
) -> None:
    with pytest.raises(StoryBroken, match=reason):
        play_through(chapter(play))


def test_an_action_with_wrong_arguments_is_an_error() -> None:
    async def play(story: Story) -> None:
        story.do("kill", broker=7)

    with pytest.raises(RecipeError):
        play_through(chapter(play))


def test_events_of_an_action_are_found_after_it() -> None:
    """Also two that happen in one turn of the loop, in their order."""

    async def play(story: Story) -> None:
        story.do("start", broker=1)
        await story.until_event("action", do="start")
        await story.until_event("action_not_possible", do="start")
        with pytest.raises(StoryBroken):
            await story.until_event("action", do="start", limit_ms=20)
        story.check("two", True)

    assert [beat.key for beat in play_through(chapter(play)).beats] == ["two"]
