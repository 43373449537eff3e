"""Acts that run in the page's process, with what they have printed so far.

A browser that is reloaded, or another one, finds them again: the request that began an act is not
what keeps it alive. The newest ``MOST_RUNS`` are kept; each has a bounded output.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import field
from typing import Any, Final, TypeAlias

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.kernel.ports import Clock
from minikafka.page.dashboard.context import HttpError

MOST_RUNS: Final = 50
MOST_RUNNING: Final = 25
MOST_SHOWN_BYTES: Final = 64 * 1024  # the end of the output
UNAVAILABLE: Final = 503


@dataclass(slots=True)
class ActRun:
    """One run of an act. ``command`` is empty until it begins; ``reply`` is None until it ends."""

    id: int
    name: str
    title: str
    begun_ms: int
    command: str = ""
    dry_run: bool = False
    output: bytearray = field(default_factory=bytearray)
    ended_ms: int | None = None
    reply: dict[str, Any] | None = None

    def facts(self, with_output: bool = False) -> dict[str, Any]:
        """Return the run as the page gets it. ``status`` is None while it runs, and if it was
        killed."""
        reply = self.reply or {}
        found: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "title": self.title,
            "command": self.command,
            "dry_run": self.dry_run,
            "begun_ms": self.begun_ms,
            "ended_ms": self.ended_ms,
            "status": reply.get("status"),
            "errors": reply.get("errors", ""),
        }
        if with_output:
            found["output"] = self.output[-MOST_SHOWN_BYTES:].decode(errors="replace")
        return found


Reply: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[ActRun], Awaitable[Reply]]
# Starts a task that is cancelled when the server stops.
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]


class ActRuns:
    """The acts that run, and the last ones that have ended: a page that is loaded again finds them.
    An act runs on when its browser goes."""

    def __init__(self, clock: Clock, spawn: Spawn) -> None:
        self._clock = clock
        self._spawn = spawn
        self._runs: deque[ActRun] = deque()
        self._ids = itertools.count(1)

    async def keep(self, name: str, title: str, dry_run: bool, work: Work) -> Reply:
        """Carry out ``work`` whatever becomes of the caller, and return its reply.

        ``work`` sets the command of its run when it begins. Raises what it raises, and HttpError
        if too many acts run, or the server stops."""
        if sum(run.ended_ms is None for run in self._runs) >= MOST_RUNNING:
            raise HttpError(UNAVAILABLE, f"{MOST_RUNNING} acts are running: wait for one to end.")
        run = ActRun(next(self._ids), name, title, self._clock.wall_ms(), dry_run=dry_run)
        self._runs.append(run)
        self._forget()
        outcome: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._spawn(self._carry_out(run, work, outcome))
        return await asyncio.shield(outcome)

    async def _carry_out(
        self,
        run: ActRun,
        work: Work,
        outcome: asyncio.Future[Reply],
    ) -> None:
        try:
            run.reply = await work(run)
            outcome.set_result(run.reply)
        except asyncio.CancelledError:
            outcome.set_exception(HttpError(UNAVAILABLE, "The page was stopped."))
            raise
        except Exception as error:  # raised to the caller, and kept if the browser has gone
            run.reply = {"errors": str(error) or type(error).__name__}
            outcome.set_exception(error)
        finally:
            run.ended_ms = self._clock.wall_ms()
            if outcome.done() and not outcome.cancelled():
                outcome.exception()  # it is retrieved, even if the caller has gone

    def _forget(self) -> None:
        """Drop the oldest runs that have ended."""
        over = len(self._runs) - MOST_RUNS
        for run in [run for run in self._runs if run.ended_ms is not None][: max(0, over)]:
            self._runs.remove(run)

    def newest(self) -> list[ActRun]:
        """Return the runs that have begun, the newest first."""
        return [run for run in reversed(self._runs) if run.command]

    def find(self, number: int) -> ActRun | None:
        return next((run for run in self.newest() if run.id == number), None)
