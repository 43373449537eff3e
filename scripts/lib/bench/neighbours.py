"""Neighbours of an attack or a move: they produce a record at a time and know the longest wait."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Sequence
from typing import Self

from minikafka.protocol.api_keys import ApiKey
from scripts.lib.bench.requests import accepted, produce_frame, receive

TOPIC = "neighbour"
RECORD_BYTES = 100


class Neighbours:
    """A context: a connection to each port, with records for the partition beside it.

    ``longest_s`` is inf if a record was refused, or had no response within ``limit_s``."""

    def __init__(
        self,
        partitions: Sequence[tuple[int, int]],
        every_s: float,
        limit_s: float,
        warm_up: int = 0,
    ) -> None:
        """``partitions`` are ports and partitions; ``warm_up`` records of each do not count."""
        self._every_s, self._limit_s, self._warm_up = every_s, limit_s, warm_up
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=each, daemon=True) for each in partitions
        ]
        self._ready = threading.Semaphore(0)
        self.longest_s = 0.0

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

    def _run(self, port: int, partition: int) -> None:
        frame = produce_frame(TOPIC, RECORD_BYTES, acks=1, partition=partition)
        try:
            with socket.create_connection(("127.0.0.1", port), self._limit_s) as connection:
                for _ in range(self._warm_up):
                    self._produce(connection, frame)
                self._ready.release()
                while not self._stop.wait(self._every_s):
                    self.longest_s = max(self.longest_s, self._produce(connection, frame))
        except (OSError, RuntimeError):  # time-outs too, and refused records
            self.longest_s = math.inf
            self._ready.release()

    @staticmethod
    def _produce(connection: socket.socket, frame: bytes) -> float:
        started = time.perf_counter()
        connection.sendall(frame)
        answer = receive(connection)
        took = time.perf_counter() - started
        if answer is None:
            raise ConnectionError
        accepted(ApiKey.PRODUCE, answer)
        return took
