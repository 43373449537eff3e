"""The broker settings that apply to all logs, by Kafka's names."""

from __future__ import annotations

from dataclasses import field

from minikafka.core.log.config import NO_LIMIT, LogConfig
from minikafka.core.replication.quota import QuotaConfig
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.server.storage.log.open_segments import UNLIMITED
from minikafka.server.storage.log_cleaner import LogCleanerConfig
from minikafka.server.storage.scrubber import LogScrubberConfig


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """The settings of the log manager.

    ``log_dirs`` are absolute paths. ``log`` has the defaults for logs whose topic settings are not
    known yet. The number of recovery threads is how many logs of a directory are loaded
    concurrently at the start, and flushed concurrently at shutdown. ``file_delete_delay_ms`` is for
    deleted logs; deleted segments have the delay of their topic. ``max_open_cold_segments`` bounds
    the open files of segments that are not active, of all logs together."""

    log_dirs: tuple[str, ...]
    num_recovery_threads_per_data_dir: int = 1
    num_replica_alter_log_dirs_threads: int | None = None
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 5 * 60 * 1000
    log_flush_scheduler_interval_ms: int = NO_LIMIT
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    file_delete_delay_ms: int = 60_000
    max_open_cold_segments: int = UNLIMITED
    producer_id_expiration_ms: int = 24 * 60 * 60 * 1000
    producer_id_expiration_check_interval_ms: int = 10 * 60 * 1000
    log: LogConfig = field(default_factory=LogConfig)
    cleaner: LogCleanerConfig = field(default_factory=LogCleanerConfig)
    scrubber: LogScrubberConfig = field(default_factory=LogScrubberConfig)
    moves_quota: QuotaConfig = field(default_factory=QuotaConfig)

    @property
    def alter_log_dirs_threads(self) -> int:
        """The number of logs that are moved concurrently, by default one for each directory."""
        return self.num_replica_alter_log_dirs_threads or len(self.log_dirs)
