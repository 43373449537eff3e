"""Stories: the coroutine of a chapter, what it can say and wait for, and what drives it.

A chapter is a coroutine that tells a story about a simulated cluster:

    async def play(story: Story) -> None:
        await story.say("intro", focus=("stage",))
        story.do("kill", broker=1)
        facts = await story.until_event("leader_elected", pace=50)
        story.check("another", facts["leader"] != 1)

No event loop runs it. ``Telling`` resumes it between slices of the simulation: when the reader
continues after a sentence, or when what it waits for has happened. Conditions are looked at after
each turn of the loop with an event and on a grid of times, so a chapter says the same at the same
simulated time in whatever slices it is played. It keeps only values, no objects of the cluster: to
scrub back is to play it again from its start on another cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import field
from enum import Enum
from itertools import islice, repeat
from types import coroutine
from typing import Any, Final, NamedTuple

from minikafka.core.purgatory import DelayedOperation
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import NoNode
from minikafka.page.learn.messages import WireMessage
from minikafka.page.learn.playback import Playback, StopOn
from minikafka.page.learn.recipe import Recipe, Value
from minikafka.page.learn.texts import Values
from minikafka.server.broker.purgatories import Reaper
from minikafka.testing.simulator.cluster import LogEvent, SimCluster

LIMIT_MS: Final = 60_000  # of simulated time, for a wait without a limit
PACE: Final = 100.0  # simulated microseconds per millisecond at the page, unless a wait has another
GRID_US: Final = 10_000  # conditions are looked at so often, besides after each event
MESSAGES: Final = 5_000  # of the wire that are kept
MAX_FRESH: Final = 2_000  # messages since the chapter went on last that ``until_message`` sees
_NOT_YET: Final = object()


class StoryBroken(AssertionError):
    """A chapter does not hold: what it says or waits for has not happened."""


class StoryState(Enum):
    PLAYING = "playing"
    WAITING = "waiting"  # until the reader continues
    ASKING = "asking"  # until the reader has chosen
    DONE = "done"
    LEFT = "left"  # the reader has acted, and the recipe goes on without the story


@dataclass(frozen=True, slots=True)
class Chapter:
    """A story, and the cluster in which it takes place. ``missions`` are rows of docs/mission.md;
    the catalogue of its texts names further ones."""

    name: str
    number: int
    play: Callable[[Story], Awaitable[None]]
    seed: int = 1
    brokers: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    missions: tuple[str, ...] = ()

    def recipe(self) -> Recipe:
        """Return the recipe of the chapter before the story has done anything."""
        return Recipe(self.name, self.seed, self.brokers, dict(self.settings))


class Beat(NamedTuple):
    """What a story has said. ``kind``: say, ask or check; ``right`` is the right option of a
    question. Beats are numbered from 1."""

    number: int
    kind: str
    t_us: int
    key: str
    focus: tuple[str, ...]
    values: Values
    right: int | None = None


class BegunAction(NamedTuple):
    """An action that a story has begun; ``number`` is its index in the recipe."""

    number: int
    name: str


@dataclass(slots=True, eq=False)
class _Wait:
    """What a chapter waits for: ``poll`` returns it, or ``_NOT_YET``."""

    what: str
    poll: Callable[[], Any]
    begun_us: int
    limit_us: int
    stop_on: StopOn
    grid_us: int | None  # None: only at the limit, beside ``stop_on``

    def next_us(self, now_us: int) -> int:
        """Return when to look next, unless ``stop_on`` is before."""
        if self.grid_us is None:
            return max(now_us, self.limit_us)
        steps = (now_us - self.begun_us) // self.grid_us + 1
        return max(now_us, min(self.limit_us, self.begun_us + steps * self.grid_us))


@coroutine
def _suspend(wait: _Wait | StoryState) -> Generator[_Wait | StoryState, Any, Any]:
    """Give control to ``Telling``; return what it sends."""
    result = yield wait
    return result


class Story:
    """What a chapter can do. Times are simulated; ``pace`` is how many simulated microseconds the
    page plays in a millisecond. ``values`` fill the placeholders of a text."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self.beats: list[Beat] = []
        self.pace = PACE
        self._num_seen = 0  # events before the chapter went on last
        self._fresh_messages: deque[tuple[WireMessage, str]] = deque(maxlen=MAX_FRESH)
        playback.wire_observers.append(lambda *change: self._fresh_messages.append(change))

    @property
    def cluster(self) -> SimCluster:
        return self._playback.cluster

    @property
    def lesson(self) -> Reaper[DelayedOperation] | None:
        """The purgatory of the action ``timers``, after its first one."""
        wheels = self._playback.stagehand.wheels
        return wheels[0] if wheels else None

    @property
    def now_us(self) -> int:
        """The simulated microseconds since the start."""
        return self._playback.now_us

    # -------------------------------------------------------------------------------------- beats

    async def say(self, key: str, /, *, focus: Iterable[str] = (), **values: Value) -> None:
        """Say a sentence of the catalogue, and wait until the reader continues."""
        self._beat("say", key, focus, values)
        await _suspend(StoryState.WAITING)

    async def ask(
        self, key: str, /, right: int, *, focus: Iterable[str] = (), **values: Value
    ) -> None:
        """Put a question of the catalogue, and wait until the reader has chosen. The story does not
        learn what: it goes on in the same way."""
        self._beat("ask", key, focus, values, right)
        await _suspend(StoryState.ASKING)

    def check(self, key: str, held: bool, /, *, focus: Iterable[str] = (), **values: Value) -> None:
        """Show that a sentence holds, without a stop. Raises StoryBroken unless it does."""
        if not held:
            raise StoryBroken(f"the check {key} does not hold at {self.now_us / 1e6:.6f} s")
        self._beat("check", key, focus, values)

    # ------------------------------------------------------------------------------------- acting

    def do(self, name: str, /, **arguments: Value) -> BegunAction:
        """Begin an action of ``actions.py``."""
        return BegunAction(self._playback.act(name, **arguments), name)

    async def finished(
        self,
        act: BegunAction,
        *,
        limit_ms: int = LIMIT_MS,
        pace: float = PACE,
        may_fail: bool = False,
    ) -> None:
        """Wait until an action has come to its end. Raises StoryBroken if it was not possible or
        has failed, unless it ``may_fail``."""

        def is_finished() -> bool:
            return self._playback.is_carried_out(act.number)

        await self._until(f"the action {act.name} at its end", is_finished, limit_ms, pace)
        problem = self._playback.stagehand.acts[act.number].problem
        if problem is not None and not may_fail:
            raise StoryBroken(f"the action {act.name} has failed: {problem}")

    # ------------------------------------------------------------------------------------ waiting

    async def wait(self, ms: float, pace: float = PACE) -> None:
        """Let simulated time pass."""
        until_us = self.now_us + round(ms * 1_000)

        def is_over() -> Any:
            return None if self.now_us >= until_us else _NOT_YET

        await self._suspend_for(
            _Wait("", is_over, self.now_us, until_us, StopOn.NOTHING, None), pace
        )

    async def until(
        self,
        what: str,
        condition: Callable[[SimCluster], object],
        limit_ms: int = LIMIT_MS,
        pace: float = PACE,
    ) -> None:
        """Wait until a condition is true. ``NoNode`` counts as false: what it reads in ZooKeeper
        is not there yet. Raises StoryBroken after the limit."""
        await self._until(what, lambda: condition(self.cluster), limit_ms, pace)

    async def until_event(
        self, name: str, /, limit_ms: int = LIMIT_MS, pace: float = PACE, **facts: Any
    ) -> Mapping[str, Any]:
        """Wait for an event of a log with this name and these facts, since the chapter went on
        last; return all its facts. Raises StoryBroken after the limit."""
        begun = self._num_seen

        def find() -> Any:
            for event in self._events_since(self._num_seen):
                self._num_seen += 1
                has_facts = all(event.facts.get(key) == value for key, value in facts.items())
                if event.name == name and has_facts:
                    return event.facts
            return _NOT_YET

        what = f"the event {name} with {facts or 'any facts'} (after event {begun})"
        found = await self._suspend_for(self._limited(what, find, limit_ms, StopOn.EVENT), pace)
        event_facts: Mapping[str, Any] = found
        return event_facts

    async def until_message(
        self,
        api: str,
        /,
        source: str | None = None,
        target: str | None = None,
        arrived: bool = True,
        is_request: bool = True,
        limit_ms: int = LIMIT_MS,
        pace: float = PACE,
    ) -> WireMessage:
        """Wait until a request or a response of this API has arrived, or has been sent, since the
        chapter went on last. Those of ZooKeeper are named as on the wire, such as "Multi
        /controller". Raises StoryBroken after the limit."""
        change = "arrived" if arrived else "sent"

        def find() -> Any:
            while self._fresh_messages:
                message, how = self._fresh_messages.popleft()
                if (
                    how == change
                    and message.api == api
                    and message.is_request == is_request
                    and source in (None, message.source)
                    and target in (None, message.target)
                ):
                    return copy(message)  # its later changes are not the chapter's
            return _NOT_YET

        kind = "request" if is_request else "response"
        what = f"a {kind} {api} from {source or 'a host'} to {target or 'a host'}, {change}"
        stop_on = StopOn.ARRIVED if arrived else StopOn.SENT
        found = await self._suspend_for(self._limited(what, find, limit_ms, stop_on), pace)
        assert isinstance(found, WireMessage)
        return found

    # ------------------------------------------------------------------------------------ helpers

    def _beat(
        self,
        kind: str,
        key: str,
        focus: Iterable[str],
        values: Mapping[str, Value],
        right: int | None = None,
    ) -> None:
        assert not isinstance(focus, str), "the focus is a tuple"
        number = len(self.beats) + 1
        self.beats.append(Beat(number, kind, self.now_us, key, tuple(focus), values, right))

    async def _until(
        self, what: str, condition: Callable[[], object], limit_ms: int, pace: float
    ) -> None:
        def is_reached() -> Any:
            try:
                return None if condition() else _NOT_YET
            except NoNode:
                return _NOT_YET

        wait = self._limited(what, is_reached, limit_ms, StopOn.EVENT, GRID_US)
        await self._suspend_for(wait, pace)

    def _limited(
        self,
        what: str,
        poll: Callable[[], Any],
        limit_ms: int,
        stop_on: StopOn,
        grid_us: int | None = None,
    ) -> _Wait:
        now_us = self.now_us
        return _Wait(what, poll, now_us, now_us + limit_ms * 1_000, stop_on, grid_us)

    async def _suspend_for(self, wait: _Wait, pace: float) -> Any:
        self.pace = pace
        return await _suspend(wait)

    def _events_since(self, number: int) -> list[LogEvent]:
        fresh = list(islice(reversed(self._playback.events), self._playback.num_events - number))
        return fresh[::-1]

    def has_gone_on(self, with_event: bool) -> None:
        """Forget what happened before: the chapter goes on. ``with_event``: it has found an event,
        and may wait for a later one of the same turn."""
        if not with_event:
            self._num_seen = self._playback.num_events
        self._fresh_messages.clear()


