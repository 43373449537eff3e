"""Playback: a simulated cluster that is played, stepped, acted upon and scrubbed back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Flag, auto
from importlib import metadata
from types import TracebackType
from typing import Self

from minikafka.kernel.config import ConfigError
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.page.learn.actions import Stagehand, check_action
from minikafka.page.learn.messages import MessageLog, WireMessage
from minikafka.page.learn.recipe import MAX_US, Recipe, RecipeError, RecipeReport, Value
from minikafka.testing.simulator.cluster import SETTINGS, LogEvent, SimCluster
from minikafka.world.sim.loop import START_US

MAX_EVENTS = 20_000  # kept of a playback
STEP_LIMIT_US = 60_000_000
RESOLUTION_US = 10_000

# A recipe may come from a stranger's link: only settings of what the brokers do among themselves.
# Those that name classes, files, listeners and addresses are left out.
_GROUPS_OF_SETTINGS = """
    auto compression connections.max.idle controlled controller.socket default delete fetch
    group inter.broker.protocol leader log.cleaner log.cleanup log.flush log.index log.message
    log.retention log.roll log.segment max message min.insync minikafka num offset offsets producer
    purgatory
    queued quota
    replica.fetch replica.high replica.lag replica.socket replication request socket transaction
    transactional unclean zookeeper.connection zookeeper.session
