"""The stage as readers see it: who reads, when state leaves, and a stream for each reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Final, TypeAlias

from minikafka.kernel.ports import Clock, TimerHandle
from minikafka.page.dashboard.messages import Hello, Message, json_text
from minikafka.page.dashboard.stage import Stage

COMMENT_EVERY_MS: Final = 15_000  # so that proxies keep a silent stream open
AT_ONCE: Final = 200  # messages in one chunk
READY_WITHIN_MS: Final = 2_000

_Numbered: TypeAlias = tuple[int | None, str]


class Broadcast:
    """Sources change ``stage`` and then call ``publish``. ``readers_changed`` is called when the
    first reader comes and when the last one goes."""

    def __init__(self, clock: Clock, stage: Stage) -> None:
        self.stage = stage
        self.readers = 0
        self.readers_changed: Callable[[], None] = lambda: None
        self._clock = clock
        self._news = asyncio.Event()  # replaced whenever it is set
        self._ready = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._closed = False

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._ready.set()
        self._news.set()

    def publish(self) -> None:
        """Let events and due state leave, and the rest when it is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._clock.monotonic_ms()
        due_ms = self.stage.flush(now_ms)
        if due_ms is not None:
            self._timer = self._clock.call_later(due_ms - now_ms, self._publish_due)
        self._news.set()
        self._news = asyncio.Event()

    def greet(self, hello: Hello) -> None:
        """Change what readers must know first."""
        self.stage.greet(hello, self._clock.wall_ms())
        self.publish()

    def set_supervised(
        self,
        verbs: Sequence[str],
        brokers: Sequence[int],
        paused: Sequence[int] = (),
        isolated: Sequence[int] = (),
    ) -> None:
        """Say what the supervisor can do to the processes of which brokers, and has done."""
        self.greet(
            self.stage.hello._replace(
                supervised=tuple(verbs),
                brokers_supervised=tuple(brokers),
                brokers_paused=tuple(paused),
                brokers_isolated=tuple(isolated),
            )
        )

    def set_ready(self, is_ready: bool) -> None:
        """Say whether the sources run and have looked at everything once. New readers wait for that
        a moment."""
        if is_ready:
            self._ready.set()
        else:
            self._ready.clear()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count a reader."""
        self.readers += 1
        self.readers_changed()
        try:
            yield
        finally:
            self.readers -= 1
            self.readers_changed()

    async def snapshot(self) -> list[Message]:
        """Return a snapshot. While the sources begin, wait a moment for them."""
        with self.reading():
            await self._first_look()
            return self.stage.snapshot()

    async def stream(self, last_id: str | None) -> AsyncGenerator[str]:
        """Yield server-sent events: after the message ``last_id`` if it is still known, after a
        snapshot otherwise. A slow reader gets a snapshot when the ring has lost its place."""
        yield ": the inside of a Kafka cluster\n\n"
        async with aclosing(self._series(last_id)) as chunks:
            async for chunk in chunks:
                yield (
                    "".join(
                        f"data: {text}\n\n" if number is None else self._with_id(number, text)
                        for number, text in chunk
                    )
                    or ": still here\n\n"
                )

    async def texts(self) -> AsyncGenerator[str]:
        """Yield the JSON of every message from a snapshot on."""
        async with aclosing(self._series(None)) as chunks:
            async for chunk in chunks:
                for _, text in chunk:
                    yield text

    async def _series(self, last_id: str | None) -> AsyncGenerator[Sequence[_Numbered]]:
        """Yield messages in chunks; an empty one where there have been none for a while. Only the
        last message of a snapshot has a number: a stream that breaks within it begins again."""
        stage = self.stage
        place = None if not last_id else stage.number_of(last_id)
        with self.reading():
            await self._first_look()
            while not self._closed:
                news = None if place is None else stage.since(place)
                if news is None:
                    texts = [json_text(message) for message in stage.snapshot()]
                    place = stage.last
                    yield [*((None, text) for text in texts[:-1]), (place, texts[-1])]
                elif news:
                    chunk = news[:AT_ONCE]
                    place = chunk[-1].number
                    yield chunk
                elif not await self._wait(self._news, COMMENT_EVERY_MS):
                    yield []

    def _with_id(self, number: int, text: str) -> str:
        return f"id: {self.stage.id_of(number)}\ndata: {text}\n\n"

    def _publish_due(self) -> None:
        self._timer = None
        self.publish()

    async def _first_look(self) -> None:
        await self._wait(self._ready, READY_WITHIN_MS)

    async def _wait(self, event: asyncio.Event, timeout_ms: int) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await event.wait()
        return event.is_set()
