"""What the group coordinator needs of its broker's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from minikafka.core.group.config import GroupConfig
from minikafka.protocol.records.compression import Compression


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """Kafka's keys and defaults. ``compression`` is ``offsets.topic.compression.codec``."""

    group: GroupConfig = field(default_factory=GroupConfig)
    compression: Compression = Compression.NONE
    offsets_load_buffer_size: int = 5 * 1024 * 1024
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
