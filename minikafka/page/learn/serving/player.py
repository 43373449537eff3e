"""The process of one session: reads a request a line, writes a line with the list of messages.

To go back in time means to play again, so the process keeps *checkpoints*: it forks, the child goes
on with the session, and the parent stands still as it was. A checkpoint is the parent of the one
that was made after it, and the last one is the parent of the *player*, the only one that reads and
writes.

    root (nothing is opened) -> checkpoint at 2 s -> checkpoint at 5 s -> player at 7.3 s

To go back to 3 s, the player writes the request, with what the reader has chosen since, into the
pipe to its parent and ends; so does each checkpoint that is too late. The one at 2 s forks again,
and its new child plays until 3 s. A parent always waits for its child, so no zombie remains; the
end of standard input ends the player, and with it one after the other.

There is one thread, and no event loop runs while a process forks.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from minikafka.page.learn.session import CarriedSession, Session
from minikafka.world.real.wall_clock import WallClock

MAX_CHECKPOINTS: Final = 8
FIRST_CHECKPOINT_MS: Final = 80  # of work after which there is a checkpoint
CHECKPOINT_GROWTH: Final = 1.8  # each one after more work than the one before
MIN_DISTANCE_US: Final = 1_000_000
NEAR_US: Final = 5_000_000  # a scrub forwards by more makes checkpoints on its way
TRAVEL_MS: Final = 100  # of work between two looks whether a checkpoint is due
CHUNK_BYTES: Final = 64 * 1024
STDIN: Final = 0
STDOUT: Final = 1


class Mark(NamedTuple):
    """A checkpoint: its simulated time, and whether a story was being played."""

    t_us: int
    is_told: bool


class _Return(NamedTuple):
    """What a process passes to its parents: the request is for the checkpoint ``level``; ``rest``
    are bytes of standard input after it."""

    level: int
    body: dict[str, Any]
    carried: CarriedSession | None
    rest: bytes


class Player:
    """The session of this process, and the checkpoints above it."""

    def __init__(self, session: Session, wall_ms: Callable[[], float]) -> None:
        self._session = session
        self._wall_ms = wall_ms
        self._marks: list[Mark] = []
        self._worked_ms = 0.0  # since the last checkpoint
        self._buffer = b""
        self._parent = -1  # the pipe to it

    def run(self) -> NoReturn:
        """Serve requests until standard input ends; then the process ends."""
        self._fork()
        while (line := self._read_line()) is not None:
            self._serve(_parsed(line))
            if self._is_checkpoint_due():
                self._make_checkpoint()
        _end(0)

    # ----------------------------------------------------------------------------------- requests

    def _serve(self, body: object) -> None:
        if isinstance(body, dict):
            if body.get("do") == "open" and self._marks:
                body.setdefault("language", self._session.language)
                self._pass_up(_Return(0, body, None, self._buffer))
            carried = None
            if body.get("do") in ("scrub", "branch"):
                carried = self._session.carried(body, NEAR_US)
            if carried is not None:
                self._scrub(body, carried)
                return
        self._answer(lambda: self._session.request(body))

    def _scrub(self, body: dict[str, Any], carried: CarriedSession) -> None:
        is_forward = body["do"] == "scrub" and carried.to_us >= (self._session.now_us or 0)
        if is_forward and not self._session.has_failed:
            self._travel(carried)
        else:
            self._pass_up(_Return(self._level_for(carried), body, carried, self._buffer))

    def _travel(self, carried: CarriedSession) -> None:
        """Play until a time far away, with checkpoints on the way, and send the whole picture."""
        deadline_ms = self._wall_ms() + carried.budget_ms
        arrived = False
        while not arrived and (left_ms := deadline_ms - self._wall_ms()) > 0:
            begun_ms = self._wall_ms()
            arrived = self._session.travel(carried.to_us, min(left_ms, TRAVEL_MS))
            self._worked_ms += self._wall_ms() - begun_ms
            if not arrived and self._is_checkpoint_due() and not self._make_checkpoint():
                return  # another request has come back to that checkpoint
        self._answer(self._session.picture)

    def _answer(self, work: Callable[[], list[Any]]) -> None:
        begun_ms = self._wall_ms()
        self._session.checkpoints = [mark.t_us for mark in self._marks]
        messages = work()
        self._worked_ms += self._wall_ms() - begun_ms
        _write_all(STDOUT, json.dumps(messages, separators=(",", ":")).encode() + b"\n")

    def _level_for(self, carried: CarriedSession) -> int:
        """Return the last checkpoint from which the session can go on to a time; 0: none."""
        fitting = [
            level
            for level, mark in enumerate(self._marks, 1)
            if mark.t_us <= carried.to_us and mark.is_told == carried.is_told
        ]
        return fitting[-1] if fitting else 0

    def _make_checkpoint(self) -> bool:
        """Return as ``_fork`` does."""
        self._marks.append(Mark(self._session.now_us or 0, self._session.is_told))
        return self._fork()

    def _is_checkpoint_due(self) -> bool:
        now_us = self._session.now_us
        if now_us is None or len(self._marks) >= MAX_CHECKPOINTS or self._session.has_failed:
            return False
        last_us = self._marks[-1].t_us if self._marks else 0
        due_ms = FIRST_CHECKPOINT_MS * CHECKPOINT_GROWTH ** len(self._marks)
        return self._worked_ms >= due_ms and now_us >= last_us + MIN_DISTANCE_US

    # ---------------------------------------------------------------------------------- processes

    def _fork(self) -> bool:
        """Return in the child: True in the first one. This process becomes a checkpoint, which
        forks again for each return to it, and ends with its child otherwise. Such a later child
        serves the request that has returned, and False is returned in it."""
        self._worked_ms = 0.0
        gc.collect()
        gc.freeze()  # or the next collection would copy all pages that the two share
        returned: _Return | None = None
        while True:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                os.close(reading)
                if self._parent >= 0:
                    os.close(self._parent)
                self._parent = writing
                break
            os.close(writing)
            returned = self._child_end(child, reading)
        if returned is None:
            return True
        self._go_on(returned)
        return False

    def _child_end(self, child: int, reading: int) -> _Return:
        """Wait for the end of the child. Return what is for this checkpoint; end otherwise."""
        data = _read_all(reading)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        if not data:
            _end(0 if status == 0 else 1)
        returned: _Return = pickle.loads(data)  # of our own child
        if returned.level < len(self._marks):
            self._pass_up(returned)
        return returned

    def _go_on(self, returned: _Return) -> None:
        self._buffer = returned.rest
        carried, body = returned.carried, returned.body
        if carried is None:
            self._answer(lambda: self._session.request(body))
        else:
            self._session.take_over(carried)
            self._travel(carried)

    def _pass_up(self, returned: _Return) -> None:
        _write_all(self._parent, pickle.dumps(returned))
        _end(0)

    # -------------------------------------------------------------------------------------- lines

    def _read_line(self) -> bytes | None:
        """Return the next line; None at the end of standard input."""
        while b"\n" not in self._buffer:
            chunk = os.read(STDIN, CHUNK_BYTES)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _end(status: int) -> NoReturn:
    """End this process only: nothing of its parents' is flushed or closed."""
    os._exit(status)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int) -> bytes:
    parts = []
    while chunk := os.read(descriptor, CHUNK_BYTES):
        parts.append(chunk)
    return b"".join(parts)


def main() -> NoReturn:
    clock = WallClock()

    def wall_ms() -> float:
        return clock.monotonic_ns() / 1_000_000

    Player(Session(wall_ms), wall_ms).run()


if __name__ == "__main__":
    main()
