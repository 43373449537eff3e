"""How long to wait before the next attempt."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.kernel.ports import Entropy


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Kafka's class of that name: ``initial_ms * multiplier ** attempts`` up to ``max_ms``, then
    varied by a random share of up to ``jitter`` either way (KIP-601, KIP-580)."""

    initial_ms: int = 50
    max_ms: int = 1000
    multiplier: float = 2.0
    jitter: float = 0.2

    def delay_ms(self, attempts: int, entropy: Entropy) -> int:
        """Milliseconds after ``attempts`` failures before this one (0: the first)."""
        delay = float(self.initial_ms)
        for _ in range(attempts):
            delay *= self.multiplier
            if delay >= self.max_ms:
                delay = float(self.max_ms)
                break
        if self.jitter:
            delay *= 1 + self.jitter * (2 * entropy.random() - 1)
        return min(int(delay), self.max_ms)
