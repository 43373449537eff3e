"""The configuration of share groups (KIP-932)."""

from __future__ import annotations

from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """Kafka's configuration of share groups and its defaults; times in milliseconds.

    ``initialize_retry_interval_ms``: a share coordinator that has not made the state of a
    share-partition by then is asked again.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 200
    initialize_retry_interval_ms: int = 30_000
