"""Neighbours of an attack, a page or a move: they produce one small record at a time."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Sequence
from typing import Self

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import error_codes
from scripts.lib.bench.requests import decoded, produce_frame, receive

TOPIC = "neighbour"


class Neighbours:
    """A context: one connection to each port, which produces to the partition beside it.

    ``taken`` has, for each of them, when each accepted record was sent and how long it took, in
    seconds. ``longest_s`` is the longest of these; it is inf if a record was refused, or had no
    response within ``limit_s``.
    """

    def __init__(
        self,
        partitions: Sequence[tuple[int, int]],
        every_s: float,
        limit_s: float = 60.0,
        warm_up: int = 0,
        topic: str = TOPIC,
        record_bytes: int = 100,
    ) -> None:
        """``partitions`` are ports and partitions; ``warm_up`` records of each do not count."""
        self._every_s, self._limit_s, self._warm_up = every_s, limit_s, warm_up
        self._topic, self._record_bytes = topic, record_bytes
        self._stop = threading.Event()
        self._ready = threading.Semaphore(0)
        self.taken: list[list[tuple[float, float]]] = [[] for _ in partitions]
        self._failed = False
        self._threads = [
            threading.Thread(target=self._run, args=(*each, taken), daemon=True)
            for each, taken in zip(partitions, self.taken, strict=True)
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

    def _run(self, port: int, partition: int, taken: list[tuple[float, float]]) -> None:
        frame = produce_frame(self._topic, self._record_bytes, acks=1, partition=partition)
        try:
            with socket.create_connection(("127.0.0.1", port), self._limit_s) as connection:
                self._produce(connection, frame, taken)
        except OSError:  # a time-out, too
            self._failed = True
        self._ready.release()

    def _produce(
        self, connection: socket.socket, frame: bytes, taken: list[tuple[float, float]]
    ) -> None:
        """Produce until the end. Raises OSError at a time-out and when a record is refused."""
        number = 0
        while not self._stop.wait(self._every_s):
            started = time.monotonic()
            connection.sendall(frame)
            answer = receive(connection)
            took = time.monotonic() - started
            if not answer or error_codes(decoded(ApiKey.PRODUCE, answer)):
                raise ConnectionError("refused")
            if number >= self._warm_up:
                taken.append((started, took))
            number += 1
            if number == max(1, self._warm_up):
                self._ready.release()
