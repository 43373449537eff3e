"""``GroupSettings``: settings of one group (config resource GROUP), which override the broker's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from minikafka.core.group.consumer.config import ConsumerGroupConfig
from minikafka.core.group.share.config import ShareGroupConfig
from minikafka.core.group.streams.config import StreamsGroupConfig
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """All settings of a group for which at least one is set. Times in milliseconds.

    ``share_auto_offset_reset`` is ``earliest``, ``latest`` or ``by_duration:`` and an ISO 8601
    duration; ``share_isolation_level`` is ``read_committed`` or ``read_uncommitted``. Kafka:
    ``GroupConfig``."""

    consumer_heartbeat_interval_ms: int
    consumer_session_timeout_ms: int
    share_auto_offset_reset: str
    share_heartbeat_interval_ms: int
    share_isolation_level: str
    share_record_lock_duration_ms: int
    share_session_timeout_ms: int
    streams_heartbeat_interval_ms: int
    streams_initial_rebalance_delay_ms: int
    streams_num_standby_replicas: int
    streams_session_timeout_ms: int

    def of_consumers(self, config: ConsumerGroupConfig) -> ConsumerGroupConfig:
        return replace(
            config,
            session_timeout_ms=self.consumer_session_timeout_ms,
            heartbeat_interval_ms=self.consumer_heartbeat_interval_ms,
        )

    def of_shares(self, config: ShareGroupConfig) -> ShareGroupConfig:
        return replace(
            config,
            session_timeout_ms=self.share_session_timeout_ms,
            heartbeat_interval_ms=self.share_heartbeat_interval_ms,
        )

    def of_streams(self, config: StreamsGroupConfig) -> StreamsGroupConfig:
        return replace(
            config,
            session_timeout_ms=self.streams_session_timeout_ms,
            heartbeat_interval_ms=self.streams_heartbeat_interval_ms,
            standby_replicas=self.streams_num_standby_replicas,
            initial_rebalance_delay_ms=self.streams_initial_rebalance_delay_ms,
        )


# Returns the settings of a group; None if none is set, so that the broker's apply.
SettingsOf: TypeAlias = Callable[[str], GroupSettings | None]


def no_settings(group_id: str) -> GroupSettings | None:
    """Return None: no group overrides the broker's settings."""
    return None
