"""The real Entropy: the operating system's randomness."""

from __future__ import annotations

import os
import random


class RealEntropy:
    """See ``kernel.ports.Entropy``."""

    def __init__(self) -> None:
        self._dice = random.Random(os.urandom(16))

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def randrange(self, stop: int) -> int:
        return self._dice.randrange(stop)

    def random(self) -> float:
        return self._dice.random()
