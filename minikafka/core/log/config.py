"""The settings of one log: those of its topic, and the broker's defaults for the others."""

from __future__ import annotations

from binascii import crc32
from typing import Final

from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.records.compression import Compression

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
NO_LIMIT: Final = 2**63 - 1
KEEP_PRODUCER_COMPRESSION: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic settings, with the defaults of Kafka 3.9. A retention of -1 means no limit.

    ``index_size_max_bytes`` is Kafka's ``segment.index.bytes``. ``compression_type`` is
    ``producer``, ``uncompressed`` or the name of a codec. ``segment_ms`` is compared with the
    timestamps of batches, so it does not roll a segment whose first batch has no timestamp. Each
    segment rolls earlier by ``roll_jitter_ms``.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_size_max_bytes: int = 10 * 1024 * 1024
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_after_max_ms: int = NO_LIMIT
    message_downconversion_enable: bool = True
    compression_type: str = KEEP_PRODUCER_COMPRESSION
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    cleanup_policy: str = "delete"
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT

    def target_compression(self, source: Compression) -> Compression:
        """Return the codec in which to store a batch that was sent in the codec ``source``."""
        if self.compression_type == KEEP_PRODUCER_COMPRESSION:
            return source
        if self.compression_type == UNCOMPRESSED:
            return Compression.NONE
        return Compression[self.compression_type.upper()]

    def compression_level(self, codec: Compression) -> int | None:
        """Return the level to compress with (KIP-390), None for codecs without levels."""
        return {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }.get(codec)

    @property
    def deletes(self) -> bool:
        """Whether ``cleanup.policy`` includes ``delete``: retention may delete old segments."""
        return "delete" in self.cleanup_policy.split(",")

    @property
    def compacts(self) -> bool:
        """Whether ``cleanup.policy`` includes ``compact``: only the last record of each key has to
        be kept."""
        return "compact" in self.cleanup_policy.split(",")


def roll_jitter_ms(config: LogConfig, path: str) -> int:
    """Return by how many ms less than ``segment_ms`` the segment at ``path`` rolls.

    It is below ``segment_jitter_ms``. Kafka uses a random number; a hash of the path is spread as
    well and is the same after a restart."""
    limit_ms = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(path.encode()) % limit_ms if limit_ms > 0 else 0