class Telling:
    """Drives a chapter on a playback, which has just begun.

    The methods raise StoryBroken if the chapter does not hold, and what the playback raises.
    """

    def __init__(self, chapter: Chapter, playback: Playback) -> None:
        self.chapter = chapter
        self.state = StoryState.PLAYING
        self._playback = playback
        self._story = Story(playback)
        self._coroutine: Any = chapter.play(self._story)
        self._wait: _Wait | None = None
        self._is_due = False  # to look at what the chapter waits for
        self._resume(None)

    @property
    def beats(self) -> list[Beat]:
        return self._story.beats

    @property
    def pace(self) -> float:
        return self._story.pace

    @property
    def is_paused(self) -> bool:
        """Whether the reader has to continue or to choose."""
        return self.state in (StoryState.WAITING, StoryState.ASKING)

    def close(self) -> None:
        """End the chapter where it is: the reader leaves it."""
        self._coroutine.close()
        self.state = StoryState.LEFT

    def go_on(self) -> None:
        """Go on after a sentence or a question; do nothing elsewhere."""
        if self.is_paused:
            self._resume(None)

    def run_to(self, t_us: int, stop_on: StopOn = StopOn.NOTHING) -> bool:
        """Play until ``t_us``, until the story stops or ends, or until the end of the turn in which
        one of ``stop_on`` happens. Return whether everything that is due by ``t_us`` has run."""
        playback = self._playback
        if self.state in (StoryState.DONE, StoryState.LEFT):
            return playback.run_slice(t_us, stop_on)
        has_run = has_stopped = False
        while self.state is StoryState.PLAYING:
            assert self._wait is not None
            if self._is_due:
                self._is_due = False
                self._look(self._wait)
                continue
            if has_stopped or (has_run and playback.now_us >= t_us):
                return has_run
            wait = self._wait
            next_us = wait.next_us(playback.now_us)
            has_run = playback.run_slice(min(t_us, next_us), wait.stop_on | stop_on)
            has_stopped = bool(playback.happened & stop_on)
            self._is_due = bool(playback.happened & wait.stop_on) or (
                has_run and playback.now_us >= next_us
            )
        return False

    def _look(self, wait: _Wait) -> None:
        found = wait.poll()
        if found is not _NOT_YET:
            self._resume(found)
        elif self._playback.now_us >= wait.limit_us:
            seconds = (wait.limit_us - wait.begun_us) / 1e6
            self._resume(None, StoryBroken(f"not within {seconds:g} simulated s: {wait.what}"))

    def _resume(self, found: Any, broken: StoryBroken | None = None) -> None:
        """Resume the chapter until it waits again."""
        self._story.has_gone_on(with_event=isinstance(found, Mapping))
        self.state, self._wait = StoryState.LEFT, None  # if it raises
        try:
            if broken is not None:
                wanted = self._coroutine.throw(broken)
            else:
                wanted = self._coroutine.send(found)
        except StopIteration:
            self.state = StoryState.DONE
            return
        if isinstance(wanted, StoryState):
            self.state = wanted
        else:
            self.state, self._wait, self._is_due = StoryState.PLAYING, wanted, True


class Performance(NamedTuple):
    """A chapter that was played to its end."""

    beats: list[Beat]
    digest: str
    end_us: int
    recipe: Recipe


def play_through(chapter: Chapter, slices_us: Iterator[int] | None = None) -> Performance:
    """Play a chapter to its end, as a reader who always continues. ``slices_us`` are the lengths of
    the slices. Raises StoryBroken if it does not hold."""
    lengths = repeat(1_000_000) if slices_us is None else slices_us
    with Playback(chapter.recipe(), MESSAGES) as playback:
        telling = Telling(chapter, playback)
        while telling.state is not StoryState.DONE:
            if telling.is_paused:
                telling.go_on()
            else:
                telling.run_to(playback.now_us + next(lengths))
        return Performance(telling.beats, playback.digest(), playback.now_us, playback.recipe)
