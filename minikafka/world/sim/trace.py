"""The record of a simulation's events in order; two runs with equal digests did the same."""

from __future__ import annotations

import hashlib

from minikafka.world.sim.loop import SimLoop


class Trace:
    """``events`` are lines for a reader; ``digest`` also covers details, as transferred bytes."""

    def __init__(self, loop: SimLoop) -> None:
        self.events: list[str] = []
        self._loop = loop
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, name: str, /, **facts: object) -> None:
        """Add a line such as ``12.003456 kill host=broker-1``; the time is in simulated seconds."""
        told = "".join(f" {key}={value}" for key, value in facts.items())
        line = f"{self._loop.seconds():.6f} {name}{told}"
        self.events.append(line)
        self._hash.update(line.encode())

    def stir(self, name: str, data: bytes | memoryview = b"") -> None:
        """Add to the digest, but not to the lines."""
        self._hash.update(f"{self._loop.now_us} {name}".encode())
        self._hash.update(data)

    def digest(self) -> str:
        return self._hash.hexdigest()
