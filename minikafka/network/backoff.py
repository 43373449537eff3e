"""How long to wait before the next attempt."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.kernel.ports import Entropy


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """The delay ``initial_ms * multiplier ** attempts``, at most ``max_ms``, increased or reduced
    by a random share of up to ``jitter`` (Kafka's class of this name; KIP-580, KIP-601)."""

    initial_ms: int = 50
    max_ms: int = 1000
    multiplier: float = 2.0
    jitter: float = 0.2

    def delay_ms(self, attempts: int, entropy: Entropy) -> int:
        """Return the milliseconds to wait after a failure that ``attempts`` failures preceded."""
        delay = float(self.initial_ms)
        for _ in range(attempts):
            delay *= self.multiplier
            if delay >= self.max_ms:
                delay = float(self.max_ms)
                break
        if self.jitter:
            delay *= 1 + self.jitter * (2 * entropy.random() - 1)
        return min(int(delay), self.max_ms)
