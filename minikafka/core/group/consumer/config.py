"""The configuration of consumer groups (KIP-848)."""

from __future__ import annotations

from enum import Enum

from minikafka.kernel.lazy_dataclass import dataclass


class MigrationPolicy(Enum):
    """Which groups with members change their protocol (``group.consumer.migration.policy``).

    UPGRADE: a classic group becomes a consumer group when a member of that protocol joins.
    DOWNGRADE: a consumer group becomes a classic one when its last member of that protocol leaves.
    """

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    """Kafka's configuration of consumer groups and its defaults; times in milliseconds.

    ``assignors`` are the names of those that members may choose; the first is the default.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
