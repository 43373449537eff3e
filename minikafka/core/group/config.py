"""The limits of groups, by Kafka's configuration keys."""

from __future__ import annotations

from typing import Final

from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass

# How long a JoinGroup of a new member is parked at most: it cannot send heartbeats yet.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Kafka's configuration of groups and its defaults; times in milliseconds.

    ``offset_metadata_max_bytes`` counts characters, as in Kafka.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    inter_broker_protocol: InterBrokerProtocol = LATEST
