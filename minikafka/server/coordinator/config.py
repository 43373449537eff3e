"""The configuration of the coordinators."""

from __future__ import annotations

from dataclasses import field

from minikafka.core.group.group import GroupConfig
from minikafka.core.share.state_shard import ShareStateConfig
from minikafka.core.transaction.shard import TransactionConfig
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.records.compression import Compression


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """Kafka's configuration of the group coordinator and its defaults; times in milliseconds.

    ``compression`` is ``offsets.topic.compression.codec``.
    """

    group: GroupConfig = field(default_factory=GroupConfig)
    compression: Compression = Compression.NONE
    offsets_load_buffer_size: int = 5 * 1024 * 1024
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TransactionCoordinatorConfig:
    """Kafka's configuration of the transaction coordinator and its defaults.

    The fields are ``transaction.state.log.load.buffer.size`` in bytes, and in milliseconds
    ``transaction.abort.timed.out.transaction.cleanup.interval.ms`` and
    ``transaction.remove.expired.transaction.cleanup.interval.ms``.
    """

    transaction: TransactionConfig = field(default_factory=TransactionConfig)
    load_buffer_size: int = 5 * 1024 * 1024
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    """Kafka's configuration of the share coordinator and its defaults; ``prune_interval_ms`` is
    ``share.coordinator.state.topic.prune.interval.ms``, ``compression`` is
    ``share.coordinator.state.topic.compression.codec``."""

    state: ShareStateConfig = field(default_factory=ShareStateConfig)
    compression: Compression = Compression.NONE
    load_buffer_size: int = 5 * 1024 * 1024
    prune_interval_ms: int = 5 * 60 * 1000
