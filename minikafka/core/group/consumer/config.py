"""The configuration of consumer groups (KIP-848)."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Kafka's configuration of consumer groups and its defaults; times in milliseconds.

    ``assignors`` are the names of those that members may choose; the first is the default.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