"""
_SETTINGS_BEGIN = tuple(f"{group}." for group in _GROUPS_OF_SETTINGS.split())


class StopOn(Flag):
    """What ends a slice before its time, at the end of the turn of the loop."""

    NOTHING = 0
    EVENT = auto()
    SENT = auto()
    ARRIVED = auto()


_STOPS = {"sent": StopOn.SENT, "arrived": StopOn.ARRIVED}


class Playback:
    """Plays a recipe on a simulated cluster. Use it as a context manager, or call ``close``.

    All brokers start at 0. Times are microseconds since then. The same recipe, played to the same
    time, has the same digest, in whatever slices, also with actions that were added meanwhile. An
    error that leaves its ``with`` block has a note with the recipe.
    ``messages`` is how many messages of the wire to keep; those on their way are known in any case.
    It has an event loop for itself, so a server plays it in a thread.

    Raises RecipeError for a recipe that cannot be played. The methods that run raise the error of a
    broker or a client that has failed; then only scrubbing back and ``close`` make sense.
    """

    def __init__(self, recipe: Recipe, messages: int = 0) -> None:
        for action in recipe.actions:
            check_action(action.name, action.arguments, recipe.brokers)
        self.recipe = replace(recipe, version=recipe.version or metadata.version("minikafka"))
        self._settings = checked_settings(recipe)
        self.wire_observers: list[Callable[[WireMessage, str], None]] = []  # see MessageLog
        self._keep_messages = messages
        self._stop_on = StopOn.NOTHING
        self._failed = False
        self._begin()

    def _begin(self) -> None:
        self.events: deque[LogEvent] = deque(maxlen=MAX_EVENTS)
        self.num_events = 0  # since the start
        self._new_events: list[LogEvent] = []
        self._new_messages: list[WireMessage] = []
        self.happened = StopOn.NOTHING  # in the last slice
        self._failed = False
        brokers = range(1, self.recipe.brokers + 1)
        self.cluster = SimCluster(self.recipe.seed, brokers, self._settings)
        self.cluster.observers.append(self._on_event)
        fabric = self.cluster.simulation.fabric
        self.log = MessageLog(self._keep_messages, lambda: self.now_us, self._on_wire, fabric.lane)
        self.cluster.simulation.links.wiretap = self.log
        self.messages = self.log.messages
        self.stagehand = Stagehand(self.cluster, self.log)
        self.cluster.simulation.loop.call_soon(self.cluster.start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed = self._failed or error is not None
        if error is not None:
            error.add_note(RecipeReport(self.recipe, self.now_us).note())
        self.close()

    def close(self) -> None:
        """End the simulation. Raises failures that have not been raised yet."""
        try:
            self.cluster.end()
        except BaseExceptionGroup:
            if not self._failed:
                raise

    @property
    def now_us(self) -> int:
        return self.cluster.simulation.loop.now_us - START_US

    def digest(self) -> str:
        """Return the digest of everything that has happened so far."""
        return self.cluster.simulation.digest()

    # ------------------------------------------------------------------------------------ running

    def advance_to(self, t_us: int) -> None:
        """Play until ``t_us``, with the actions of the recipe. Raises ValueError for a time that
        has passed, or after the limit of a recipe."""
        if not self.now_us <= t_us <= MAX_US:
            raise ValueError(f"the time must be from {self.now_us} to {MAX_US}, not {t_us}")
        self._run_to(t_us)

    def step(self, limit_us: int = STEP_LIMIT_US) -> list[LogEvent]:
        """Play until the next event of a log, at most for ``limit_us``. Return the events of that
        turn of the loop; none if the limit was first."""
        self._run_to(self._after(limit_us), StopOn.EVENT)
        return self._new_events

    def step_message(self, limit_us: int = STEP_LIMIT_US) -> list[WireMessage]:
        """Play until the next message has arrived, at most for ``limit_us``. Return the messages
        that have arrived in that turn of the loop."""
        if not self._keep_messages:
            raise ValueError("this playback keeps no messages")
        self._run_to(self._after(limit_us), StopOn.ARRIVED)
        return self._new_messages

    def run_until(
        self,
        predicate: Callable[[SimCluster], bool],
        limit_us: int = STEP_LIMIT_US,
        resolution_us: int = RESOLUTION_US,
    ) -> bool:
        """Play until ``predicate`` returns True, at most for ``limit_us``; return whether it did.
        It is called at the begin, after each event and every ``resolution_us``."""
        end_us = self._after(limit_us)
        while not (reached := predicate(self.cluster)) and self.now_us < end_us:
            self._run_to(min(end_us, self.now_us + resolution_us), StopOn.EVENT)
        return reached

    def run_slice(self, t_us: int, stop_on: StopOn) -> bool:
        """Play until ``t_us``, or until the end of the turn of the loop in which one of ``stop_on``
        happens. Return whether everything that is due by ``t_us`` has run."""
        return self._run_to(t_us, stop_on)

    def scrub_to(self, t_us: int) -> None:
        """Go to any time. Back means to play the recipe again from its start: it keeps its later
        actions until ``act`` forks it."""
        if t_us < self.now_us or self._failed:
            try:
                self.close()
            finally:
                self._begin()
        self.advance_to(t_us)

    # ------------------------------------------------------------------------------------- acting

    def act(self, name: str, /, **arguments: Value) -> int:
        """Carry out an action now, and add it to the recipe, which loses its later actions. It
        begins after everything that is due by now. Return its number. Raises RecipeError.

        Failures of clients, and an action that is not possible, become events.
        """
        check_action(name, arguments, self.recipe.brokers)
        now_us = self.now_us
        forked = self.recipe.until(now_us).then(now_us, name, arguments)
        self._run_to(now_us)
        self.recipe = forked
        self._run_to(now_us)
        return len(forked.actions) - 1

    def is_carried_out(self, action: int) -> bool:
        """Return whether an action of the recipe has come to its end."""
        return action < len(self.stagehand.acts) and self.stagehand.acts[action].ended

    # ------------------------------------------------------------------------------------ helpers

    def _after(self, limit_us: int) -> int:
        return min(MAX_US, self.now_us + limit_us)

    def _run_to(self, t_us: int, stop_on: StopOn = StopOn.NOTHING) -> bool:
        self._new_events, self._new_messages = [], []
        self.happened = StopOn.NOTHING
        self._stop_on = stop_on
        try:
            while len(self.stagehand.acts) < len(self.recipe.actions):
                action = self.recipe.actions[len(self.stagehand.acts)]
                if action.t_us > t_us:
                    break
                if not self.cluster.run_slice(action.t_us):
                    return False
                arguments = check_action(action.name, action.arguments, self.recipe.brokers)
                self.stagehand.begin(action.name, arguments)
            return self.cluster.run_slice(t_us)
        except BaseException:
            self._failed = True
            raise
        finally:
            self._stop_on = StopOn.NOTHING

    def _on_event(self, event: LogEvent) -> None:
        self.events.append(event)
        self._new_events.append(event)
        self.num_events += 1
        self._happens(StopOn.EVENT)

    def _on_wire(self, message: WireMessage, change: str) -> None:
        if change == "arrived":
            self._new_messages.append(message)
        for observe in self.wire_observers:
            observe(message, change)
        self._happens(_STOPS.get(change, StopOn.NOTHING))

    def _happens(self, what: StopOn) -> None:
        self.happened |= what
        if what & self._stop_on:
            self.cluster.simulation.loop.stop()


def checked_settings(recipe: Recipe) -> Mapping[str, str]:
    """Return a recipe's settings with the defaults of learn mode. Raises RecipeError."""
    for name in recipe.settings:
        if not name.startswith(_SETTINGS_BEGIN):
            raise RecipeError(f"a recipe cannot change the setting {name}")
    defaults = {
        "group.initial.rebalance.delay.ms": "0",
        # Sessions decide, as in Kafka, unless a chapter is about what notices a death earlier.
        "minikafka.fast.failover": "false",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(min(3, recipe.brokers)),
        "share.coordinator.state.topic.num.partitions": "4",
    }
    settings = defaults | dict(recipe.settings)
    try:
        BROKER_CONFIG.parse(SETTINGS | settings)
    except ConfigError as error:
        raise RecipeError(f"the settings of the recipe cannot be used: {error}") from error
    return settings
