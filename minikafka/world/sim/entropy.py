"""The simulated Entropy: dice thrown from a seed."""

from __future__ import annotations

import random


class SimEntropy:
    """See ``kernel.ports.Entropy``. Each purpose has a separate stream, so that one more throw
    here moves nothing there; seeding by text does not depend on PYTHONHASHSEED."""

    def __init__(self, seed: object) -> None:
        self._seed = str(seed)
        self._dice = random.Random(self._seed)

    def fork(self, purpose: str) -> SimEntropy:
        """A stream that depends on the seed and the purpose only."""
        return SimEntropy(f"{self._seed}/{purpose}")

    def random_bytes(self, count: int) -> bytes:
        return self._dice.randbytes(count)

    def randrange(self, stop: int) -> int:
        return self._dice.randrange(stop)

    def random(self) -> float:
        return self._dice.random()

    def between(self, low: int, high: int) -> int:
        """Uniform over ``low <= n <= high``."""
        return self._dice.randint(low, high)
