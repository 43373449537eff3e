"""The simulated Entropy: pseudo-random numbers from a seed."""

from __future__ import annotations

import random


class SimEntropy:
    """See ``kernel.ports.Entropy``. Each purpose has a separate stream (``fork``), so that another
    draw for one purpose changes no number of the others. The seed is text, because its hash does
    not depend on PYTHONHASHSEED."""

    def __init__(self, seed: object) -> None:
        self._seed = str(seed)
        self._random = random.Random(self._seed)

    def fork(self, purpose: str) -> SimEntropy:
        """Return a stream that depends on the seed and the purpose only."""
        return SimEntropy(f"{self._seed}/{purpose}")

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def random(self) -> float:
        return self._random.random()

    def between(self, low: int, high: int) -> int:
        """Return a number ``low <= n <= high``, uniformly distributed."""
        return self._random.randint(low, high)
