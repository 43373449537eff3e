"""Chapter 2: the timing wheel, with 2, 8, 19, 350 and 450 ms."""

from __future__ import annotations

from minikafka.core.purgatory import DelayedOperation
from minikafka.page.learn.looks import slots
from minikafka.page.learn.story import Chapter, Story
from minikafka.server.broker.purgatories import Reaper

WHEELS = "purgatory|1|Lesson"
BEGIN_MS = 1_000  # of the first timer, which is when the clock of the wheels begins
LAP_MS = 8_000  # of the third level: then all hands stand at slot 0 again


async def play(story: Story) -> None:
    await story.say("begin", focus=("stage",))
    await story.until("a broker", lambda cluster: len(cluster.nodes()) == 1, pace=20)
    await _to_lap(story, 0)
    await story.say("intro", focus=("purgatories",))
    await _one_level(story)
    await _the_ring(story)
    await _three_levels(story)
    await _demotions(story)
    await _wake_ups(story)
    await story.say("end", focus=(WHEELS,))


async def _one_level(story: Story) -> None:
    story.do("timers", delays="2")
    await story.wait(ms=0.01)
    await story.say("wheel", focus=(WHEELS,))
    first = _reaper(story).purgatory.levels()[0]
    shape = (first.tick_ms, first.wheel_size, first.interval_ms)
    story.check("shape", shape == (1, 20, 20), focus=(WHEELS,))
    story.check("two-in-slot-two", _slots(story, 1) == {2: 1}, focus=(WHEELS,))
    await story.say("two", focus=(WHEELS,))
    fired = await story.until_event("timer_fired", delay_ms=2, pace=1)
    await story.say("two-fired", focus=(WHEELS,))
    story.check("after-two", fired["after_ms"] == 2, focus=(WHEELS,))


async def _the_ring(story: Story) -> None:
    """At time 2: 8 ms go to slot 10, 19 ms to slot 1 of the next lap."""
    story.do("timers", delays="8")
    await story.wait(ms=0.01)
    await story.say("eight", focus=(WHEELS,))
    story.check("eight-in-slot-ten", _slots(story, 1) == {10: 1}, focus=(WHEELS,))
    await story.ask("nineteen", right=1, focus=(WHEELS,))
    story.do("timers", delays="19")
    await story.wait(ms=0.01)
    await story.say("reused", focus=(WHEELS,))
    story.check("nineteen-in-slot-one", _slots(story, 1) == {1: 1, 10: 1}, focus=(WHEELS,))
    eight = await story.until_event("timer_fired", delay_ms=8, pace=3)
    nineteen = await story.until_event("timer_fired", delay_ms=19, pace=3)
    await story.say("ring-done", focus=(WHEELS,))
    times = (eight["after_ms"], nineteen["after_ms"])
    story.check("on-time", times == (8, 19), focus=(WHEELS,))


async def _three_levels(story: Story) -> None:
    await _to_lap(story, 1)
    await story.ask("beyond", right=2, focus=(WHEELS,))
    story.do("timers", delays="350")
    await story.wait(ms=0.01)
    await story.say("level-two", focus=(WHEELS,))
    second = _reaper(story).purgatory.levels()[1]
    shape = (second.tick_ms, second.interval_ms)
    placed = shape == (20, 400) and _slots(story, 2) == {17: 1}
    story.check("slot-seventeen", placed, focus=(WHEELS,))
    story.do("timers", delays="450")
    await story.wait(ms=0.01)
    await story.say("level-three", focus=(WHEELS,))
    third = _reaper(story).purgatory.levels()[2]
    shape = (third.tick_ms, third.interval_ms)
    placed = shape == (400, 8_000) and _slots(story, 3) == {1: 1}
    story.check("slot-one", placed, focus=(WHEELS,))
    story.do("timers", delays="446,455,473")
    await story.wait(ms=0.01)
    await story.say("companions", focus=(WHEELS,))
    story.check("four-in-slot-one", _slots(story, 3) == {1: 4}, focus=(WHEELS,))


async def _demotions(story: Story) -> None:
    await story.wait(ms=340, pace=100)
    await story.say("demoted-early", focus=(WHEELS,))
    story.check("ten-left", _slots(story, 1) == {10: 1} and not _slots(story, 2), focus=(WHEELS,))
    fired = await story.until_event("timer_fired", delay_ms=350, pace=5)
    story.check("after-350", fired["after_ms"] == 350, focus=(WHEELS,))
    await story.ask("at-400", right=1, focus=(WHEELS,))
    await story.wait(ms=50.02, pace=20)
    await story.say("to-level-two", focus=(WHEELS,))
    moved = not _slots(story, 3) and _slots(story, 2) == {2: 3, 3: 1}
    story.check("fifty-left", moved, focus=(WHEELS,))
    await story.wait(ms=40, pace=20)
    await story.say("to-level-one", focus=(WHEELS,))
    moved = _slots(story, 2) == {3: 1} and _slots(story, 1) == {6: 1, 10: 1, 15: 1}
    story.check("ten-left-again", moved, focus=(WHEELS,))
    fired = await story.until_event("timer_fired", delay_ms=450, pace=5)
    await story.say("fired", focus=(WHEELS,))
    story.check("after-450", fired["after_ms"] == 450, focus=(WHEELS,))
    await story.until_event("timer_fired", delay_ms=473, pace=10)


async def _wake_ups(story: Story) -> None:
    await _to_lap(story, 2)
    before = _reaper(story).wake_ups
    await story.ask("sleep", right=0, focus=(WHEELS,))
    story.do("timers", delays="200,840")
    await story.until_event("timer_fired", delay_ms=840, pace=200)
    await story.say("precise", focus=(WHEELS,))
    woken = _reaper(story).wake_ups - before
    story.check("three-wake-ups", woken == 3, focus=(WHEELS,))
    story.do("timers", delays=",".join(str(1_000 + number) for number in range(50)))
    await story.wait(ms=0.01)
    await story.say("many", focus=(WHEELS,))
    found = _slots(story, 3)
    story.check("one-bucket", len(found) == 1 and sum(found.values()) == 50, focus=(WHEELS,))


def _reaper(story: Story) -> Reaper[DelayedOperation]:
    assert story.lesson is not None, "the first timers make the wheels"
    return story.lesson


def _slots(story: Story, level: int) -> dict[int, int]:
    return slots(_reaper(story).purgatory, level)


async def _to_lap(story: Story, number: int) -> None:
    """Let the clock of the wheels go to the begin of a lap of the third level."""
    begin_us = (BEGIN_MS + number * LAP_MS) * 1_000
    await story.wait(ms=(begin_us - story.now_us) / 1_000, pace=4_000)


CHAPTER = Chapter(name="timing-wheel", number=2, seed=2, brokers=1, play=play)
