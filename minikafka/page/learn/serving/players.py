"""The processes of the sessions: a bounded number, each for the page of one tab."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from typing import Final

from minikafka.kernel.own_command import own_module
from minikafka.kernel.ports import Clock
from minikafka.page.dashboard.context import HttpError

MAX_SESSIONS: Final = 8
IDLE_MS: Final = 600_000
LOOK_MS: Final = 30_000
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
RESPONSE_WITHIN_MS: Final = 120_000
END_WITHIN_MS: Final = 2_000
MODULE: Final = "minikafka.page.learn.serving.player"

is_session_name = re.compile(r"[0-9A-Za-z-]{1,64}").fullmatch


class PlayerProcess:
    """One process of ``player.py``, with its checkpoints."""

    def __init__(self, clock: Clock) -> None:
        self.used_ms = clock.monotonic_ms()
        self.turn = asyncio.Lock()
        self._clock = clock
        self._process: Process | None = None

    @property
    def is_busy(self) -> bool:
        return self.turn.locked()

    async def start(self) -> None:
        """Start the process; requests may follow at once. Raises OSError."""
        self._process = await asyncio.create_subprocess_exec(
            *own_module(MODULE),
            stdin=PIPE,
            stdout=PIPE,
            stderr=None,
            limit=MAX_RESPONSE_BYTES,
            start_new_session=True,  # Ctrl-C is for the server, which ends all
        )

    async def request(self, line: bytes) -> bytes:
        """Return the response to one line. Raises OSError if the process has ended or is stuck."""
        process = self._process
        if process is None:
            raise OSError("no process could be started")
        assert process.stdin is not None
        assert process.stdout is not None
        self.used_ms = self._clock.monotonic_ms()
        if process.stdin.is_closing():
            raise OSError("the process of the simulation has ended")
        process.stdin.write(line + b"\n")
        try:
            async with asyncio.timeout(RESPONSE_WITHIN_MS / 1000):
                await process.stdin.drain()
                response = await process.stdout.readline()
        except (TimeoutError, ValueError) as error:
            raise OSError("the simulation takes too long or says too much") from error
        if not response.endswith(b"\n"):
            raise OSError("the process of the simulation has ended")
        self.used_ms = self._clock.monotonic_ms()
        return response

    async def end(self) -> None:
        """End the process and its checkpoints: by the end of its input, else by a signal."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_WITHIN_MS / 1000):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


class Players:
    """The sessions by the names that their pages have chosen, the least recently used one first.
    One more process waits for the next session, since it takes a moment to start."""

    def __init__(self, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._clock = clock
        self._tasks = tasks
        self._players: dict[str, PlayerProcess] = {}
        self._spare: asyncio.Task[PlayerProcess] | None = None

    def __len__(self) -> int:
        return len(self._players)

    def prepare(self) -> None:
        """Start the process of the next session."""
        if self._spare is None:
            self._spare = self._tasks.create_task(self._started(), name="spare")

    async def _started(self) -> PlayerProcess:
        player = PlayerProcess(self._clock)
        with contextlib.suppress(OSError):  # its first request raises another one
            await player.start()
        return player

    async def request(self, session: str, line: bytes) -> bytes:
        """Return the response of a session, which is made for a new name. Raises HttpError."""
        player = await self._player(session)
        async with player.turn:
            try:
                return await player.request(line)
            except OSError as error:
                if self._players.get(session) is player:
                    del self._players[session]
                self._end(player)
                raise HttpError(502, f"The simulation was lost ({error}). Open it again.") from None

    async def _player(self, session: str) -> PlayerProcess:
        player = self._players.pop(session, None)
        if player is None:
            self._make_room()
            self.prepare()
            spare, self._spare = self._spare, None
            assert spare is not None
            player = await spare
            other = self._players.pop(session, None)
            if other is not None:  # two first requests at once
                self._end(player)
                player = other
            self.prepare()
        self._players[session] = player
        return player

    def _make_room(self) -> None:
        if len(self._players) < MAX_SESSIONS:
            return
        for name, player in self._players.items():
            if not player.is_busy:
                del self._players[name]
                self._end(player)
                return
        raise HttpError(503, f"All {MAX_SESSIONS} sessions are busy. Close another tab.")

    async def end_idle(self) -> None:
        """End sessions that are idle for long, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_MS)
            self.end_older_than(self._clock.monotonic_ms() - IDLE_MS)

    def end_older_than(self, used_ms: int) -> None:
        """End the sessions that were used last before ``used_ms``."""
        for name, player in list(self._players.items()):
            if player.used_ms < used_ms and not player.is_busy:
                del self._players[name]
                self._end(player)

    def _end(self, player: PlayerProcess) -> None:
        self._tasks.create_task(player.end(), name="end a session")

    async def close(self) -> None:
        """End all processes."""
        players = list(self._players.values())
        self._players.clear()
        if self._spare is not None:
            players.append(await self._spare)
            self._spare = None
        await asyncio.gather(*(player.end() for player in players))
