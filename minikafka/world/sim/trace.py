"""The trace of a simulation: its events in order, and a digest to compare two runs."""

from __future__ import annotations

import hashlib

from minikafka.world.sim.loop import SimLoop


class Trace:
    """``events`` are lines for a reader. ``digest`` also covers the bytes that were sent, so
    two runs with equal digests were equal."""

    def __init__(self, loop: SimLoop) -> None:
        self.events: list[str] = []
        self._loop = loop
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, name: str, /, **facts: object) -> None:
        """Add a line such as ``12.003456 kill host=broker-1``, which begins with the simulated time
        in seconds."""
        listed = "".join(f" {key}={value}" for key, value in facts.items())
        line = f"{self._loop.seconds():.6f} {name}{listed}"
        self.events.append(line)
        self._hash.update(line.encode())

    def add_to_digest(self, name: str, data: bytes | memoryview = b"") -> None:
        """Add to the digest, without a line."""
        self._hash.update(f"{self._loop.now_us} {name}".encode())
        self._hash.update(data)

    def digest(self) -> str:
        return self._hash.hexdigest()
