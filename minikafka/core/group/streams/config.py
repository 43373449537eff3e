"""The configuration of streams groups (KIP-1071)."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    """Kafka's configuration of streams groups and its defaults; times in milliseconds.

    A group without members waits ``initial_rebalance_delay_ms`` for others after the first.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000
