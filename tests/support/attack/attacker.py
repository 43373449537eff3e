"""Threads that send the cases of consecutive seeds to brokers chosen by the seed."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.support.attack.frames import Case, case_of

ANSWER_LIMIT_S = 0.5  # how long a case waits for a response before it leaves
HOLD_S = 2.0  # how long a slow connection stays
CHUNK = 1 << 16
REMEMBERED = 100_000  # cases


class Struck(NamedTuple):
    """A case that was sent, and when, by the monotonic clock."""

    start_s: float
    end_s: float
    seed: int
    kind: str


class Attacker:
    """A context: attacks until it is left. ``sent`` counts cases by kind, ``last_seeds`` has the
    newest seed of each thread."""

    def __init__(self, brokers: Sequence[tuple[str, int]], first_seed: int, threads: int) -> None:
        self._brokers = brokers
        self._seeds = itertools.count(first_seed)
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(threads)
        ]
        self.sent: Counter[str] = Counter()
        self.last_seeds: dict[int, int] = {}
        self._past: deque[Struck] = deque(maxlen=REMEMBERED)

    def __enter__(self) -> Attacker:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            with self._guard:
                seed = next(self._seeds)
            case = case_of(seed)
            self.last_seeds[number] = seed
            started = time.monotonic()
            attack(self._brokers[seed % len(self._brokers)], case)
            with self._guard:
                self.sent[case.kind.split(" ")[0]] += 1
                self._past.append(Struck(started, time.monotonic(), seed, case.kind))

    def struck_between(self, start_s: float, end_s: float) -> list[Struck]:
        """The cases that were on their way between two moments of the monotonic clock."""
        with self._guard:
            return [each for each in self._past if each.start_s < end_s and each.end_s > start_s]


def attack(broker: tuple[str, int], case: Case) -> int:
    """Send a case and read what comes back for a moment; the bytes that came back.

    A broker may close at any time, or not accept: whether it still serves is the victim's matter.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        connections = []
        for _ in range(case.connections):
            connection = socket.create_connection(broker, timeout=5)
            connections.append(stack.enter_context(connection))
        for connection in connections:
            for piece in _pieces(case):
                connection.sendall(piece)
        if case.slowly:
            time.sleep(HOLD_S if case.connections == 1 else HOLD_S / 4)
            return 0
        return sum(_read(connection) for connection in connections)
    return 0


def _pieces(case: Case) -> Iterator[bytes]:
    if not case.slowly:
        yield b"".join(case.sent)
        return
    for part in case.sent:
        yield part[:1]
        yield part[1:]


def _read(connection: socket.socket) -> int:
    deadline = time.monotonic() + ANSWER_LIMIT_S
    total = 0
    connection.settimeout(0.05)
    while time.monotonic() < deadline:
        try:
            chunk = connection.recv(CHUNK)
        except TimeoutError:
            if total:
                break
            continue
        if not chunk:
            break
        total += len(chunk)
    return total
