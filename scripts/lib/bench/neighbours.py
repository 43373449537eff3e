"""Neighbours of an attack, a page or a slow disk: each sends one small request at a time."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Self

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.requests import Check, check_of, produce_frame, receive

TOPIC = "neighbour"
# A port, the requests that are sent in turn, with their sizes, and the check of a response.
Ask = tuple[int, Sequence[bytes], Check]


def producing(port: int, partition: int = 0, topic: str = TOPIC, record_bytes: int = 100) -> Ask:
    """Return a produce of one record with acks=1."""
    frame = produce_frame(topic, record_bytes, acks=1, partition=partition)
    return port, [frame], check_of(ApiKey.PRODUCE)


class Neighbours:
    """A context: one connection for each of ``asks``, which sends its requests in turn, again and
    again.

    ``taken`` has, for each of them, when each accepted request was sent and how long it took, in
    seconds. ``longest_s`` is the longest of these; it is inf if a request was refused, or had no
    response within ``limit_s``. The first ``warm_up`` of each do not count.
    """

    def __init__(
        self,
        asks: Sequence[Ask],
        every_s: float,
        limit_s: float = 60.0,
        warm_up: int = 0,
    ) -> None:
        self._every_s, self._limit_s, self._warm_up = every_s, limit_s, warm_up
        self._stop = threading.Event()
        self._ready = threading.Semaphore(0)
        self.taken: list[list[tuple[float, float]]] = [[] for _ in asks]
        self._failed = False
        self._threads = [
            threading.Thread(target=self._run, args=(*each, taken), daemon=True)
            for each, taken in zip(asks, self.taken, strict=True)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._ready.acquire(timeout=self._limit_s)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(self._limit_s + 10)

    @property
    def longest_s(self) -> float:
        waits = (took for taken in self.taken for _, took in taken)
        return math.inf if self._failed else max(waits, default=0.0)

    def _run(
        self, port: int, frames: Sequence[bytes], check: Check, taken: list[tuple[float, float]]
    ) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port), self._limit_s) as connection:
                self._repeat(connection, cycle(frames), check, taken)
        except (OSError, RuntimeError):  # a time-out or a refusal
            self._failed = True
        self._ready.release()

    def _repeat(
        self,
        connection: socket.socket,
        frames: Iterator[bytes],
        check: Check,
        taken: list[tuple[float, float]],
    ) -> None:
        """Send until the end. Raises OSError at a time-out, RuntimeError at a refusal."""
        number = 0
        while not self._stop.wait(self._every_s):
            started = time.monotonic()
            connection.sendall(next(frames))
            answer = receive(connection)
            took = time.monotonic() - started
            if not answer:
                raise ConnectionError("closed by the broker")
            check(answer)
            if number >= self._warm_up:
                taken.append((started, took))
            number += 1
            if number == max(1, self._warm_up):
                self._ready.release()
