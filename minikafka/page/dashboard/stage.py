"""The state that all pages show, merged from all sources, as a bounded series of messages.

A source names the entities that it has looked at; the stage finds out which facts are new. Readers
see a numbered series of messages. The state of a source leaves at most ten times a second, and only
the latest facts of an entity do; events leave at once, each of them. The last messages are kept in
a ring: a reader that names a number from it continues there. Any other reader gets a snapshot.
Either way its state is the same in the end. Nothing is kept for a reader.

Everything here is synchronous. Times are arguments: ``at_ms`` is wall-clock time, which is shown;
``now_ms`` is monotonic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.page.dashboard.messages import (
    EntityKey,
    Facts,
    Hello,
    LoggedEvent,
    Message,
    Source,
    event_message,
    hello_message,
    json_text,
    missed_message,
    state_message,
)

STATE_EVERY_MS: Final = 100  # of one source
MAX_MESSAGES: Final = 10_000  # in the ring
MAX_BYTES: Final = 8 * 1024 * 1024  # in the ring
MAX_EVENTS: Final = 500  # in a snapshot


class Numbered(NamedTuple):
    """A message of the series, as JSON."""

    number: int
    text: str


class _Scene:
    """The entities of one source, and those that have changed since its last message."""

    def __init__(self) -> None:
        self.entities: dict[EntityKey, Facts] = {}
        self.pending: dict[EntityKey, Facts | None] = {}  # None: removed
        self.at_ms = 0
        self.next_ms = 0  # monotonic: when a message may leave

    def put(self, key: EntityKey, facts: Facts) -> None:
        if self.entities.get(key) != facts:
            self.entities[key] = self.pending[key] = facts

    def remove(self, key: EntityKey) -> None:
        if self.entities.pop(key, None) is not None:
            self.pending[key] = None


class Stage:
    """``boot`` names this process among others that serve the same page."""

    def __init__(self, boot: str, hello: Hello, at_ms: int) -> None:
        self.boot = boot
        self.hello = hello
        self.last = 0  # number of the last message
        self._hello_at_ms = at_ms
        self._scenes: dict[Source, _Scene] = {}
        self._ring: deque[Numbered] = deque()
        self._ring_bytes = 0
        self._events: deque[Message] = deque(maxlen=MAX_EVENTS)

    # ------------------------------------------------------------------------------------ sources

    def greet(self, hello: Hello, at_ms: int) -> None:
        """Set what readers must know first. If it differs, all of them get a snapshot."""
        if hello != self.hello:
            self.hello = hello
            self._hello_at_ms = at_ms
            self._ring.clear()
            self._ring_bytes = 0
            self.last += 1  # no reader can continue from before

    def apply(
        self,
        source: Source,
        at_ms: int,
        changed: Iterable[tuple[EntityKey, Facts]],
        removed: Iterable[EntityKey] = (),
    ) -> None:
        """Change single entities of a source."""
        scene = self._scenes.setdefault(source, _Scene())
        scene.at_ms = at_ms
        for key in removed:
            scene.remove(key)
        for key, facts in changed:
            scene.put(key, facts)

    def replace(
        self,
        source: Source,
        at_ms: int,
        entities: Mapping[EntityKey, Facts],
        kept: Collection[str] = (),
    ) -> None:
        """Replace all entities of a source, except those of the kinds ``kept``."""
        known = self.entities(source)
        gone = [key for key in known if key not in entities and key[0] not in kept]
        self.apply(source, at_ms, entities.items(), gone)

    def entities(self, source: Source) -> Mapping[EntityKey, Facts]:
        scene = self._scenes.get(source)
        return {} if scene is None else scene.entities

    def looked_at_ms(self, source: Source) -> int:
        """Return when a source was last looked at, in ms of the wall clock; 0 if it never was."""
        scene = self._scenes.get(source)
        return 0 if scene is None else scene.at_ms

    def add_event(self, broker: int, event: LoggedEvent) -> None:
        message = event_message(broker, event)
        self._events.append(message)
        self._add(message)

    def add_missed(self, broker: int, count: int, at_ms: int) -> None:
        self._add(missed_message(broker, count, at_ms))

    # ------------------------------------------------------------------------------------ readers

    def flush(self, now_ms: int) -> int | None:
        """Let the state messages leave that are due. Return when the next one is, or None."""
        waiting: list[int] = []
        for source, scene in self._scenes.items():
            if not scene.pending:
                continue
            if now_ms < scene.next_ms:
                waiting.append(scene.next_ms)
                continue
            pending, scene.pending = scene.pending, {}
            changed = [(key, facts) for key, facts in pending.items() if facts is not None]
            removed = [key for key, facts in pending.items() if facts is None]
            self._add(state_message(source, scene.at_ms, changed, removed))
            scene.next_ms = now_ms + STATE_EVERY_MS
        return min(waiting, default=None)

    def snapshot(self) -> list[Message]:
        """Return messages that bring a reader to the state at the number ``last``, or to a later
        one: changes that have not left yet are contained, and leave again."""
        at_ms = max([self._hello_at_ms, *(scene.at_ms for scene in self._scenes.values())])
        states = [
            state_message(source, scene.at_ms, scene.entities.items(), reset=True)
            for source, scene in self._scenes.items()
        ]
        events = sorted(self._events, key=lambda event: int(event["at"]))
        return [hello_message(self.hello, at_ms), *states, *events]

    def since(self, number: int) -> list[Numbered] | None:
        """Return the messages after a number; None if the reader needs a snapshot."""
        first = self._ring[0].number if self._ring else self.last + 1
        if not first - 1 <= number <= self.last:
            return None
        count = self.last - number
        return [self._ring[at] for at in range(len(self._ring) - count, len(self._ring))]

    def id_of(self, number: int) -> str:
        """Return the id of a message, by which a browser continues."""
        return f"{self.boot}-{number}"

    def number_of(self, message_id: str) -> int | None:
        """Return the number in an id; None for one of another process."""
        boot, _, number = message_id.rpartition("-")
        usable = boot == self.boot and number.isascii() and number.isdecimal() and len(number) < 16
        return int(number) if usable else None

    def _add(self, message: Message) -> None:
        self.last += 1
        text = json_text(message)
        self._ring.append(Numbered(self.last, text))
        self._ring_bytes += len(text)
        while self._ring_bytes > MAX_BYTES or len(self._ring) > MAX_MESSAGES:
            self._ring_bytes -= len(self._ring.popleft().text)
