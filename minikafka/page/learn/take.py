"""One run of a session: a playback from its start, with its story and what a page sees of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.disk_errors import with_errno_names
from minikafka.kernel.metrics import Metrics
from minikafka.page.dashboard.messages import EntityKey, Facts, Message
from minikafka.page.learn.actions import MAX_TIMERS
from minikafka.page.learn.facts import ClusterState
from minikafka.page.learn.happened import Happened
from minikafka.page.learn.hosts import host_facts
from minikafka.page.learn.playback import Playback, StopOn
from minikafka.page.learn.recipe import Recipe, Value
from minikafka.page.learn.score import Score, Violation
from minikafka.page.learn.story import MESSAGES, Beat, Chapter, StoryState, Telling
from minikafka.server.node.purgatories import BrokerPurgatories


class Take:
    """A simulation that fails is over: ``failed`` says why, and nothing moves any more.

    ``chapter`` is None for a recipe without a story. ``left`` are the beats of a story that the
    reader has left: it does not begin again. Raises RecipeError.
    """

    def __init__(
        self, recipe: Recipe, chapter: Chapter | None, left: list[Beat] | None = None
    ) -> None:
        self.failed: str | None = None
        self.beats: list[Beat] = left or []
        self.was_left = left is not None
        self.is_settled = False  # whether everything that is due by now has run
        self.playback = Playback(recipe, MESSAGES)
        self.state = ClusterState(self.playback.cluster, self._more)
        self.happened = Happened(self.playback)
        look = self.state.look
        self.score = Score(look.topic_id, self._on_violation)
        self.playback.cluster.observers.append(self.score.on_event)
        self.playback.stagehand.ack_observers.append(self._on_acknowledgement)
        self._telling: Telling | None = None
        if chapter is not None:
            self._tell(chapter)

    # ------------------------------------------------------------------------------------ reading

    @property
    def now_us(self) -> int:
        return self.playback.now_us

    @property
    def story(self) -> StoryState | None:
        if self.was_left:
            return StoryState.LEFT
        return None if self._telling is None else self._telling.state

    @property
    def is_paused(self) -> bool:
        """Whether the story waits for the reader."""
        return self._telling is not None and self._telling.is_paused

    @property
    def is_told(self) -> bool:
        """Whether what happens is the story's matter, not the recipe's alone."""
        return self._telling is not None and not self.was_left

    @property
    def pace(self) -> float | None:
        return None if self._telling is None else self._telling.pace

    def whole(self) -> list[Message]:
        """Return the messages of a whole picture."""
        return [*self.state.whole(), *self.happened.whole(self.state.at_ms)]

    def changes(self) -> list[Message]:
        """Return messages about what is new since the last picture."""
        if self.happened.is_much:
            return self.whole()
        return [*self.happened.changes(self.state.at_ms), *self.state.changes()]

    # ------------------------------------------------------------------------------------ playing

    def run(self, t_us: int, stop_on: StopOn = StopOn.NOTHING) -> bool:
        """Play until ``t_us``, or the end of the turn in which one of ``stop_on`` happens, or the
        story stops. Return whether everything that is due by ``t_us`` has run."""
        playing = self._telling or self.playback
        run = playing.run_to if isinstance(playing, Telling) else playing.run_slice
        self.is_settled = False
        if self.failed is None:
            self.is_settled = self._guarded(lambda: run(t_us, stop_on)) is True
        return self.is_settled

    def go_on(self) -> None:
        """Go on after a sentence or a question."""
        telling = self._telling
        if telling is not None and self.failed is None:
            self.is_settled = False
            self._guarded(telling.go_on)

    def act(self, name: str, arguments: Mapping[str, Value]) -> None:
        """Leave the story, and carry out an action whose arguments are checked."""
        if self._telling is not None:
            self._telling.close()
            self.was_left = True
        self._guarded(lambda: self.playback.act(name, **arguments))
        self.is_settled = self.failed is None

    def close(self) -> str | None:
        """End the simulation. Return the reason if it has failed at that."""
        try:
            if self._telling is not None:
                self._telling.close()
            self.playback.close()
        except (Exception, BaseExceptionGroup) as error:
            return reason_of(error)
        return None

    # ------------------------------------------------------------------------------------ helpers

    def _tell(self, chapter: Chapter) -> None:
        def begin() -> None:
            self._telling = Telling(chapter, self.playback)
            self.beats = self._telling.beats

        self._guarded(begin)

    def _on_acknowledgement(self, partition: TopicPartition, offset: int) -> None:
        self.score.add(partition, offset, self.now_us)

    def _on_violation(self, violation: Violation) -> None:
        self.happened.add(violation.t_us, "violation", "error", violation.facts)

    def _guarded(self, play: Callable[[], object]) -> object:
        """Call what plays. Whatever a broker, a client or a chapter raises is shown to the reader,
        who can scrub back; it must not end the session."""
        try:
            return play()
        except (Exception, BaseExceptionGroup) as error:
            self.failed = reason_of(error)
            return None

    def _more(self, broker: int | None) -> Mapping[EntityKey, Facts]:
        """Return what only a simulation has: its hosts, and the timers of the lesson, which are
        shown with the purgatories of the first broker."""
        cluster, stagehand = self.playback.cluster, self.playback.stagehand
        if broker is None:
            return {("host", facts["name"]): facts for facts in host_facts(cluster)}
        clock = stagehand.lesson_clock
        if broker != cluster.broker_ids[0] or clock is None:
            return {}
        purgatories = BrokerPurgatories(clock, Metrics(), stagehand.wheels).facts(MAX_TIMERS)
        return {("purgatory", facts["name"]): facts for facts in purgatories}


def reason_of(error: BaseException) -> str:
    """Return what an error, or the first one of a group, says in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(with_errno_names(str(error)).split())
    return f"{type(error).__name__}: {text}"[:1_000] if text else type(error).__name__
