"""What happened in a simulation, in order: equal traces mean equal runs."""

from __future__ import annotations

import hashlib

from minikafka.world.sim.loop import SimLoop


class Trace:
    """``events`` lists what is worth reading; ``digest`` also covers what is not (bytes moved)."""

    def __init__(self, loop: SimLoop) -> None:
        self.events: list[str] = []
        self._loop = loop
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, name: str, /, **facts: object) -> None:
        """A line such as ``12.003456 kill host=broker-1``; the time is in simulated seconds."""
        told = "".join(f" {key}={value}" for key, value in facts.items())
        line = f"{self._loop.seconds():.6f} {name}{told}"
        self.events.append(line)
        self._hash.update(line.encode())

    def stir(self, name: str, data: bytes | memoryview = b"") -> None:
        """Into the digest only."""
        self._hash.update(f"{self._loop.now_us} {name}".encode())
        self._hash.update(data)

    def digest(self) -> str:
        return self._hash.hexdigest()
