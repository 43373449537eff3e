"""Exponential backoff with jitter: how long to wait before the next attempt."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Kafka's class of that name: ``initial_ms * multiplier ** attempts`` up to ``max_ms``, then
    varied by a random share of up to ``jitter`` either way (KIP-601, KIP-580)."""

    initial_ms: int = 50
    max_ms: int = 1000
    multiplier: float = 2.0
    jitter: float = 0.2

    def delay_ms(self, attempts: int, draw: float) -> int:
        """Return the delay after ``attempts`` earlier failures (0: the first failure).

        ``draw`` is a random number from 0 up to, not including, 1.
        """
        delay = float(self.initial_ms)
        for _ in range(attempts):
            delay *= self.multiplier
            if delay >= self.max_ms:
                delay = float(self.max_ms)
                break
        delay *= 1 + self.jitter * (2 * draw - 1)
        return min(int(delay), self.max_ms)
